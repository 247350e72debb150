"""Cases that were right are run again before a search gives up: some were right by luck."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, start
from burnish.strategies.auto.search import Auto
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.testing.doubles import luck
from tests.strategies.auto_runs import reflection_of
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.reflective_runs import CLASSIC, START, Agent, Rewrite, Talk, scripted

RULE = "Say yes."
TRAIN, HOLDOUT = 6, 8
both = pytest.mark.parametrize("strategy", ["reflective", "auto"])


def made(
    strategy: str,
    agent: Agent,
    rewrite: Rewrite,
    *,
    budget: Budget | None = None,
    **settings: Any,
) -> Setup:
    """A run of 6 train and 8 holdout cases, q0 to q5 and q6 to q13."""
    plain = scripted(
        agent,
        Talk(rewrite=rewrite),
        budget=budget or Budget(max_metric_calls=300),
        settings=ReflectiveSettings(**settings),
        train=TRAIN,
        holdout=HOLDOUT,
    )
    if strategy == "auto":
        return replace(plain, strategy=Auto(offers=(reflection_of(plain),)))
    return plain


def states_the_rule(request: Any, draw: int) -> str:
    return f"{START} {RULE}"


def is_train(case: Case) -> bool:
    return int(case.id[1:]) < TRAIN


def train_fails(fails: Callable[[Case, int], bool]) -> Agent:
    """An agent that lacks the rule on two cases of holdout, and fails on train like this."""

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        if RULE in str(candidate.values["system"]):
            return "yes"
        wrong = fails(case, draw) if is_train(case) else case.id in {"q6", "q7"}
        return "no" if wrong else f"yes, {draw}"

    return respond


NEVER_FAILS = train_fails(lambda case, draw: False)


def looks(run: Driven) -> int:
    """Runs of train by the baseline."""
    baseline = run.rows[0].trial.candidate.id
    requests = [each.request for each in run.effects if each.kind == "run"]
    train = [f"q{n}" for n in range(TRAIN)]
    of_train = [each for each in requests if isinstance(each, dict) and each["name"] in train]
    return sum(each["candidate"] == baseline for each in of_train)


@both
def test_a_case_that_was_right_by_luck_teaches_something_under_another_draw(
    strategy: str, tmp_path: Path
) -> None:
    agent = train_fails(lambda case, draw: case.id == "q4" and draw == 3)
    run = driven(made(strategy, agent, states_the_rule), tmp_path / "run")
    assert RULE in str(run.ending.best.values["system"])


@both
def test_a_noisy_agent_that_nothing_helps_uses_its_budget(strategy: str, tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        lucky = luck(candidate.id, case.id, draw) < 0.89
        return f"yes, {draw}" if lucky and case.id != "q6" else "no"

    def other_words(request: Any, draw: int) -> str:
        return f"{START} {draw}"

    run = driven(made(strategy, respond, other_words), tmp_path / "run")
    assert run.why == ""
    assert run.ending.spent.metric_calls > 260
    assert run.ending.spent.metric_calls <= 300


@both
def test_an_agent_that_repeats_itself_is_believed_after_twenty_answers(
    strategy: str, tmp_path: Path
) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        return "yes" if is_train(case) else "no"

    run = driven(made(strategy, respond, states_the_rule), tmp_path / "run")
    assert run.why == "no_failures"
    assert looks(run) == TRAIN + 21, "in minibatches of three"
    assert run.ending.spent.metric_calls == HOLDOUT + TRAIN + 21


def test_where_holdout_is_solved_nothing_is_run_again(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        return f"yes, {draw}"

    run = driven(made("reflective", respond, states_the_rule), tmp_path / "run")
    assert run.why == "no_failures"
    assert looks(run) == TRAIN


@both
def test_an_agent_with_other_words_each_time_is_believed_after_sixty_answers(
    strategy: str, tmp_path: Path
) -> None:
    run = driven(made(strategy, NEVER_FAILS, states_the_rule), tmp_path / "run")
    assert run.why == "no_failures"
    assert looks(run) == TRAIN + 60
    assert run.ending.best.id == run.rows[0].trial.candidate.id


def test_repeats_are_looks_at_other_draws_already(tmp_path: Path) -> None:
    setup = made("reflective", NEVER_FAILS, states_the_rule, repeats=5)
    run = driven(setup, tmp_path / "run")
    assert run.why == "no_failures"
    assert looks(run) == TRAIN * 5 + 45, "24 later answers, and 45 more in minibatches of 15"


@both
def test_a_tip_that_did_not_win_is_left_for_a_leader_that_still_fails(
    strategy: str, tmp_path: Path
) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        text = str(candidate.values["system"])
        if RULE in text or (is_train(case) and "Hope." in text):
            return "yes"
        return "no" if case.id in {"q0", "q6", "q7"} else "yes"

    def hopes_first(request: Any, draw: int) -> str:
        asked.append("Hope." if not asked else RULE)
        return f"{START} {asked[-1]}"

    asked: list[str] = []
    run = driven(made(strategy, respond, hopes_first), tmp_path / "run")
    assert asked[:2] == ["Hope.", RULE]
    assert str(run.ending.best.values["system"]) == f"{START} {RULE}"


def test_a_pool_of_parents_looks_again_as_often(tmp_path: Path) -> None:
    agent = NEVER_FAILS
    run = driven(
        made("reflective", agent, states_the_rule, parent_selection="pareto"), tmp_path / "run"
    )
    assert run.why == "nothing_new"
    assert looks(run) == TRAIN + 60


def test_the_classic_loop_draws_anew_as_before(tmp_path: Path) -> None:
    agent = NEVER_FAILS
    run = driven(made("reflective", agent, states_the_rule, **CLASSIC.model_dump()), tmp_path / "r")
    assert run.why == "nothing_new"
    assert looks(run) == 12 * 3


@both
def test_a_case_that_is_never_scored_does_not_keep_a_search_going(
    strategy: str, tmp_path: Path
) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> Any:
        if case.id == "q2":
            raise ConnectionError("nobody is there")
        return "yes" if is_train(case) else "no"

    run = driven(made(strategy, respond, states_the_rule, budget=Budget()), tmp_path / "run")
    assert run.why in {"no_failures", "nothing_new"}
    assert looks(run) <= TRAIN + 60


@both
def test_a_later_run_that_is_missing_takes_nothing_away(strategy: str, tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> Any:
        if case.id == "q2" and draw % 2:
            raise ConnectionError("nobody is there")
        return NEVER_FAILS(candidate, case, draw)

    run = driven(made(strategy, respond, states_the_rule), tmp_path / "run")
    assert run.why == "no_failures"
    assert not any(row.trial.proposals for row in run.rows), "nothing was wrong"


@both
@pytest.mark.parametrize("calls", range(14, 60, 3))
def test_looking_again_keeps_to_small_limits(strategy: str, calls: int, tmp_path: Path) -> None:
    budget = Budget(max_metric_calls=calls)
    agent = NEVER_FAILS
    run = driven(made(strategy, agent, states_the_rule, budget=budget), tmp_path / "run")
    assert run.ending.spent.metric_calls <= calls


@both
@pytest.mark.parametrize("at", [16, 18, 23, 40])
def test_a_session_that_ends_while_looking_again_changes_nothing(
    strategy: str, at: int, tmp_path: Path
) -> None:
    agent = train_fails(lambda case, draw: case.id == "q4" and draw == 6)
    whole = driven(made(strategy, agent, states_the_rule), tmp_path / "whole")

    calls = 0

    def dying(candidate: Candidate, case: Case, draw: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            sessions[0].cancel()
        return agent(candidate, case, draw)

    async def first_session() -> None:
        run = start(made(strategy, dying, states_the_rule), folder=tmp_path / "cut")
        sessions.append(asyncio.create_task(drive(run)))
        try:
            await sessions[0]
        finally:
            await run.close()

    sessions: list[asyncio.Task[Ending]] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(first_session())
    again = driven(made(strategy, agent, states_the_rule), tmp_path / "cut")
    assert [row.trial for row in again.rows] == [row.trial for row in whole.rows]
    assert again.ending.best.id == whole.ending.best.id
    assert again.ending.spent == whole.ending.spent
