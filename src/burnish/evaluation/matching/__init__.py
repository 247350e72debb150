"""Comparing values: texts, numbers, JSON trees, XML, tool calls. Pure functions with reasons."""
