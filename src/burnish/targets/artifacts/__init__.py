"""Files as a target: each candidate in a workspace of its own, run by a command, scored."""
