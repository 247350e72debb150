"""The prompts of roles as `burnish roles` shows and installs them."""

import difflib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.formatting import shorten
from burnish.models.references import load_dotenv
from burnish.models.roles import INSTALL_FOLDER, RolePrompt, in_force, read_prompt, shipped
from burnish.reports.rendering import Columns
from burnish.system import Redactor, read_bytes, read_text


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
        typer.echo("`burnish roles install --diff` shows how the kept files differ")


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
