"""Automatic search: several proposers over one incumbent, and a bandit between them."""
