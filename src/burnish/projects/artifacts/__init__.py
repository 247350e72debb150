"""Task files: text files that are edited, run and scored until they are better."""
