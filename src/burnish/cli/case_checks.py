"""What checking files of cases says."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import typer

from burnish.core.codec import codec
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.checking import check
from burnish.evaluation.datasets.findings import Findings, SplitFacts
from burnish.evaluation.datasets.formats import read_cases
from burnish.reports.terminal import Columns


def check_cases(files: list[Path], *, near: float, as_json: bool) -> None:
    """Check the files against each other; exit code 1 when something is an error."""
    twice = {path for path in files if files.count(path) > 1}
    if twice:
        raise ConfigError([Problem(where=str(p), message="named twice") for p in sorted(twice)])
    names = {path: _name(path, files) for path in files}
    found = check({names[path]: read_cases(path).cases for path in files}, near=near)
    if as_json:
        typer.echo(json.dumps(_plain(found), indent=2, ensure_ascii=False))
    else:
        _show(found)
    if found.errors:
        raise typer.Exit(1)


def _name(path: Path, files: list[Path]) -> str:
    alike = sum(other.name == path.name for other in files)
    return path.name if alike == 1 else str(path)


def _show(found: Findings) -> None:
    table = Columns("file", "cases", "turns", "labels", "usual answer", "can show", cut=("labels",))
    for facts in found.splits:
        table.add(*_row(facts))
    table.show()
    typer.echo("can show: the smallest difference in pass rate that a paired comparison on this")
    typer.echo("many cases finds in 4 of 5 tries, at 95 % confidence")
    for line in _lines(found):
        typer.echo(line)


def _row(facts: SplitFacts) -> Iterator[str]:
    labels = ", ".join(f"{label} {count}" for label, count in facts.labels.items())
    usual = "—" if facts.usual_share is None else f"{facts.usual_share:.0%}"
    small = facts.smallest_difference
    yield from (facts.name, str(facts.cases), str(facts.turns), labels or "—", usual)
    yield f"{small:.2f}" if math.isfinite(small) else "nothing"


def _lines(found: Findings) -> Iterator[str]:
    if not found.found:
        yield "nothing else to say: no repeats, no leaks"
    for finding in found.found:
        remedy = f" — {finding.remedy}" if finding.remedy else ""
        yield f"{finding.severity.value:8} {finding.where}: {finding.message}{remedy}"


def _plain(found: Findings) -> object:
    """As JSON; what cannot be shown at all is null there."""
    data = codec(Findings).encode(found)
    return json.loads(json.dumps(data), parse_constant=lambda _: None)
