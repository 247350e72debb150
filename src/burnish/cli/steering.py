"""The work of `burnish runs try`, `tell`, `pin` and `unpin`."""

from collections.abc import Sequence
from pathlib import Path, PurePath

import typer

from burnish.cli.options import user_name
from burnish.core.errors import ConfigError, FileTrouble
from burnish.core.formatting import counted
from burnish.projects.stored_cases import stored_cases
from burnish.runs.directory import Header, RunRecord, find_run
from burnish.runs.steering import MOST_CHARS, Note, person_name, send, waiting
from burnish.system import read_text


def send_file(run: str, file: Path, *, surface: str | None, by: str | None) -> None:
    """Let a run try the text of a file."""
    folder = find_run(run)
    if file.is_file() and file.stat().st_size > 4 * MOST_CHARS:
        size = f"{file} has {file.stat().st_size:,} bytes"
        raise FileTrouble(size, remedy=f"{MOST_CHARS:,} characters are the most that can be tried")
    text = read_text(file).removeprefix("\ufeff")
    name = surface or _surface_of(file, Header.read(folder).steering.get("try", ()))
    _send(folder, Note(action="try", by=_name(by), values={name: text}))


def send_hint(run: str, text: str, *, by: str | None) -> None:
    """Tell the proposers of a run something."""
    _send(find_run(run), Note(action="tell", by=_name(by), text=text))


def send_pins(run: str, surfaces: Sequence[str], *, by: str | None, pin: bool) -> None:
    """Freeze surfaces of a run, or free them again."""
    action = "pin" if pin else "unpin"
    _send(find_run(run), Note(action=action, by=_name(by), surfaces=tuple(surfaces)))


def _surface_of(file: Path, surfaces: Sequence[str]) -> str:
    """The surface that a file is for: the only one, or the one that has its name."""
    names = {file.name, file.stem}
    alike = [each for each in surfaces if names & {each, PurePath(each).name, PurePath(each).stem}]
    fitting = alike if len(alike) == 1 else surfaces
    if len(fitting) > 1:
        message = f"'{file.name}' could be for any of: {', '.join(surfaces)}"
        raise ConfigError.of("--surface", message, "name one with --surface NAME")
    return next(iter(fitting), file.stem)


def _name(by: str | None) -> str:
    return person_name(user_name() if by is None else by)


def _send(folder: Path, note: Note) -> None:
    record = RunRecord.read(folder)
    send(record, note, cases=stored_cases(record))
    when = "between two trials" if record.driven else "when the run is resumed"
    typer.echo(f"sent to {record.header.id}: it is taken in {when}")
    left = len(waiting(folder))
    if left > 1:
        typer.echo(f"{counted(left, 'note')} wait now; the first one sent comes first")
    if not record.driven:
        at_limit = record.status == "finished" and record.ending is not None
        limit = f", with a limit above {record.ending.reason}" if at_limit and record.ending else ""
        typer.echo(f"resume it with `burnish runs resume {record.header.id}`{limit}")
