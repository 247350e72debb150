"""Runs and a service's store that burnish 0.1.0 made: later versions must be able to read them.

Each archive in `old_runs/` is a whole folder of a user: the project, a finished run in `run`, an
interrupted one in `part`; or the data and the store of a service. Where a text file or the store
named the folder it was made in, it says `@HERE@`, and the store `@HOST@` for the machine; `unpack`
puts the new place there. Journals are as they were: nothing goes by a path in them. They cannot
be made again, and are never changed.
"""

import json
import os
import socket
import sqlite3
import tarfile
from pathlib import Path

ARCHIVES = Path(__file__).parent / "old_runs"
PLACE = b"@HERE@"


def unpack(name: str, folder: Path) -> Path:
    """The archive in a folder, as if it had been made there."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.suffix == ".db":
            continue
        content = path.read_bytes()
        if PLACE in content:
            path.write_bytes(content.replace(PLACE, str(folder).encode()))
    return folder


def unpack_service(folder: Path) -> Path:
    """The service's archive in a folder of this machine; its store."""
    store = unpack("service", folder) / "runs.db"
    db = sqlite3.connect(store)
    with db:
        db.execute("UPDATE burnish_runs SET folder = replace(folder, '@HERE@', ?)", (str(folder),))
        db.execute("UPDATE burnish_runs SET host = ? WHERE host != ''", (socket.gethostname(),))
    db.close()
    return store


def enter(run: Path) -> None:
    """Enter a run into the index of this machine, as 0.1.0 wrote it."""
    index = Path(os.environ["BURNISH_HOME"]) / "runs"
    index.mkdir(exist_ok=True)
    entry = {"id": run.name, "folder": str(run)}
    (index / f"{run.name}.0123456789abcdef.json").write_text(json.dumps(entry), encoding="utf-8")
