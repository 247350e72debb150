"""What the doctor found, on the terminal or for programs."""

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import typer

from burnish.models.health import HealthFinding, HealthSite, examine, is_healthy
from burnish.runs.directory import index_folder

_WIDTH = 80
_MARKS = {"ok": "✓", "absent": "–", "wrong": "✗"}


def print_diagnosis(*, online: bool, as_json: bool) -> bool:
    """Look at everything and say it; whether the demo can run."""
    site = HealthSite.of(Path.cwd(), index_folder().parent, os.environ)
    findings = examine(site, ask_providers=online)
    healthy = is_healthy(findings)
    if as_json:
        facts = {"healthy": healthy, "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join(_page(findings, healthy=healthy, online=online)))
    return healthy


def _page(findings: Sequence[HealthFinding], *, healthy: bool, online: bool) -> Iterator[str]:
    width = max(len(finding.name) for finding in findings)
    for area, members in groupby(findings, lambda finding: finding.area):
        yield area
        for finding in members:
            yield from _entry(finding, width)
    yield ""
    yield from _verdict(findings, healthy=healthy)
    if not online:
        yield "`burnish doctor --online` also asks the providers whose keys are there"


def _entry(finding: HealthFinding, width: int) -> Iterator[str]:
    head = f"  {_MARKS[finding.state]} {finding.name:{width}}  "
    indent = " " * len(head)
    yield from _folded(finding.told, head, indent)
    if finding.remedy:
        yield from _folded(finding.remedy, f"{indent}→ ", f"{indent}  ")


def _folded(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def _verdict(findings: Sequence[HealthFinding], *, healthy: bool) -> Iterator[str]:
    if healthy:
        yield "all that the offline demo needs is there"
        return
    missing = (finding.name for finding in findings if finding.needed and finding.state != "ok")
    message = f"the offline demo cannot run before this is mended: {', '.join(missing)}"
    yield from textwrap.wrap(message, _WIDTH)
