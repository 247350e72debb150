"""Metrics that ask models: one judge or several, one sample or several, verdicts with reasons."""
