"""The strategy `edits`: bounded edits of files, kept only when they are clearly better."""
