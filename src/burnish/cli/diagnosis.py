"""The output of `burnish doctor`, for people or for programs."""

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import typer

from burnish.cli.tokens import DATA
from burnish.models.health import (
    HealthFinding,
    HealthSite,
    examine,
    is_healthy,
    missing_for_demo,
)
from burnish.runs.directory import index_folder

_WIDTH = 80


_SERVICE_FILES = ("service.json", "worker.json")
"""As in server/tokens.py, which loads pydantic."""


def print_diagnosis(*, online: bool, as_json: bool) -> bool:
    """Check everything and print it; returns whether burnish works here."""
    site = HealthSite.of(Path.cwd(), index_folder().parent, os.environ)
    findings = [*examine(site, ask_providers=online), *_service(Path.cwd() / DATA)]
    healthy = is_healthy(findings)
    if as_json:
        facts = {"healthy": healthy, "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join(_page(findings, healthy=healthy, online=online)))
    return healthy


def _service(data: Path) -> Iterator[HealthFinding]:
    """The roles of the service that was last started here, and what its clients may do."""
    files = [file for file in _SERVICE_FILES if (data / file).is_file()]
    if not files:
        return
    from burnish.server.tokens import ServiceRules  # few folders have one

    for file in files:
        rules = ServiceRules.read(data, file)
        if rules is None:
            told, remedy = f"its {file} is damaged", "start `burnish serve` again"
            yield HealthFinding(
                area="service", name="rules", state="wrong", told=told, remedy=remedy
            )
            continue
        for line in rules.lines():
            name, _, told = line.partition(": ") if ": " in line else ("tokens", "", line)
            yield HealthFinding(area="service", name=name, told=told)


def _page(findings: Sequence[HealthFinding], *, healthy: bool, online: bool) -> Iterator[str]:
    width = max(len(finding.name) for finding in findings)
    for area, members in groupby(findings, lambda finding: finding.area):
        yield area
        for finding in members:
            yield from _entry(finding, width)
    yield ""
    missing = (finding.name for finding in findings if finding.needed and finding.state != "ok")
    if not healthy:
        message = f"burnish does not work here until this is fixed: {', '.join(missing)}"
        yield from textwrap.wrap(message, _WIDTH)
    elif remedy := missing_for_demo(findings):
        yield "burnish works here; models and features marked – wait for what is named"
        yield from _folded(f"for the offline demo: {remedy}", "", "  ")
    else:
        yield "everything that the offline demo needs is available"
    if not online:
        yield "`burnish doctor --online` also calls the providers that you have keys for"


def _entry(finding: HealthFinding, width: int) -> Iterator[str]:
    mark = {"ok": "✓", "absent": "–", "wrong": "✗"}[finding.state]
    head = f"  {mark} {finding.name:{width}}  "
    indent = " " * len(head)
    yield from _folded(finding.told, head, indent)
    if finding.remedy:
        yield from _folded(finding.remedy, f"{indent}→ ", f"{indent}  ")


def _folded(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
