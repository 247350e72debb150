"""The words of burnish as frozen data, pure arithmetic, and the protocols; no I/O."""
