"""The work of `burnish data grow` and `accept`: what is asked, written, checked and added."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from burnish.cli.progress import file_name
from burnish.cli.trace_import import data_redactor, kinds_kept
from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import counted, shorten, spending, visible
from burnish.datasets.formats import read_cases
from burnish.datasets.proposals import Acceptance, source_of, sources_beside
from burnish.datasets.splits import listed
from burnish.models.references import load_dotenv
from burnish.projects.growth import CaseKind, Grower, Growth, GrowthOptions
from burnish.runs.steering import person_name
from burnish.system.config import near

_CHARS = 160


def growth_options(
    files: Sequence[Path],
    *,
    kinds: str,
    redact: Sequence[str],
    keep: Sequence[str],
    concurrency: int | None,
    **more: Any,
) -> GrowthOptions:
    """The options as the flags have them; problems of all of them are raised together."""
    problems = [
        Problem(where=str(path), message="named twice")
        for path in sorted({each for each in files if files.count(each) > 1})
    ]
    names = [each.strip() for each in kinds.split(",") if each.strip()]
    known = [kind.value for kind in CaseKind]
    for name in names:
        if name not in known:
            remedy = near(name, known) or f"there are: {', '.join(known)}"
            problems.append(
                Problem(where="--kinds", message=f"unknown kind '{name}'", remedy=remedy)
            )
    if not names:
        remedy = f"name some of: {', '.join(known)}"
        problems.append(Problem(where="--kinds", message="no kind is named", remedy=remedy))
    out: Path = more["out"]
    if not out.parent.is_dir() or out.is_dir() or out.suffix != ".jsonl":
        remedy = "name a .jsonl file in a folder that exists"
        problems.append(Problem(where="-o", message=f"cannot write {out}", remedy=remedy))
    if problems:
        raise ConfigError(problems)
    return GrowthOptions(
        files=tuple(files),
        kinds=tuple(dict.fromkeys(CaseKind(name) for name in names)),
        redactor=data_redactor(redact, kinds_kept(keep)),
        concurrency=concurrency or 8,
        **more,
    )


def grow_cases(options: GrowthOptions, *, dry_run: bool, as_json: bool) -> None:
    """Grow proposals, or only say what would be asked."""
    load_dotenv(Path.cwd(), os.environ)
    grower = Grower(options=options)
    if dry_run:
        grower.check()
        sources = grower.sources()
        calls = len(sources) * len(options.kinds)
        origins = [source.origin for source in sources]
        parts = [counted(origins.count(each), each) for each in dict.fromkeys(origins)]
        typer.echo(f"sources  {', '.join(parts)}")
        typer.echo(f"would ask {options.model} {counted(calls, 'time')} at most; nothing was paid")
        return
    growth = grower.grow()
    if as_json:
        data = {**asdict(growth), "proposals": str(options.out)}
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=dict))
        return
    _show(growth, options.out)


def _show(growth: Growth, out: Path) -> None:
    typer.echo(f"asked    {growth.asked} of {counted(growth.planned, 'request')}")
    typer.echo(f"written  {counted(growth.written, 'case')}")
    for reason, count in growth.unusable.items():
        typer.echo(f"unusable {count}: {reason}")
    screened = growth.screened
    for word, names, why in (
        ("repeated", screened.repeated, "another case asks nearly the same"),
        ("leaking", screened.leaking, "nearly a case of another file, or with text of one"),
    ):
        if names:
            typer.echo(f"{word:8} {len(names)} left out, {why}: {listed(names)}")
    typer.echo(f"spent    {spending(growth.spent)}")
    if growth.stopped:
        typer.echo(f"stopped  {growth.stopped}; the same command with a higher limit goes on")
    typer.echo(f"proposed {counted(growth.new, 'new case')} in {out}")
    if screened.fit:
        typer.echo(f"next     burnish data accept {out}")


def show_proposals(proposals: Path) -> None:
    """Print every proposal; nothing is added."""
    cases = read_cases(proposals, format="jsonl").cases
    for case in cases:
        _show_case(case)
    typer.echo(f"{counted(len(cases), 'proposal')}; nothing was added")
    if cases:
        typer.echo(f"next     burnish data accept {proposals} --case {cases[0].id}, or --all")


def _show_case(case: Case) -> None:
    source = source_of(case)
    home = f" for {source['for']}" if "for" in source else ""
    grown = f" · {source['grown']} of {source['of']}" if "grown" in source else ""
    typer.echo(f"{visible(case.id)}{visible(grown)}{visible(home)}")
    proposed = " (proposed by a model)" if source.get("expected") == "proposed" else ""
    for turn in case.turns:
        typer.echo(f"  asked     {visible(shorten(turn.input, _CHARS))}")
        if turn.expected is not None:
            typer.echo(f"  expected  {visible(shorten(turn.expected, _CHARS))}{proposed}")


def accept_cases(chosen: Sequence[Acceptance], *, person: str, dry_run: bool) -> None:
    """Add the chosen proposals to their files, as far as they are still new there."""
    for each in chosen:
        if not dry_run:
            each.write(person=person_name(person))
        _say(each, dry_run=dry_run)
    files = dict.fromkeys(file_name(str(path)) for each in chosen for path in each.files)
    if not dry_run and any(each.screened.fit for each in chosen):
        typer.echo(f"next     burnish data check {' '.join(files)}")


def _say(each: Acceptance, *, dry_run: bool) -> None:
    screened, home = each.screened, file_name(str(each.home))
    word = "would add" if dry_run else "added   "
    typer.echo(f"{word} {counted(len(screened.fit), 'case')} to {home}")
    if screened.repeated:
        names = listed(screened.repeated)
        typer.echo(f"repeated {len(screened.repeated)} left out, asked there already: {names}")
    if screened.leaking:
        names = listed(screened.leaking)
        typer.echo(f"leaking  {len(screened.leaking)} left out, nearly in another file: {names}")
    if not dry_run and sources_beside(each.home).exists():
        typer.echo(f"sources  {file_name(str(sources_beside(each.home)))}")
