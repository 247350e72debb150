"""The file that keeps what a model was asked for, so that it is not asked again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REFLECTIONS, SEARCHES = "reflections", "searches"
"""The parts of the benchmark."""


@dataclass(frozen=True)
class Log:
    """A file with one line for each result; None keeps nothing."""

    path: Path | None = None

    def of(self, part: str) -> Iterator[dict[str, Any]]:
        """What a part has made; lines that name none are rewrites."""
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            row: dict[str, Any] = json.loads(line)
            if row.pop("part", REFLECTIONS) == part:
                yield row

    def add(self, part: str, row: Mapping[str, Any]) -> None:
        """Keep a result."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps({'part': part, **row}, ensure_ascii=False)}\n")
