"""Tests with libraries that need an environment of their own."""
