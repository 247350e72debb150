"""Talking to language models: references, roles with typed answers, usage, price, embedded model.

Nothing here is loaded before a model is used, and everything spent goes through the Effects
that the caller hands in.
"""
