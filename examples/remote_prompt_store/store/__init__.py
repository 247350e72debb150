"""A store of prompts over HTTP, and its client."""
