"""Training with a real SIGKILL: delegations go on where they were, the registry is told once."""

import sqlite3
from pathlib import Path

import pytest

from burnish.delegation.policy import PolicyRegistry
from burnish.testing.delegation_world import RULE
from tests.crash.chains import Chain
from tests.crash.delegation_worlds import registry_of
from tests.delegation.delegation_world import GUILTY

pytestmark = pytest.mark.crash


def _told(run: Path) -> list[list[tuple[object, ...]]]:
    """What stands in the registry, names of runs and times aside."""
    with sqlite3.connect(registry_of(run)) as db:
        rows = [
            db.execute("SELECT epoch_num, mean_loss FROM epochs ORDER BY id").fetchall(),
            db.execute("SELECT task_name, loss FROM epoch_runs ORDER BY rowid").fetchall(),
            db.execute(
                "SELECT artifact_name, version, is_active FROM artifact_versions ORDER BY id"
            ).fetchall(),
        ]
    db.close()
    return rows


def test_killed_in_the_first_epoch_and_in_the_second(tmp_path: Path) -> None:
    whole, chain = Chain(tmp_path / "whole" / "run", "epochs"), Chain(tmp_path / "run", "epochs")
    whole.folder.parent.mkdir()
    expected = whole.until_it_ends([])
    ended = chain.until_it_ends([("--call=9",), ("--call=35",)])
    assert chain.kills == 2
    chain.check(ended, whole, expected)
    assert _told(chain.folder) == _told(whole.folder)
    assert RULE in PolicyRegistry(registry_of(chain.folder)).texts()[GUILTY]
