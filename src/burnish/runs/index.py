"""The index: where every run on this machine lies, so that it is found by its id."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from burnish.core.content import short_id
from burnish.core.errors import FileTrouble, RunNotFound
from burnish.runs.header import NAME
from burnish.system import write_atomic


def index_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where the index lies: $BURNISH_HOME, or the user's state folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home) / "runs"
    state = env.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "burnish" / "runs"


def remember_run(folder: Path) -> None:
    """Enter a run into the index. A run works without it, so trouble here is not fatal."""
    with suppress(FileTrouble, OSError):
        index_folder().mkdir(parents=True, exist_ok=True)
        entry = json.dumps({"id": folder.name, "folder": str(folder.resolve())})
        write_atomic(_entry(folder), entry, durable=False)


def forget_run(folder: Path) -> None:
    """Take a run out of the index."""
    with suppress(OSError):
        _entry(folder).unlink()


def _entry(folder: Path) -> Path:
    """Two runs may have one name in two places, so the place is part of the entry's name."""
    return index_folder() / f"{folder.name}.{short_id(str(folder.resolve()))}.json"


def known_runs() -> Iterator[Path]:
    """The folders of all runs that still exist, newest first."""
    for entry in sorted(index_folder().glob("*.json"), reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = Path(json.loads(entry.read_text(encoding="utf-8"))["folder"])
            if (folder / NAME).is_file():
                yield folder


def find_run(name: str) -> Path:
    """The folder of a run: by path, by id, or by the beginning of an id."""
    if (Path(name) / NAME).is_file():
        return Path(name).resolve()
    found = [folder for folder in known_runs() if folder.name.startswith(name)] if name else []
    exact = [folder for folder in found if folder.name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        many = ", ".join(folder.name for folder in found[:5])
        raise RunNotFound(f"'{name}' could be any of: {many}", remedy="give more of the id")
    raise RunNotFound(
        f"there is no run '{name}'",
        remedy="`burnish runs list` shows the runs of this machine; a path to a run's folder "
        "works too",
    )
