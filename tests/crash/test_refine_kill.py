"""Refinement under kill -9: nothing is asked twice, and what is on disk is always whole."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.cli.console import tree
from tests.crash.chains import Chain
from tests.crash.delegation_worlds import sessions_of
from tests.delegation.delegation_world import flaws_in

pytestmark = pytest.mark.crash


def _check_files(seed: Path, own: dict[str, bytes]) -> None:
    """What must hold at any instant."""
    after = tree(seed)
    assert {name: after[name] for name in own} == own
    for path in sessions_of(seed).glob("*.json"):
        json.loads(path.read_text())
    with contextlib.suppress(FileNotFoundError):
        manifest = json.loads((seed / "BEST" / "manifest.json").read_text())
        left = len(flaws_in((seed / "BEST" / "report.md").read_text()))
        assert manifest["best_loss"] == pytest.approx(0.0125 + 0.075 * left)


def test_killed_again_and_again_at_files(tmp_path: Path) -> None:
    whole, chain = Chain(tmp_path / "whole" / "seed", "refine"), Chain(tmp_path / "seed", "refine")
    whole.folder.parent.mkdir()
    expected = whole.until_it_ends([])
    assert expected.told["best"][0] == 3
    chain.prepare()
    own = tree(chain.folder)
    # What was done already is done again on the way: each life is a little longer.
    while not (ended := chain.attempt(f"--file={40 * (1 + chain.kills)}")).told:
        assert ended.killed, ended.errors
        _check_files(chain.folder, own)
        assert chain.kills < 40
    assert chain.kills >= 3
    chain.check(ended, whole, expected)
    assert len(list(sessions_of(chain.folder).glob("*.json"))) == 1
    assert not list(chain.folder.glob(".BEST.*"))
    assert json.loads((chain.folder / "BEST" / "manifest.json").read_text())["best_loss"] > 0
