"""Workers that run at once, each in a copy of the workspace, and their blackboard."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.delegation.envelope import Envelope, Tally
from burnish.testing.delegation_world import COMPLETE, Response, RoleTurn, delegation, plan, use
from tests.delegation.delegation_world import REPORT, DelegationWorld
from tests.delegation.runs import events, read, rows, run, with_loop
from tests.delegation.test_delegation_resume import Broken, story, told

AT_ONCE = with_loop("budget: {max_parallel_workers: 2}", "blackboard: true")


def named(turn: RoleTurn) -> str:
    """The worker: its instructions begin with its name."""
    return turn.fields["instructions"].partition(":")[0]


def manager(turn: RoleTurn) -> Response:
    if turn.draw == 1:
        return plan("report.md", "one.md", "two.md")
    if turn.draw == 2:
        return delegation("one", "two")
    return delegation("last") if turn.draw == 3 else COMPLETE


def worker(turn: RoleTurn) -> Response:
    name = named(turn)
    steps: list[Response] = [
        use("board_post", text=f"{name} was here"),
        use("board_read"),
        use("file_write", path=f"{name}.md", content=f"{REPORT}by {name}\n"),
        use("file_write", path="report.md", content=f"{REPORT}{name} last\n"),
        {"summary": f"read {turn.answers[1:2]}", "outputs": [f"{name}.md"]},
    ]
    return steps[len(turn.answers)]


def world(breaks_at: int | None = None) -> DelegationWorld:
    asked: list[RoleTurn] = []

    def watched(role: Callable[[RoleTurn], Response]) -> Callable[[RoleTurn], Response]:
        def respond(turn: RoleTurn) -> Response:
            if len(asked) == breaks_at:
                raise Broken
            asked.append(turn)
            return role(turn)

        return respond

    return DelegationWorld(manager=watched(manager), worker=watched(worker))


async def test_they_begin_with_the_same_state_and_are_merged_in_order(tmp_path: Path) -> None:
    team = world()
    result = await run(tmp_path, team, AT_ONCE)
    assert result.status == "complete"
    final = result.run_dir / "FINAL"
    assert (final / "report.md").read_text().endswith("last last\n")
    assert {path.name for path in final.iterdir()} >= {"one.md", "two.md"}
    opening = {named(turn): turn for turn in reversed(team.turns_of("worker"))}
    assert "one.md" not in opening["two"].fields["files"], "two began before one had ended"
    assert "two.md" in opening["last"].fields["files"]
    warned = [row["msg"] for row in events(result) if row["level"] == "WARNING"]
    assert warned == ["one and two both wrote report.md: that of two is kept"]
    assert not (result.run_dir / "workers").exists() or not [
        *(result.run_dir / "workers").iterdir()
    ], "their copies are gone"


async def test_notes_of_the_others_are_seen_when_all_have_ended(tmp_path: Path) -> None:
    team = world()
    result = await run(tmp_path, team, AT_ONCE)
    answers = {named(turn): turn.answers for turn in team.turns_of("worker")}
    assert answers["two"][1] == "- two (iteration 2): two was here"
    assert answers["last"][1].splitlines() == [
        "- one (iteration 2): one was here",
        "- two (iteration 2): two was here",
        "- last (iteration 3): last was here",
    ]
    board = rows(result.run_dir / "blackboard" / f"{result.run_id}.jsonl")
    assert [note["worker_id"] for note in board] == ["one", "two", "last"]
    assert "one was here" in team.turns_of("manager")[-1].fields["results"]


async def test_they_really_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for a file of the other: in turn, the first would wait in vain."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    others = {"one": "two", "two": "one"}

    def meet(turn: RoleTurn) -> Response:
        if turn.answers:
            return {"summary": turn.answers[0]}
        name = named(turn)
        there = f"[ -e {meeting}/{others[name]} ]"
        return use("run_command", command=f"touch {meeting}/{name}; until {there}; do :; done")

    team = DelegationWorld(
        manager=lambda turn: delegation("one", "two") if turn.draw == 1 else COMPLETE, worker=meet
    )
    limits = AT_ONCE + "command_timeout: 60\n"
    result = await run(tmp_path, team, limits, task="Meet.")
    done = read(tmp_path, "iterations/001/delegations/one/result.json")
    assert "exit code 0" in done["summary"], result.reason


@pytest.mark.slow
async def test_broken_off_and_resumed_is_the_same_run(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    reference = world()
    whole = await run(tmp_path / "whole", reference, AT_ONCE)
    for place in (2, 5, 8, 12):
        folder = tmp_path / f"broken-{place}"
        folder.mkdir()
        first, second = world(breaks_at=place), world()
        with pytest.raises(Broken):
            await run(folder, first, AT_ONCE)
        result = await run(folder, second, AT_ONCE)
        assert told(result) == told(whole)
        assert story(result) == story(whole)
        lost = len(first.turns) - 1 + len(second.turns) - len(reference.turns)
        assert 0 <= lost <= 1, "only what was in flight beside it is lost"


async def test_validation_says_what_is_wrong_at_first_sight(tmp_path: Path) -> None:
    def liar(turn: RoleTurn) -> Response:
        if named(turn) == "one":
            return {"summary": "done", "outputs": ["gone.md"]}
        return worker(turn)

    team = DelegationWorld(manager=manager, worker=liar)
    await run(tmp_path, team, AT_ONCE)
    found = read(tmp_path, "iterations/002/validation.json")
    assert (found["iteration"], found["valid"]) == (2, False)
    assert found["results"] == [
        {"worker_id": "one", "valid": False, "issues": ["gone.md is not there"]},
        {"worker_id": "two", "valid": True, "issues": []},
    ]
    assert found["feedback"] == "one: gone.md is not there"


def test_workers_share_what_is_left() -> None:
    whole = Tally(
        envelope=Envelope(max_tool_calls=10, max_total_tokens=101, max_parallel_workers=3),
        tokens_spent=lambda: 11,
        tool_calls=2,
    )
    shares = [whole.branch(place, 3, lambda: 5) for place in range(3)]
    assert all(shares)
    limits = [each.envelope.max_tool_calls - 2 for each in shares if each]
    assert (limits, sum(limits)) == ([3, 3, 2], 8)
    assert [each.tokens for each in shares if each] == [16, 16, 16]
    assert [each.envelope.max_total_tokens for each in shares if each] == [41, 41, 41]
    assert whole.branch(0, 9, lambda: 0) is None, "too little is left"


def test_earlier_manifests_have_no_such_limit() -> None:
    assert "max_parallel_workers" not in Envelope().to_json()
    assert "max_parallel_workers 2" in "\n".join(Envelope(max_parallel_workers=2).lines())
    assert json.dumps(Envelope(max_parallel_workers=2).to_json())
