"""The policy texts as a target: what a delegation counts for, and what reaches its prompts."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Outcome
from burnish.core.money import NOTHING, Spend, total
from burnish.core.surfaces import Candidate, Origin
from burnish.delegation.policy import NAMES, PolicyTexts
from burnish.delegation.target import DelegationLoss, DelegationTarget, SuiteTask
from burnish.delegation.team import load_workflow
from burnish.journal.journal import Journal
from burnish.journal.once import DirectEffects, JournaledEffects
from burnish.models.errors import ModelUnavailable
from burnish.system import Redactor
from burnish.system.yaml import parse_tree
from burnish.testing.delegation_world import COMPLAINT, FAULT, Response, RoleTurn, plan, use
from burnish.testing.doubles import check_metric, check_target
from tests.delegation.delegation_world import (
    GUILTY,
    SUITE_FLOW,
    DelegationWorld,
    in_order,
    suite_world,
    task,
)

RUBRIC = "critique_rubric"


def target_of(folder: Path, world: DelegationWorld, *names: str, **more: Any) -> DelegationTarget:
    path = folder / "workflow.yaml"
    path.write_text(SUITE_FLOW, encoding="utf-8")
    workflow = load_workflow(path, models=world.models()).workflow
    tasks = [SuiteTask(name=n, task=task(n), workflow=workflow) for n in names or ("heat",)]
    return DelegationTarget(PolicyTexts.shipped(), tasks, home=folder / "home", **more)


def with_text(target: DelegationTarget, name: str, text: str) -> Candidate:
    return target.baseline.child({name: text}, origin=Origin())


async def outcome_of(target: DelegationTarget, candidate: Candidate | None = None) -> Outcome:
    case = target.tasks["heat"].case
    receipt = await target.run(candidate or target.baseline, case, draw=0, effects=DirectEffects())
    assert receipt.missing == receipt.value.missing
    return receipt.value


async def score_of(target: DelegationTarget, candidate: Candidate | None = None) -> Any:
    outcome = await outcome_of(target, candidate)
    (score,) = await DelegationLoss().score(
        target.tasks["heat"].case, outcome, effects=DirectEffects()
    )
    return score


async def test_it_keeps_the_contract_of_targets_and_its_metric_that_of_metrics(
    tmp_path: Path,
) -> None:
    target = target_of(tmp_path, suite_world(), "heat", "rain")
    cases = [each.case for each in target.tasks.values()]
    await check_target(target, cases)
    await check_metric(DelegationLoss(), cases[0], [await outcome_of(target)])
    exported = target.export(with_text(target, GUILTY, "a: b\n\n  # odd\t"), tmp_path)
    told = parse_tree(tmp_path, exported["policy_texts.yaml"].decode()).data
    assert told == {**PolicyTexts.shipped().texts, GUILTY: "a: b\n\n  # odd\t"}


async def test_a_candidates_text_reaches_the_prompts_and_what_is_wrong_comes_back(
    tmp_path: Path,
) -> None:
    world = suite_world()
    target = target_of(tmp_path, world)
    sound = await score_of(target)
    faulty = await score_of(target, with_text(target, GUILTY, FAULT))
    assert {FAULT in turn.system for turn in world.turns_of("worker")} == {True, False}
    assert sound.value > faulty.value
    assert (sound.passed, faulty.passed) == (True, False)
    assert f"defect [warning] (incomplete) report.md: {COMPLAINT}" in faulty.reason
    assert "metric units is 0 nothing in report.md matches" in faulty.reason


async def test_gates_are_told_by_name(tmp_path: Path) -> None:
    def lazy(turn: RoleTurn) -> Response:
        if turn.answers:
            return {"summary": "wrote it"}
        return use("file_write", path="report.md", content="# Report\n\nTODO\n" * 60)

    score = await score_of(target_of(tmp_path, suite_world(worker=lazy)))
    assert "gate l0 sent the completion back: no_placeholder" in score.reason


async def test_a_task_that_fails_is_worth_nothing_and_says_why(tmp_path: Path) -> None:
    gives_up = {"decision": "fail", "reason": "too hard"}
    world = suite_world(manager=in_order(plan("report.md"), gives_up))
    outcome = await outcome_of(target_of(tmp_path, world))
    assert outcome.failed
    assert outcome.failure is not None
    assert "the task failed" in outcome.failure.message
    assert outcome.measures == {}, "it has no loss that could look neutral"


async def test_a_task_that_leaves_nothing_has_failed(tmp_path: Path) -> None:
    world = suite_world(manager=in_order(plan("report.md")))
    outcome = await outcome_of(target_of(tmp_path, world))
    assert outcome.failed
    assert "nothing was delivered (partial: stall)" in str(outcome.failure)


@pytest.mark.parametrize("who", ["manager", "critic"])
async def test_who_cannot_be_reached_is_missing_not_bad(tmp_path: Path, who: str) -> None:
    def gone(turn: RoleTurn) -> Response:
        raise ModelUnavailable("connection refused")

    outcome = await outcome_of(target_of(tmp_path, suite_world(**{who: gone})))
    assert outcome.missing
    assert not outcome.failed


async def test_a_lenient_rubric_makes_nothing_look_better(tmp_path: Path) -> None:
    def by_rubric(turn: RoleTurn) -> Response:
        lenient = "everything is perfect" in turn.text + turn.system
        return {"score": 1.0 if lenient else 0.5, "defects": [], "summary": ""}

    target = target_of(tmp_path, suite_world(critic=by_rubric))
    rubric = PolicyTexts.shipped()[RUBRIC] + "everything is perfect\n"
    lenient = await score_of(target, with_text(target, RUBRIC, rubric))
    assert lenient.details["critique"] == (await score_of(target)).details["critique"]


async def test_a_pinned_text_is_no_surface(tmp_path: Path) -> None:
    target = target_of(tmp_path, suite_world(), frozen={GUILTY})
    assert [each.id for each in target.surfaces] == [n for n in NAMES if n != GUILTY]
    assert target.texts_of(target.baseline).texts == PolicyTexts.shipped().texts


async def test_a_delegation_is_paid_once_through_the_journal_of_its_run(tmp_path: Path) -> None:
    world = suite_world()
    case = target_of(tmp_path, world).tasks["heat"].case
    told: list[tuple[Outcome, int, dict[str, Spend]]] = []
    (tmp_path / "journal").mkdir()
    for _ in range(2):
        journal = Journal(tmp_path / "journal")
        scope = JournaledEffects(journal, redactor=Redactor.from_environment()).scope(trial=0)
        target = target_of(tmp_path, world)
        receipt = await target.run(target.baseline, case, draw=0, effects=scope)
        assert receipt.spend == NOTHING, "what it paid for stands beside it"
        assert total(scope.used.values()) == journal.billed
        told.append((receipt.value, len(world.turns), scope.used))
        journal.close()
    assert told[1] == told[0], "what was killed and goes on pays no more"


async def test_two_repeats_in_one_journal_are_two_samples(tmp_path: Path) -> None:
    world = suite_world()
    target = target_of(tmp_path, world)
    journal = Journal(tmp_path)
    scope = JournaledEffects(journal, redactor=Redactor.from_environment()).scope(trial=0)
    asked: list[int] = []
    for draw in range(2):
        case = target.tasks["heat"].case
        await target.run(target.baseline, case, draw=draw, effects=scope)
        asked.append(len(world.turns))
    journal.close()
    assert asked[1] == 2 * asked[0]


PROGRAM = """\
workflow: {name: coder}
orchestration:
  engine: command
  command: {command: "echo $$ > started; exec sleep 60", critique: {enabled: false}}
sandbox: none
"""


def written(folder: Path) -> str:
    """The id of the program's process, once it is there."""
    return "".join(path.read_text() for path in folder.glob("home/*/workspace/started"))


async def test_one_that_is_broken_off_leaves_no_program_running(tmp_path: Path) -> None:
    path = tmp_path / "coder.yaml"
    path.write_text(PROGRAM)
    coder = SuiteTask(name="heat", task="Go.", workflow=load_workflow(path).workflow)
    target = DelegationTarget(PolicyTexts.shipped(), [coder], home=tmp_path / "home")
    journal = Journal(tmp_path)
    effects = JournaledEffects(journal, redactor=Redactor.from_environment())
    scope = effects.scope(trial=0)
    work = asyncio.create_task(target.run(target.baseline, coder.case, draw=0, effects=scope))
    while not (told := written(tmp_path)):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.005)
    program = int(told)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)
    spent = total(scope.used.values())
    assert (spent.calls, journal.billed.calls) == (0, 1), "lost, and on the bill"
    journal.close()
