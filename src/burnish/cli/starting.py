"""Running `burnish init`: the questions, the files, and the next commands."""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from burnish.core.errors import ConfigError, Problem
from burnish.models.health import HealthSite
from burnish.projects.starters.cases import StarterCases
from burnish.projects.starters.kinds import AGENT, STARTERS, Starter, StarterProject, StarterRequest
from burnish.projects.starters.models import ModelChoice, chosen_model, offered_models
from burnish.projects.starters.new_files import write_new
from burnish.projects.starters.programs import has_program
from burnish.runs.directory import index_folder
from burnish.system.config import near

_ENDINGS = (".csv", ".jsonl", ".ndjson", ".evalset.json")
_BY_DETAIL = {"url": "http", "command": "command"}
"""What somebody has who gives one of these flags."""


@dataclass(frozen=True, kw_only=True)
class InitRequest:
    """The arguments of the command."""

    have: str | None = None
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    """The flags about the agent, by the field of the request that they set."""
    prompts: tuple[str, ...] = ()
    cases: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    base_url: str = ""
    key_variable: str = ""
    folder: Path = Path()
    name: str = ""
    yes: bool = False


class _Questions:
    """Asks at the terminal, or takes the first choice."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        if not silent and not sys.stdin.isatty():
            message = "this is not a terminal, so burnish cannot ask"
            remedy = "add --yes to take what is likeliest; flags say the rest"
            raise ConfigError([Problem(message=message, remedy=remedy)])

    def choose(self, question: str, choices: Sequence[str]) -> int:
        """The position of the chosen one; the first by default."""
        if self._silent or len(choices) == 1:
            return 0
        typer.echo(question)
        for number, choice in enumerate(choices, start=1):
            typer.echo(f"  {number}  {choice}")
        while True:
            answer: int = typer.prompt("number", default=1, type=int)
            if 1 <= answer <= len(choices):
                return answer - 1
            typer.echo(f"a number from 1 to {len(choices)}, please")

    def text(self, question: str, default: str = "") -> str:
        """A line of text."""
        return default if self._silent else str(typer.prompt(question, default=default))


def init_project(request: InitRequest) -> None:
    """Ask what is not given, write the project, and print how to go on."""
    folder = request.folder.absolute()
    questions = _Questions(silent=request.yes)
    starter = _starter(request, folder, questions)
    asked, question = starter.asks
    details = dict(request.details)
    if asked and not details.get(asked):
        details[asked] = questions.text(question)
    cases = _cases(request, folder, questions) if starter.takes_cases else StarterCases.examples()
    project = starter.make(
        StarterRequest(
            folder=folder,
            name=request.name or _name(folder),
            cases=cases,
            model=_model(request, folder, questions, needed=starter.takes_model),
            prompts=request.prompts,
            **details,
        )
    )
    if starter.takes_cases:
        typer.echo(f"cases    {cases}")
    for path in write_new(folder, project.files):
        typer.echo(f"made     {_shown(path)}")
    _print_next(project, request.folder)


def _starter(request: InitRequest, folder: Path, questions: _Questions) -> Starter:
    if request.have is not None:
        if request.have not in STARTERS:
            message = f"burnish has no starter for '{request.have}'"
            problem = Problem(
                where="--have", message=message, remedy=near(request.have, list(STARTERS))
            )
            raise ConfigError([problem])
        return STARTERS[request.have]
    likely = _likely(request, folder)
    ordered = [likely, *(name for name in STARTERS if name != likely)]
    choices = [STARTERS[name].about for name in ordered]
    return STARTERS[ordered[questions.choose("What do you have?", choices)]]


def _likely(request: InitRequest, folder: Path) -> str:
    """What the flags and the folder look like."""
    for detail, have in _BY_DETAIL.items():
        if request.details.get(detail):
            return have
    if request.details.get("program") or has_program(folder):
        from burnish.projects.starters.programs import find_program

        program = find_program(folder, request.details.get("program", ""))
        return program.library or "python"
    return "agent" if (folder / AGENT).is_file() else "nothing"


def _cases(request: InitRequest, folder: Path, questions: _Questions) -> StarterCases:
    path = request.cases
    if path is None:
        files = sorted(each for each in folder.glob("*") if each.name.endswith(_ENDINGS))
        choices = [*(each.name for each in files), "none yet: start with forty example tickets"]
        position = questions.choose("Where are the cases?", choices)
        if position == len(files):
            return StarterCases.examples()
        path = files[position]
    cases = StarterCases.read(path, **request.columns)
    if cases.columns is None or request.yes:
        return cases
    typer.echo(f"columns  {cases.columns}")
    chosen = {
        part: questions.text(f"  column of the {part}", getattr(cases.columns, part))
        for part in ("input", "expected")
    }
    return StarterCases.read(path, **chosen)


def _model(
    request: InitRequest, folder: Path, questions: _Questions, *, needed: bool
) -> ModelChoice:
    if request.model:
        return chosen_model(
            request.model, base_url=request.base_url, key_variable=request.key_variable
        )
    if not needed:
        return ModelChoice(label="")
    existing = next(each for each in (folder, *folder.parents) if each.is_dir())
    offers = offered_models(HealthSite.of(existing, index_folder().parent, os.environ))
    offer = offers[questions.choose("Which model?", [str(each) for each in offers])]
    typer.echo(f"model    {offer}")
    return replace(offer, base_url=request.base_url, key_variable=request.key_variable)


def _name(folder: Path) -> str:
    return re.sub(r"[^\w-]+", "-", folder.name).strip("-") or "project"


def _print_next(project: StarterProject, folder: Path) -> None:
    for note in project.notes:
        typer.echo(f"note     {note}")
    for need in project.needs:
        typer.echo(f"first    {need}")
    place = [] if folder == Path() else [f"cd {shlex.quote(str(folder))}"]
    for number, line in enumerate([*place, *project.commands]):
        typer.echo(f"{'' if number else 'next':<9}{line}")


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
