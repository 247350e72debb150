"""Commands of the repository: what `make` runs to write pages, schemas and pictures."""
