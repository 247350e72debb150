"""What `burnish init` writes: for each kind of file, a small project that evaluates at once."""
