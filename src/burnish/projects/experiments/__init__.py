"""Experiments: tasks that belong together, each with its runs, refinements and BEST."""
