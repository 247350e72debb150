"""A killed run whose `journal.db-wal` is lost or damaged afterwards is refused, not paid again."""

import argparse
import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import JournalIncomplete
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import fork
from burnish.testing import CallCounter
from tests.crash.chains import Chain, Ended
from tests.crash.worlds import toy_setup

pytestmark = pytest.mark.crash

_HEADER, _FRAME = 32, 24 + 4096


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Chain, Ended]:
    """The run that nobody interrupts."""
    chain = Chain(tmp_path_factory.mktemp("reference") / "run")
    return chain, chain.until_it_ends([])


def killed(folder: Path, call: int = 90) -> Chain:
    chain = Chain(folder)
    assert chain.attempt("--call", str(call)).killed
    return chain


def wal(chain: Chain) -> Path:
    return chain.folder / "journal.db-wal"


def gone(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    """In the middle of a frame, after a quarter of those that count."""
    path.write_bytes(path.read_bytes()[: _HEADER + _FRAME * (_frames(path) // 4) + 100])


def flipped(path: Path) -> None:
    """One bit, in a page: SQLite ends at the first frame whose checksum is wrong."""
    content = bytearray(path.read_bytes())
    content[_HEADER + _FRAME * (_frames(path) // 4) + 100] ^= 1
    path.write_bytes(content)


def _frames(path: Path) -> int:
    """Those since the file was last begun anew; older ones may lie behind them."""
    content = path.read_bytes()
    places = range(_HEADER, len(content) - _FRAME + 1, _FRAME)
    salts = content[16:24]
    return sum(content[place + 8 : place + 16] == salts for place in places)


DAMAGE: list[Callable[[Path], None]] = [gone, emptied, cut, flipped]


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_is_refused_and_nothing_is_paid_until_the_wal_is_back(
    tmp_path: Path, reference: tuple[Chain, Ended], damage: Callable[[Path], None]
) -> None:
    chain = killed(tmp_path / "run")
    calls, trials = len(chain.calls), len(_rows(chain.folder / "trials.jsonl"))
    shutil.copy(wal(chain), tmp_path / "kept")
    damage(wal(chain))
    left = {path.name: path.read_bytes() for path in (wal(chain),) if path.exists()}
    for _ in range(2):
        refused = chain.attempt()
        assert refused.code == 1
        assert "JournalIncomplete: the journal of run run has lost something" in refused.errors
        assert f"its last trial is {trials - 1}" in refused.errors, "each trial is checkpointed"
        assert f"continue from trial {trials - 1} with --fork run" in refused.errors
        assert len(chain.calls) == calls
    with pytest.raises(JournalIncomplete):
        RunRecord.read(chain.folder)
    assert all((chain.folder / name).read_bytes() == content for name, content in left.items())
    assert len(_rows(chain.folder / "trials.jsonl")) == trials
    shutil.copy(tmp_path / "kept", wal(chain))
    ended = chain.attempt()
    assert ended.code == 0, ended.errors
    chain.check(ended, *reference)


def test_it_is_noticed_before_the_first_trial_too(tmp_path: Path) -> None:
    chain = killed(tmp_path / "run", 10)
    gone(wal(chain))
    refused = chain.attempt()
    assert refused.code == 1
    assert "it has no trial" in refused.errors
    assert "continue from the start with --fork run" in refused.errors
    assert len(chain.calls) == 10


def test_a_fork_pays_for_what_is_lost_and_says_so(
    tmp_path: Path, reference: tuple[Chain, Ended]
) -> None:
    chain = killed(tmp_path / "run")
    gone(wal(chain))
    there = set(chain._journaled())  # pyright: ignore[reportPrivateUsage]
    counter = CallCounter(path=tmp_path / "forked.calls")
    ending = asyncio.run(_forked(chain.folder, tmp_path / "forked", counter))
    assert not there.intersection(counter.calls()), "what is left is not paid again"
    assert 0 < len(counter.calls()) < len(reference[0].calls)
    assert ending.best.id == reference[1].told["best"]
    told = [row for row in _rows(tmp_path / "forked" / "events.jsonl") if row["kind"] == "warning"]
    assert "has lost something" in told[0]["data"]["message"]
    assert "what was lost is paid for again" in told[0]["data"]["message"]


def test_a_lost_shm_and_a_clean_end_are_no_loss(
    tmp_path: Path, reference: tuple[Chain, Ended]
) -> None:
    chain = killed(tmp_path / "run")
    (chain.folder / "journal.db-shm").unlink()
    ended = chain.attempt()
    assert ended.code == 0, ended.errors
    chain.check(ended, *reference)
    wal(chain).unlink(missing_ok=True)  # a journal that is closed has nothing in it
    again = chain.attempt()
    assert (again.code, again.told) == (0, ended.told)


async def _forked(parent: Path, folder: Path, counter: CallCounter) -> Ending:
    usual = {"outages": 0.0, "edited": False, "no_test": False, "trials": None, "concurrency": 4}
    options = argparse.Namespace(**usual, confirm=False)
    run = fork(toy_setup(counter, options), parent, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
