"""Prompts of any agent as projects: an optimizer.json, a file of kind `prompts`, or flags alone."""
