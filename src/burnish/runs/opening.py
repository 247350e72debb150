"""Opening a run: a new one, one to go on with, or a fork of one."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from burnish.core.content import short_id
from burnish.core.errors import FileTrouble, SealedTestRead
from burnish.effects.journal_reader import JournalReader
from burnish.effects.once import Cache
from burnish.runs.directory import RunDirectory
from burnish.runs.header import Header
from burnish.runs.index import remember_run
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.system import Redactor
from burnish.version import VERSION


RESULTS = Path("results") / "optimizer"
"""Where runs lie when nobody says otherwise."""


def start(setup: Setup, *, root: Path = RESULTS, folder: Path | None = None) -> Run:
    """A new run under `root`, or exactly in `folder`."""
    setup.check()
    return _begin(setup, root=root, folder=folder)


def resume(setup: Setup, folder: Path, *, redactor: Redactor | None = None) -> Run:
    """Go on with a run: the same strategy over the same journal."""
    setup.check()
    Header.read(folder).require_same(setup.inputs())
    return Run(setup, RunDirectory(folder, redactor=redactor or Redactor.from_environment()))


def fork(
    setup: Setup,
    parent: Path,
    *,
    root: Path = RESULTS,
    folder: Path | None = None,
    retry_missing: bool = False,
) -> Run:
    """A new run that takes from an earlier one's journal what it would pay for again."""
    setup.check()
    before = Header.read(parent)
    reader = JournalReader(parent)
    spent = "sealed_read" in reader.marks() or before.sealed_test == "spent"
    return _begin(
        setup,
        root=root,
        folder=folder,
        forked_from=before.id,
        sealed_test="spent" if spent else "unread",
        cache=Cache(reader, retry_missing=retry_missing),
    )


def refuse_spent_test(folder: Path) -> None:
    """Refuse to search on in a run whose sealed test was read to the end."""
    with JournalReader(folder) as reader:
        if "sealed_done" in reader.marks():
            raise SealedTestRead(
                f"run {Header.read(folder).id} has read its sealed test and is finished",
                remedy=f"search on from it with --fork {folder.name}: a new run that pays for "
                "nothing twice and marks the test as spent",
            )


def _begin(
    setup: Setup,
    *,
    root: Path,
    folder: Path | None,
    forked_from: str = "",
    sealed_test: str = "unread",
    cache: Cache | None = None,
) -> Run:
    redactor = Redactor.from_environment()
    inputs = setup.inputs()
    started = datetime.now(UTC)
    made = _make_folder(root, folder, f"{started:%Y-%m-%dT%H-%M-%S}_{short_id(dict(inputs))[:8]}")
    header = Header(
        id=made.name.removeprefix(_STARTING),
        strategy=setup.strategy.name,
        seed=setup.seed,
        started_at=started.isoformat(timespec="seconds"),
        burnish=VERSION,
        project=setup.project,
        inputs=inputs,
        cases={"train": len(setup.dataset.train), "holdout": len(setup.dataset.holdout)}
        | {"test": len(setup.dataset.test)},
        forked_from=forked_from,
        sealed_test=sealed_test,
    )
    home = _appear(header.redacted(redactor), made)
    remember_run(header.id, home)
    return Run(setup, RunDirectory(home, redactor=redactor), cache=cache)


_STARTING = ".starting-"


def _make_folder(root: Path, folder: Path | None, name: str) -> Path:
    """A folder under a name of its own; it gets its real name when it is a whole run."""
    parent, wanted = (root, name) if folder is None else (folder.parent, folder.name)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            unique = wanted if number == 1 else f"{wanted}-{number}"
            starting = parent / f"{_STARTING}{unique}"
            if not (parent / unique).exists() and _mkdir_first(starting):
                return starting
            if folder is not None:
                break
    except OSError as error:
        raise FileTrouble(
            f"no run can be made under {parent}: {error.strerror}",
            remedy="name another folder with -o",
        ) from error
    raise FileTrouble(
        f"{parent / wanted} exists already", remedy="name another folder with -o, or resume it"
    )


def _mkdir_first(path: Path) -> bool:
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def _appear(header: Header, starting: Path) -> Path:
    home = starting.with_name(starting.name.removeprefix(_STARTING))
    try:
        header.write(starting)
        os.rename(starting, home)  # noqa: PTH104 - must fail where a run is, not replace it
    except OSError as error:
        shutil.rmtree(starting, ignore_errors=True)
        raise FileTrouble(
            f"no run can be made at {home}: {error.strerror}",
            remedy="name another folder with -o",
        ) from error
    return home
