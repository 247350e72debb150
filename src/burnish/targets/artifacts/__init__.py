"""Files as a target: each candidate runs in a separate workspace and is scored."""
