"""The strategy `epochs`: a suite measured as a whole, one text changed an epoch."""
