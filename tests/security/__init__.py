"""Hostile input: what others wrote must cost nothing but itself."""
