"""Refining one result: run the same task again with a gradient of defects, keep the best."""
