"""Refining a finished run: from its folder and flags to a refinement that is ready to go."""
