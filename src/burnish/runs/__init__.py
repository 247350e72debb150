"""A Run: its directory, journal, ledger, events, stoppers and signals."""
