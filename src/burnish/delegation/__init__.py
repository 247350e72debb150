"""Delegation: a manager and workers, gates, refinement, and training of their policy texts."""
