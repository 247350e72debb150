"""The cases of a file: calendars, written out or made from a seed. The answers lie elsewhere."""

import json
from pathlib import Path
from random import Random
from typing import Any

MONTH = 30 * 24 * 60
LONGEST = 4 * 60
"""Minutes."""


def read_cases(path: str) -> list[dict[str, Any]]:
    """Every case with its name and its bookings."""
    cases: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        {**case, "bookings": case.get("bookings") or calendar(**case["made"])} for case in cases
    ]


def calendar(*, seed: int, count: int) -> list[list[int]]:
    """Bookings of one month, in no order: the same for the same seed."""
    random = Random(seed).random  # noqa: S311
    starts = [int(random() * MONTH) for _ in range(count)]
    return [[start, start + 15 + int(random() * LONGEST)] for start in starts]
