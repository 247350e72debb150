"""The strategy `backprop`: losses walked back through the trace, merged, patched."""
