"""Measures another commit and this tree in turn, and prints both beside each other.

`make bench PART=compare REF=HEAD~5 ARGS="overhead startup"`. Each side is measured in processes
of its own, alternately, so that a machine that gets slower makes both slower. The other commit runs
with the packages that are installed here, and measures with its own benchmarks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure

HERE = Path(__file__).resolve().parents[1]
QUICK = ("overhead", "startup")
"""What is compared unless parts are named."""
_WORSE = 1.1
# Only what every commit has: the table of parts, and figures that are dataclasses.
_MEASURE = """\
import json, os, sys, tempfile
from dataclasses import asdict
from benchmarks.__main__ import PARTS
with tempfile.TemporaryDirectory() as home:
    os.environ["BURNISH_HOME"] = home
    found = [asdict(figure) for name in sys.argv[2:] if name in PARTS for figure in PARTS[name]()]
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One figure on both sides, in every round."""

    figure: Figure
    """How it is named and spelled here."""
    before: Sequence[float] = field(default=())
    after: Sequence[float] = field(default=())

    @property
    def ratio(self) -> float | None:
        """How many times the other commit's figure this tree's is; the best rounds count."""
        if not self.before or not self.after or not self._best(self.before):
            return None
        return self._best(self.after) / self._best(self.before)

    @property
    def verdict(self) -> str:
        """Better or worse if more than a tenth apart in every round, else nothing."""
        if (ratio := self.ratio) is None:
            return ""
        apart = max(self.before) < min(self.after) or max(self.after) < min(self.before)
        if not apart or 1 / _WORSE < ratio < _WORSE:
            return ""
        return "better" if (ratio > 1) == self.figure.more else "worse"

    def shown(self, values: Sequence[float]) -> str:
        """The best round."""
        return self.figure.spelled(self._best(values)) if values else "–"

    def _best(self, values: Sequence[float]) -> float:
        return max(values) if self.figure.more else min(values)


def compared(rounds: Sequence[tuple[list[Figure], list[Figure]]]) -> list[Compared]:
    """Figures of the same name side by side, in the order of this tree's."""
    names = {figure.what: figure for sides in rounds for side in sides for figure in side}
    order = dict.fromkeys([each.what for _, after in rounds for each in after] + list(names))

    def values(side: int, name: str) -> list[float]:
        return [each.value for sides in rounds for each in sides[side] if each.what == name]

    return [
        Compared(figure=names[name], before=values(0, name), after=values(1, name))
        for name in order
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both sides, print a table; exit code 1 if something is worse."""
    options = _options(arguments)
    parts = options.parts or list(QUICK)
    rounds: list[tuple[list[Figure], list[Figure]]] = []
    with _checked_out(options.ref) as other:
        for number in range(options.rounds):
            # The second of a pair finds warm caches: take turns.
            trees = (other, HERE) if number % 2 == 0 else (HERE, other)
            measured = {tree: _measured(tree, parts) for tree in trees}
            rounds.append((measured[other], measured[HERE]))
    found = compared(rounds)
    Console().print(_table(found, options.ref, options.rounds))
    sys.exit(any(each.verdict == "worse" for each in found))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("ref", help="the commit to compare with")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"unless named: {QUICK}")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args(arguments)


@contextmanager
def _checked_out(ref: str) -> Generator[Path]:
    """The files of a commit in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="burnish-bench-") as folder:
        archive = Path(folder) / "tree.tar"
        git = ["git", "-C", str(HERE), "archive", f"--output={archive}", ref]
        done = subprocess.run(git, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"there is no commit '{ref}' here: {done.stderr.strip()}")
        tree = Path(folder) / "tree"
        tree.mkdir()
        subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], check=True)
        yield tree


def _measured(tree: Path, parts: Sequence[str]) -> list[Figure]:
    path = os.pathsep.join(
        filter(None, (str(tree / "src"), str(tree), os.environ.get("PYTHONPATH")))
    )
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-c", _MEASURE, file.name, *parts]
        subprocess.run(command, check=True, cwd=tree, env={**os.environ, "PYTHONPATH": path})
        known = asdict(Figure(what="", value=0.0, unit="")).keys()
        rows = json.loads(Path(file.name).read_text())
    return [Figure(**{key: row[key] for key in known & row.keys()}) for row in rows]


def _table(found: Sequence[Compared], ref: str, rounds: int) -> Table:
    shown = Table(title=f"the best of {rounds} rounds", box=None, pad_edge=False)
    for column in ("what", ref, "here", "ratio", ""):
        shown.add_column(column, justify="left" if column in {"what", ""} else "right")
    for each in found:
        ratio = "" if each.ratio is None else f"× {each.ratio:.2f}"
        shown.add_row(
            each.figure.what, each.shown(each.before), each.shown(each.after), ratio, each.verdict
        )
    return shown


if __name__ == "__main__":
    main()
