"""Golden files: what users see, frozen byte for byte.

A golden is a folder of text files below tests/goldens/. A test makes the same files again, masks
what differs from one machine, moment or version to the next (see `Masks`), and compares. A
difference fails with a unified diff. Where the new output is meant, write it down with

    pytest tests/goldens --renew-goldens

(with `-k NAME` or a single test for some of them) and look at `git diff` before committing it.
"""

import difflib
import json
import re
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.version import VERSION
from tests.cli.console import Said

Watching = Callable[[Callable[[], None]], Said]
"""Calls a function and gives what it wrote and how it ended."""
HOME = Path(__file__).parent
REPOSITORY = HOME.parents[1]
RENEW = "pytest {test} --renew-goldens"

_SHOWN_LINES = 400
"""Of a diff; what is longer is read in the golden itself, after renewing it."""
_PYTHON = re.compile(rf"(?<![\d.]){re.escape('.'.join(map(str, sys.version_info[:3])))}(?![\d.])")
_BURNISH = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])")
_TIME_KEYS = r"at|\w*_at|timestamp|\w*([sS]econds|[dD]uration|elapsed|latency)\w*|\w*[tT]ime|\w*_ms"
_LEFT_OUT = (
    *("*.db", "*.lock", ".lock", "journal.count"),
    *("states/*", "states/blobs/*"),
)
_NESTED = re.compile(r"run/delegations/|/iter_\d+/run/")
"""Delegations inside of other runs: one by itself is frozen already."""
_HASH = re.compile(r"[0-9a-f]{16}|[0-9a-f]{64}")
_HASH_NAME = re.compile(r"(?<=/)(?:[0-9a-f]{64}|[0-9a-f]{16})(?=/|\.|$)")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # JSON: the values of keys that hold a time or a duration, alone or one for each split.
        (
            rf'(?P<key>"(?!max_|min_)(?:{_TIME_KEYS})": ?)(?:-?\d[\d.e+-]*|\{{[^{{}}]*\}})',
            r"\g<key><SECONDS>",
        ),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<TIME>"),
        (r"(?<!\d)\d{8}[-_T]\d{6}Z?(?:[-_][0-9a-f]{4,12}\b)?", "<STAMP>"),
        (r"(?<!\d)\d{4}-\d\d-\d\d[T_]\d\d-\d\d-\d\d(?:_[0-9a-f]{8}\b)?", "<STAMP>"),
        (r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)", "<DATE>"),
        # trajectory.csv: the duration is the last column of a row that begins with its time.
        (r"(?m)(<TIME>,.*,)\d+\.\d{3}$", r"\1<SECONDS>"),
        # Text: durations as words write them, with the blanks that align them.
        (r" *(?<![\w.])(?:\d+h )?(?:\d+m )?\d+(?:\.\d+)?s(?!\w)", " <SECONDS>"),
        (r'((?:seconds|time)="?)\d+\.\d+', r"\1<SECONDS>"),
        (r"(127\.0\.0\.1|localhost):\d+", r"\1:<PORT>"),
        (r'("host": ?")[^"]+', r"\1<HOST>"),
        (r'("bytes": ?)\d+', r"\1<SIZE>"),
        (r"\bprocess \d+", "process <PID>"),
        (r"\bpid \d+", "pid <PID>"),
        # The minor version is part of what a resume compares.
        (r'(burnish version"?: ")\d+\.\d+"', r'\1<MINOR>"'),
    )
)


@dataclass(frozen=True, kw_only=True)
class Masks:
    """Replaces what depends on the machine, the moment or the version."""

    folders: Mapping[str, str]
    """Absolute paths by what stands for them, as `<HERE>`."""

    def __call__(self, text: str) -> str:
        """The text without what varies."""
        for path, name in sorted(self.folders.items(), key=lambda each: -len(each[0])):
            text = text.replace(path, name)
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        return _PYTHON.sub("<PYTHON>", _BURNISH.sub("<VERSION>", text))


@dataclass(frozen=True, kw_only=True)
class Goldens:
    """Compares what a test made with what is frozen, or freezes it."""

    masks: Masks
    renewing: bool
    test: str
    """The test's id, to say how its goldens are renewed."""

    def check(self, area: str, made: Mapping[str, str]) -> None:
        """Hold these files against the folder of an area: the same names, the same bytes."""
        folder = HOME / area
        files = {self.masks(name): self.masks(text) for name, text in made.items()}
        if self.renewing:
            _write(folder, files)
            return
        frozen = _read(folder)
        lines = [
            line
            for name in sorted({*frozen, *files})
            for line in _difference(f"{area}/{name}", frozen.get(name), files.get(name))
        ]
        if lines:
            raise AssertionError(self._message(area, lines))

    def _message(self, area: str, lines: list[str]) -> str:
        more = [f"… {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
        diff = "\n".join((*lines[:_SHOWN_LINES], *more))
        renew = RENEW.format(test=self.test)
        return f"{area} is not what is frozen:\n{diff}\n\nIf that is meant: {renew}"


def shown(said: Said) -> str:
    """What a command wrote, and its exit code."""
    err = f"--- stderr ---\n{said.err}" if said.err else ""
    return f"{said.out}{err}--- exit code {said.code} ---\n"


def left_behind(folder: Path, before: Container[str]) -> dict[str, str]:
    """What a command left in a folder: a list of all files, and what is in the text files.

    Of run.json, the hashes are left out, and all of journals, locks and delegations inside of
    other runs. A program gets another ending, so that no tool takes it for code of ours.
    """
    new = [path for path in _files(folder) if str(path.relative_to(folder)) not in before]
    made = {"files.txt": _listing(folder, new)}
    for path in new:
        name = path.relative_to(folder)
        if path.name == "run.json":
            made[f"{name}.txt"] = "".join(f"{line}\n" for line in _flat(json.loads(_text(path))))
        elif not path.is_symlink() and not _is_left_out(name):
            made[f"{name}.txt" if name.suffix == ".py" else str(name)] = _text(path)
    return made


def _files(folder: Path) -> list[Path]:
    """All files; what SQLite keeps beside a database is there or not as it likes."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if (path.is_file() or path.is_symlink())
        and "__pycache__" not in path.parts
        and not path.name.endswith(("-shm", "-wal"))
    ]


def _listing(folder: Path, files: Iterable[Path]) -> str:
    """One a line, a link with what it leads to; names that are hashes stand for each other."""
    lines = {
        _HASH_NAME.sub("<HASH>", str(path.relative_to(folder)))
        + (f" -> {path.readlink()}" if path.is_symlink() else "")
        for path in files
    }
    return "".join(f"{line}\n" for line in sorted(lines))


def _is_left_out(name: Path) -> bool:
    return any(name.match(pattern) for pattern in _LEFT_OUT) or bool(_NESTED.search(str(name)))


def _flat(value: Json, path: str = "") -> Iterator[str]:
    """`a.b: 1` for every value; a hash is only there or not."""
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            yield from _flat(below, f"{path}.{key}" if path else key)
    else:
        is_hash = isinstance(value, str) and _HASH.fullmatch(value)
        yield f"{path}: {'<HASH>' if is_hash else json.dumps(value, ensure_ascii=False)}"


def _text(path: Path) -> str:
    return path.read_bytes().decode()


def _difference(name: str, old: str | None, new: str | None) -> Iterable[str]:
    if old is None:
        yield f"+++ {name}: nobody froze this file"
    if new is None:
        yield f"--- {name}: this file is not made any more"
    if old is None or new is None or old == new:
        return
    before, after = old.splitlines(), new.splitlines()
    if before == after:
        yield f"{name}: only line ends differ"
    yield from difflib.unified_diff(
        before, after, f"{name} (frozen)", f"{name} (made)", lineterm=""
    )


def _read(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _write(folder: Path, files: Mapping[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
