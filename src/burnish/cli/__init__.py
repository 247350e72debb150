"""The command line: thin commands over projects, runs and reports."""

from burnish.cli.main import main

__all__ = ["main"]
