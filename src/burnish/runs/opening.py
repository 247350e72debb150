"""Opening a run: a new one, one to go on with, or a fork of one."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.errors import FileTrouble, SealedTestRead
from burnish.effects.once import Cache
from burnish.runs.directory import RunDirectory, look_into, what_is_lost
from burnish.runs.evaluating import CALL_LIMIT
from burnish.runs.header import Header
from burnish.runs.index import remember_run
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.system import Redactor, make_folder, remove_stale_temporaries
from burnish.version import VERSION

Furnish: TypeAlias = Callable[[Path], None]
"""Puts something into a folder that is being made, such as where its journal lies."""
RESULTS = Path("results") / "optimizer"
"""Where runs lie when nobody says otherwise."""


def start(
    setup: Setup,
    *,
    root: Path = RESULTS,
    folder: Path | None = None,
    furnish: Furnish | None = None,
) -> Run:
    """A new run under `root`, or exactly in `folder`.

    `furnish` may put more into the folder than its header before it appears.
    """
    setup.check()
    return _begin(setup, root=root, folder=folder, furnish=furnish)


def resume(setup: Setup, folder: Path, *, redactor: Redactor | None = None) -> Run:
    """Go on with a run: the same strategy over the same journal."""
    setup.check()
    Header.read(folder).require_same(setup.inputs())
    known = redactor or Redactor.from_environment(extra=setup.secrets())
    return Run(setup, RunDirectory(folder, redactor=known), search=setup.strategy.search)


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
    reader = look_into(parent)
    try:
        if (lost := what_is_lost(parent, reader)) is not None:
            note = f"{lost.message}; what is lost is paid for again"
            setup = replace(setup, notes=(*setup.notes, note))
        spent = "sealed_read" in reader.marks() or before.sealed_test == "spent"
        return _begin(
            setup,
            root=root,
            folder=folder,
            forked_from=before.id,
            sealed_test="spent" if spent else "unread",
            cache=Cache(reader, retry_missing=retry_missing),
        )
    except BaseException:
        reader.close()
        raise


def refuse_spent_test(folder: Path) -> None:
    """Refuse to search on in a run whose sealed test was read to the end."""
    with look_into(folder) as reader:
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
    furnish: Furnish | None = None,
) -> Run:
    redactor = Redactor.from_environment(extra=setup.secrets())
    inputs = setup.inputs()
    started = datetime.now(UTC)
    header = Header(
        id="",
        strategy=setup.strategy.name,
        seed=setup.seed,
        started_at=started.isoformat(timespec="seconds"),
        burnish=VERSION,
        project=setup.project,
        inputs=inputs,
        cases={split.value: len(setup.dataset.cases(split)) for split in Split},
        forked_from=forked_from,
        call_limit=CALL_LIMIT,
        sealed_test=sealed_test,
    ).redacted(redactor)
    name = f"{started:%Y-%m-%dT%H-%M-%S}_{short_id(dict(inputs))[:8]}"
    wanted = root / name if folder is None else folder
    home = _make_home(header, wanted, exactly=folder is not None, furnish=furnish)
    remember_run(home)
    directory = RunDirectory(home, redactor=redactor)
    return Run(setup, directory, search=setup.strategy.search, cache=cache)


def _make_home(
    header: Header, wanted: Path, *, exactly: bool, furnish: Furnish | None = None
) -> Path:
    """The run's folder, which appears with its header in it, under a name nobody has."""
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileTrouble(
            f"no run can be made under {wanted.parent}: {error.strerror}",
            remedy="name another folder with -o",
        ) from error
    remove_stale_temporaries(wanted.parent, shared=True)
    for number in range(1, 2 if exactly else 1000):
        home = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        if make_folder(home, partial(_fill, replace(header, id=home.name), furnish)):
            return home
    raise FileTrouble(
        f"{wanted} exists already", remedy="name another folder with -o, or resume the run there"
    )


def _fill(header: Header, furnish: Furnish | None, folder: Path) -> None:
    header.write(folder)
    if furnish is not None:
        furnish(folder)
