"""The gates that a completion must pass, in their order."""
