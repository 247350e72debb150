"""Agent files: how one is read into the description of a run, and built from it."""
