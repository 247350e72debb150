"""The examples as they are shipped, whatever a user did in their folders since.

Whoever follows the READMEs leaves results, indexes and databases in them, and `burnish adopt`
changes their files. Tests work in copies without any of that, and never in the folders themselves.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from burnish.projects.adopt_files import Adopted, AdoptedFile, without
from burnish.runs.homes import ADOPTED

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

_STATE = {"results", "work", "__pycache__"}
_ENDINGS = (".db", ".db-shm", ".db-wal", ".lock", ".pyc")


def is_left_behind(name: Path) -> bool:
    """Whether it is the work of a run and no part of an example."""
    return any(_is_state(part) for part in name.parts)


def copy_example(name: str, to: Path, *, home: Path = ROOT) -> Path:
    """One example."""
    return _copied(home / "examples" / name, to, home)


def copy_examples(to: Path, *, home: Path = ROOT) -> Path:
    """All of them."""
    return _copied(home / "examples", to, home)


def example_files(name: str, *, home: Path = ROOT) -> Mapping[str, bytes]:
    """Every file of an example, by its path in the folder of examples."""
    top = home / "examples"
    found = ((path.relative_to(top), path) for path in (top / name).rglob("*") if path.is_file())
    return {str(n): shipped(path, home=home) for n, path in found if not is_left_behind(n)}


def shipped(path: Path, *, home: Path = ROOT) -> bytes:
    """What a file had in it before anything was adopted into it."""
    content = path.read_bytes()
    for file in _adoptions(home).get(str(path.resolve()), ()):
        if hashlib.sha256(content).hexdigest() == file.after:
            content = without(content.decode(), file.hunks).encode()
    return content


def _copied(folder: Path, to: Path, home: Path) -> Path:
    def ignored(_: str, names: list[str]) -> list[str]:
        return [name for name in names if _is_state(name)]

    def copied(source: str, target: str) -> None:
        shutil.copy2(source, target)
        Path(target).write_bytes(shipped(Path(source), home=home))

    return Path(shutil.copytree(folder, to, ignore=ignored, copy_function=copied))


def _is_state(name: str) -> bool:
    hidden = name.startswith(".") and name != ".gitignore"
    return hidden or name in _STATE or name.endswith(_ENDINGS)


@cache
def _adoptions(home: Path) -> Mapping[str, Sequence[AdoptedFile]]:
    """What was adopted into which file, the last first.

    Runs lie in the folders of examples, or where a README says `-o NAME`.
    """
    patterns = (f"*/{ADOPTED}", f"*/*/{ADOPTED}", f"examples/**/{ADOPTED}")
    folders = {path.parent for pattern in patterns for path in home.glob(pattern)}
    records = [record for folder in folders if (record := Adopted.read(folder)) is not None]
    found: dict[str, list[AdoptedFile]] = {}
    for record in sorted(records, key=lambda record: record.at, reverse=True):
        for file in record.files:
            found.setdefault(file.path, []).append(file)
    return found
