"""The work of `burnish init`, `doctor`, `structure` and `roles`, for people or for programs."""

import difflib
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

import typer

from burnish.cli.output import as_typed, this_program
from burnish.cli.service_commands import DATA
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem, in_shell
from burnish.core.formatting import counted, shorten
from burnish.core.surfaces import Node, Position
from burnish.models.dotenv import load_dotenv
from burnish.models.health import (
    HealthFinding,
    HealthSite,
    examine,
    is_healthy,
    missing_for_demo,
)
from burnish.models.roles import INSTALL_FOLDER, RolePrompt, in_force, read_prompt, shipped
from burnish.projects.file_structure import Anatomy, read_structure
from burnish.projects.starters.detection import (
    ModelChoice,
    chosen_model,
    has_program,
    offered_models,
)
from burnish.projects.starters.files import StarterCases, write_new
from burnish.projects.starters.kinds import AGENT, STARTERS, Starter, StarterProject, StarterRequest
from burnish.reports.terminal import Columns
from burnish.runs.directory import index_folder
from burnish.system import Redactor, read_bytes, read_text
from burnish.system.config import near
from burnish.targets.graph.elements import Condition


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """The prompt of a role that is in use here, next to the shipped one."""

    prompt: RolePrompt
    shipped: Path | None

    @property
    def source(self) -> str:
        return "package" if self.prompt.source == self.shipped else str(self.prompt.source)

    @property
    def state(self) -> str:
        if self.shipped is None:
            return "your own"
        if read_bytes(self.prompt.source) == read_bytes(self.shipped):
            return "as shipped"
        version = read_prompt(self.shipped).version
        return "changed" if version == self.prompt.version else f"changed; v{version} is shipped"

    def facts(self) -> dict[str, Json]:
        return {
            "name": self.prompt.name,
            "version": self.prompt.version,
            "description": self.prompt.description,
            "source": self.source,
            "path": str(self.prompt.source),
            "state": self.state,
            "fingerprint": self.prompt.fingerprint,
        }


def print_list(*, as_json: bool) -> None:
    """Print every role with the prompt in use."""
    redactor = _redactor()
    table = Columns("role", "version", "from", "state", "description", cut=("description",))
    mine = (path.stem for path in INSTALL_FOLDER.glob("*.yaml"))
    for role in sorted({*shipped(), *mine}):
        try:
            standing = _Standing(prompt=in_force(role, Path()), shipped=shipped().get(role))
        except BurnishError as error:
            typer.echo(f"! {redactor.text(shorten(str(error), 200))}", err=True)
            continue
        if as_json:
            typer.echo(json.dumps(redactor.json(standing.facts()), ensure_ascii=False))
        prompt = standing.prompt
        about = redactor.text(prompt.description)
        table.add(role, str(prompt.version), standing.source, standing.state, about)
    if not as_json:
        table.show()


def print_prompt(role: str) -> None:
    """Print the prompt in use, and its path."""
    prompt = in_force(role, Path())
    typer.echo(f"# {prompt.source}")
    typer.echo(_redactor().text(read_text(prompt.source)).rstrip())


def install_prompts(roles: Sequence[str]) -> None:
    """Copy shipped prompts to where they can be edited; existing files stay."""
    paths = _chosen_paths(roles)
    INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
    untouched = [not _install(role, path) for role, path in paths.items()]
    typer.echo("the prompts there are used from now on; edit them as you like")
    if any(untouched):
        typer.echo(as_typed("`burnish roles install --diff` shows how the kept files differ"))


def print_changes(roles: Sequence[str]) -> None:
    """How installed prompts differ from the shipped ones."""
    redactor = _redactor()
    for role, path in _chosen_paths(roles).items():
        mine = _installed(role)
        if not mine.is_file():
            typer.echo(f"{role}: not installed; the shipped prompt is used")
        elif lines := list(_difference(path, mine)):
            typer.echo(redactor.text("".join(lines)), nl=False)
        else:
            typer.echo(f"{role}: {mine} is as shipped")


def _install(role: str, path: Path) -> bool:
    home = _installed(role)
    try:
        with home.open("xb") as file:
            file.write(read_bytes(path))
    except FileExistsError:
        typer.echo(f"kept       {home}: the file already exists")
        return False
    typer.echo(f"installed  {home}")
    return True


def _difference(old: Path, new: Path) -> Iterator[str]:
    before, after = (read_text(path).splitlines(keepends=True) for path in (old, new))
    for line in difflib.unified_diff(before, after, f"shipped/{old.name}", str(new)):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _chosen_paths(roles: Sequence[str]) -> dict[str, Path]:
    paths = shipped()
    unknown = [role for role in roles if role not in paths]
    if unknown:
        there = f"there are: {', '.join(paths)}"
        message = "there is no such role"
        raise ConfigError([Problem(where=r, message=message, remedy=there) for r in unknown])
    return {role: paths[role] for role in roles or paths}


def _installed(role: str) -> Path:
    return INSTALL_FOLDER / f"{role}.yaml"


def _redactor() -> Redactor:
    """Knows the keys of the environment and of `.env`: one may stand in an edited prompt."""
    environ = dict(os.environ)
    load_dotenv(Path(), environ)
    return Redactor.from_environment(environ)


def show_structure(path: Path, *, as_json: bool) -> None:
    """Print the structure of the agent in a file."""
    anatomy, redactor = read_structure(path), Redactor.from_environment()
    if as_json:
        from burnish.compat.promptiter.snapshot import SurfaceMap

        data = {"structure": SurfaceMap.of(anatomy.target).snapshot.to_json()}
        typer.echo(redactor.text(json.dumps(data, indent=2, ensure_ascii=False)))
        return
    for line in _tree(anatomy):
        typer.echo(redactor.text(line))


def _tree(anatomy: Anatomy) -> Iterator[str]:
    structure = anatomy.target.structure
    sizes = [counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")]
    changed = sum(position.surface in anatomy.targets for position in structure.positions)
    sizes.append(f"{changed} of {counted(len(structure.positions), 'position')} may be changed")
    yield f"{structure.id[:19]} · {', '.join(sizes)}"
    # The whole before its parts, and first of those where it begins.
    for node in sorted(
        structure.nodes, key=lambda node: (node.id.count("/"), node.id != structure.entry, node.id)
    ):
        yield ""
        yield from _node(anatomy, node)


def _node(anatomy: Anatomy, node: Node) -> Iterator[str]:
    entry = ", where it begins" if node.id == anatomy.target.structure.entry else ""
    yield f"{node.id}  {node.kind.value}{entry}"
    for edge in anatomy.target.structure.edges:
        if edge.source == node.id:
            conditions = anatomy.conditions.get((edge.source, edge.to), (None,))
            yield from (f"    → {edge.to}{_when(condition)}" for condition in conditions)
    for position in anatomy.target.structure.positions:
        if position.node == node.id:
            mark = "*" if position.surface in anatomy.targets else " "
            name = position.id.removeprefix(position.node)
            yield f"  {mark} {name:<24} {_value(position)}".rstrip()


def _when(condition: Condition | None) -> str:
    if condition is None:
        return ""
    when = "unless" if condition.negated else "when"
    if condition.function is not None:
        return f"  {when} {condition.function.name} says so"
    return f"  {when} it {condition.kind} '{condition.text}'" if condition.text else "  always"


def _value(position: Position) -> str:
    value = position.value
    if isinstance(value, tuple):
        return counted(len(value), "demonstration")
    if not isinstance(value, str) or position.type.value == "model":
        return str(value)
    size = counted(len(value), "character")
    return f"{size}: {shorten(value, 60)}" if value.strip() else size


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
        for line in cases.columns_lines:
            typer.echo(f"         {line}")
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
        from burnish.projects.starters.detection import find_program

        program = find_program(folder, request.details.get("program", ""))
        return program.library or "python"
    return "agent" if (folder / AGENT).is_file() else "nothing"


def _cases(request: InitRequest, folder: Path, questions: _Questions) -> StarterCases:
    path = request.cases
    if path is None:
        files = sorted(each for each in folder.glob("*") if each.name.endswith(_ENDINGS))
        choices = [*(each.name for each in files), "none yet: start with 120 example tickets"]
        position = questions.choose("Where are the cases?", choices)
        if position == len(files):
            return StarterCases.examples()
        path = files[position]
    cases = StarterCases.read(path, **request.columns)
    if cases.columns is None or request.yes:
        return cases
    for number, line in enumerate(cases.columns_lines):
        typer.echo(f"{'' if number else 'columns':<9}{line}")
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
    place = [] if folder == Path() else [f"cd {in_shell(folder)}"]
    program = this_program(elsewhere=bool(place))
    commands = (line.replace("burnish", program, 1) for line in project.commands)
    for number, line in enumerate([*place, *commands]):
        typer.echo(f"{'' if number else 'next':<9}{line}")


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
