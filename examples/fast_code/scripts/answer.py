"""Answers calendars, read as JSON from stdin, with the function that is to be made faster."""

# ruff: noqa: T201
import json
import sys
from pathlib import Path

# The candidate is found in the workspace, in which every command of the task starts.
sys.path.insert(0, str(Path.cwd()))

from bookings import busiest


def main() -> None:
    """Print the answers as JSON."""
    asked = json.load(sys.stdin)
    print(json.dumps([busiest([(start, end) for start, end in each]) for each in asked]))


if __name__ == "__main__":
    main()
