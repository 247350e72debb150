"""Agent files: an agent as YAML, run with pydantic-ai, edited by path, exported to be adopted."""
