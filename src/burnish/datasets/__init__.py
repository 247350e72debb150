"""Cases in files: reading and writing every format, splitting, and checking what is there."""
