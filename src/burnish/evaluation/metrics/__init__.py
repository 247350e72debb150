"""Metrics that compute their score from what was said and done."""
