"""Rewriting and searching with a real model: burnish beside gepa, on small tasks made by script."""
