"""Coordinate descent over an agent: demonstrations, numbers and texts in phases that compound."""
