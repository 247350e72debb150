"""The cheapest candidate that is not worse than the baseline by more than a margin."""
