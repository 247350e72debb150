"""How long it takes to start."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Figure

BURNISH = str(Path(sys.executable).with_name("burnish"))


def figures() -> list[Figure]:
    """Everything this file measures."""
    bare = _best([sys.executable, "-c", "pass"])
    return [
        Figure(what="import burnish (beyond bare Python)",
               value=max(0.0, _best([sys.executable, "-c", "import burnish"]) - bare),
               unit="s", goal=0.1),
        Figure(what="burnish --version", value=_best([BURNISH, "--version"]), unit="s", goal=0.1),
        Figure(what="burnish --help", value=_best([BURNISH, "--help"]), unit="s", goal=0.3),
    ]  # fmt: skip


def _best(command: list[str]) -> float:
    """The best of several: the others measured whatever else the machine was doing."""
    times: list[float] = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)
