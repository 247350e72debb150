"""Tests of what is sent to other systems."""
