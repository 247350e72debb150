"""Refinement under kill -9: nothing is asked twice, and what is on disk is always whole."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from burnish.testing.delegation_world import flaws_in
from tests.cli.console import tree
from tests.crash.bills import check_bill
from tests.crash.nursery import nursery
from tests.crash.refine_child import make_seed

pytestmark = pytest.mark.crash

RUN = "import sys, pathlib; from tests.crash.refine_child import run; run(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))"  # fmt: skip  # noqa: E501
NOBODY = 10**9


class World:
    """A seed, and processes that refine it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        make_seed(folder)
        self.folder, self.seed = folder, folder / "seed"
        self.own = tree(self.seed)

    def refine(self, what: str = "call", number: int = NOBODY) -> dict[str, Any] | None:
        """The session at its end; None where it was killed."""
        place = self.folder / "outputs"
        place.mkdir(exist_ok=True)
        env = {**os.environ, "BURNISH_HOME": str(self.folder / "home")}
        ended = nursery(0, "tests.crash.refine_child").run(
            RUN, str(self.folder), what, str(number), cwd=self.folder, outputs=place, env=env
        )
        if ended.code == -signal.SIGKILL:
            return None
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def check(self) -> None:
        """What must hold at any instant."""
        after = tree(self.seed)
        assert {name: after[name] for name in self.own} == self.own
        for path in (self.seed / "refinement_sessions").glob("*.json"):
            json.loads(path.read_text())
        with contextlib.suppress(FileNotFoundError):
            manifest = json.loads((self.seed / "BEST" / "manifest.json").read_text())
            left = len(flaws_in((self.seed / "BEST" / "report.md").read_text()))
            assert manifest["best_loss"] == pytest.approx(0.025 + 0.075 * left)


def told(session: dict[str, Any]) -> tuple[Any, ...]:
    """What was decided; ids and times are different each time."""
    rows = [(row["k"], row["loss"], row["note"]) for row in session["iterations"]]
    return session["stop_reason"], session["best_iter"], session["best_loss"], rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, dict[str, Any]]:
    world = World(tmp_path_factory.mktemp("whole"))
    session = world.refine()
    assert session is not None
    assert session["best_iter"] == 3
    world.check()
    return world, session


@pytest.mark.parametrize(("what", "stride"), [("call", 6), ("rename", 29)])
def test_killed_again_and_again(
    whole: tuple[World, dict[str, Any]], tmp_path: Path, what: str, stride: int
) -> None:
    reference, expected = whole
    world, kills, session = World(tmp_path / "world"), 0, None
    # What was done already is done again on the way: each life is a little longer.
    while session is None:
        session = world.refine(what, stride * (1 + kills if what == "rename" else 1))
        kills += session is None
        world.check()
        assert kills < 40
    assert kills >= 3
    assert told(session) == told(expected)
    assert session["best_written"]
    # At most the call in flight is lost to a kill.
    assert len(world.calls) <= len(reference.calls) + kills
    assert len(list((world.seed / "refinement_sessions").glob("*.json"))) == 1
    assert not list(world.seed.glob(".BEST.*"))
    (run,) = (path for path in (world.seed / "refinement_sessions").iterdir() if path.is_dir())
    check_bill(run, asked=len(world.calls), lost=kills)
