"""The strategy `reflective`: a pool of candidates, rewritten by reflection on failures (GEPA)."""
