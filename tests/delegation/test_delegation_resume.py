"""A run that breaks off anywhere goes on where it was: nothing twice, the workspace put back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnish.delegation.result import DelegationResult
from burnish.testing.delegation_world import COMPLETE, Response, RoleTurn, delegation, plan, use
from tests.delegation.delegation_world import FLOW, GOOD, REPORT, DelegationWorld
from tests.delegation.runs import rows, run

pytestmark = pytest.mark.slow

COUNTED = "echo line >> log.txt; grep -c line log.txt"


class Broken(Exception):
    """The process ends here."""


def manager(turn: RoleTurn) -> Response:
    if turn.draw == 1:
        return plan("report.md", "log.txt")
    return delegation("one", "two") if turn.draw == 2 else COMPLETE


def worker(turn: RoleTurn) -> Response:
    match len(turn.answers):
        case 0:
            return use("run_command", command=COUNTED)
        case 1:
            return use("file_write", path="report.md", content=f"{REPORT}{turn.answers[0]}\n")
        case _:
            return {"summary": f"saw {turn.answers[0]!r}"}


def world(*, breaks_at: int | None = None) -> DelegationWorld:
    asked: list[str] = []

    def watched(role: Callable[[RoleTurn], Response]) -> Callable[[RoleTurn], Response]:
        def said(turn: RoleTurn) -> Response:
            if len(asked) == breaks_at:
                raise Broken
            asked.append("")
            return role(turn)

        return said

    return DelegationWorld(
        manager=watched(manager), worker=watched(worker),
        critic=watched(lambda _: GOOD),
    )  # fmt: skip


def told(result: DelegationResult) -> tuple[Any, ...]:
    """What a run came to, times aside."""
    names = ("status", "reason", "iterations", "spent", "critique", "result")
    return tuple(getattr(result, name) for name in names)


def story(result: DelegationResult) -> list[Any]:
    """The log and the numbers, times aside."""
    both = [
        *rows(result.run_dir / "logs" / result.run_id / "events.jsonl"),
        *rows(result.run_dir / "metrics.jsonl"),
    ]
    timed = ("ts", "wall_time", "budget_remaining_pct", "run_id")
    return [
        json.loads(
            json.dumps(row),
            object_hook=lambda found: {k: v for k, v in found.items() if k not in timed},
        )
        for row in both
    ]


async def test_broken_off_at_one_call_and_gone_on(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    reference = world()
    whole = await run(tmp_path / "whole", reference)
    assert whole.status == "complete"
    assert "exit code 0" in whole.deliverables[0].read_text()
    # The first decision; before a worker's command, after it, in the second worker, at the two
    # critics that are asked at once, and at the last decision.
    assert len(reference.turns) == 11
    for place in (0, 2, 3, 6, 9, 10):
        folder = tmp_path / f"broken-{place}"
        folder.mkdir()
        first, second = world(breaks_at=place), world()
        with pytest.raises(Broken):
            await run(folder, first)
        # Whatever a killed run may have left there.
        (folder / "run/workspace").mkdir(exist_ok=True)
        (folder / "run/workspace/log.txt").write_text("line\nline\nspoilt\n")
        (folder / "run/workspace/report.md").write_text("spoilt")
        result = await run(folder, second)
        assert told(result) == told(whole)
        assert [p.read_bytes() for p in result.deliverables] == [
            p.read_bytes() for p in whole.deliverables
        ]
        assert story(result) == story(whole)
        calls = len(first.turns) - 1 + len(second.turns)
        at_once = 1 if place == 9 else 0
        assert 0 <= calls - len(reference.turns) <= at_once, "only what was in flight is lost"


async def test_a_finished_run_gives_its_result_again_and_pays_nothing(tmp_path: Path) -> None:
    first = await run(tmp_path, world())
    completion = (tmp_path / "run/run_completion.json").read_bytes()
    silent = world(breaks_at=0)
    again = await run(tmp_path, silent)
    assert again == first
    assert silent.turns == []
    assert (tmp_path / "run/run_completion.json").read_bytes() == completion


async def test_the_same_command_at_the_same_state_is_run_each_time(tmp_path: Path) -> None:
    """A key is more than its content: who asked, and for the how-manieth time, is part of it."""
    outside = tmp_path / "outside.txt"

    def twice(turn: RoleTurn) -> Response:
        if len(turn.answers) < 2:
            return use("run_command", command=f"echo x >> {outside}")
        return {"summary": "done"}

    both = DelegationWorld(
        manager=lambda t: delegation("one", "two") if t.draw == 1 else COMPLETE, worker=twice
    )
    await run(tmp_path, both, FLOW, task="Do it.")
    assert outside.read_text() == "x\n" * 4
