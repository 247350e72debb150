"""A run's story: what its ledger tells, times aside. Two runs with one story decided alike."""

import json
from pathlib import Path
from typing import Any

_TIMES = {"at", "timestamp", "seconds", "split_seconds", "duration_sec", "latency_sec", "billed"}


def story(trials: Path) -> list[Any]:
    """The rows of a trials.jsonl without times and billed amounts."""
    lines = trials.read_text(encoding="utf-8").splitlines()
    return [_timeless(json.loads(line)) for line in lines]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _TIMES}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_timeless(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
