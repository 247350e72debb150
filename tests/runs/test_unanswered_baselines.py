"""A search whose baseline only raises fails at once, and a resume asks again."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Failure, FailureKind, Outcome, Split
from burnish.core.content import codec
from burnish.core.errors import BaselineUnmeasured
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Trial
from burnish.journal.limits import Budget
from burnish.reports.rendering import render
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.run import Run
from burnish.runs.setup import Setup, fork
from burnish.strategies.measure import Measure
from burnish.testing.doubles import ScriptedTarget
from tests.runs.small import TRAIN, Agent, add_letters, answer, driven, small
from tests.runs.test_hanging_calls import hang

ONE_TRIAL = Budget(max_trials=1)
NO_KEY = "KeyError: 'OPENAI_API_KEY'"


def no_key(*_: object) -> str:
    raise KeyError("OPENAI_API_KEY")


def saying(reply: str) -> Callable[[Candidate, Case, int], str]:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        del candidate, case, draw
        return reply

    return respond


def searching(agent: Callable[[Candidate, Case, int], Any], **rest: Any) -> Setup:
    return small(steps=add_letters, agent=agent, budget=ONE_TRIAL, **rest)


async def failure(setup: Setup, folder: Path) -> BaselineUnmeasured:
    with pytest.raises(BaselineUnmeasured) as error:
        await driven(setup, folder)
    return error.value


async def test_a_run_says_the_first_error_and_asks_again_when_it_is_resumed(tmp_path: Path) -> None:
    folder, agent = tmp_path / "run", Agent(no_key)
    for session in (1, 2):
        error = await failure(searching(agent), folder)
        assert error.message == (
            "the baseline could not be measured: 6 of 6 runs of cases ended in an error, the first "
            f"one in: {NO_KEY}"
        )
        assert error.remedy.endswith(
            "then resume the run (`burnish runs resume run`); if its file has changed, start a new "
            "one with --fork run"
        )
        assert error.exit_code == 1
        assert len(agent.calls) == 6 * session, "what was raised is asked again"
        record = RunRecord.read(folder)
        assert (record.status, record.rows) == ("failed", ())
        assert NO_KEY in render(record)
    ending = await driven(searching(Agent(answer)), folder)
    assert ending.reason.code == "max_trials"
    record = RunRecord.read(folder)
    assert (record.status, len(record.rows)) == ("finished", 2)
    assert record.billed.metric_calls == 12 + 12, "what raised stays billed"


@dataclass(frozen=True, kw_only=True)
class FarAgent(ScriptedTarget):
    """An agent behind an address."""

    reply_source: str = "http://far, in reply"


async def test_another_program_that_says_nothing_is_asked_again_by_a_resume(tmp_path: Path) -> None:
    def far(*, says: str) -> Setup:
        made = small().target
        agent = FarAgent(respond=saying(says), surfaces=made.surfaces, values=made.baseline.values)
        return small(steps=add_letters, budget=ONE_TRIAL, target=agent)

    error = await failure(far(says="  "), tmp_path / "run")
    assert error.message == (
        "the baseline could not be measured: 6 of 6 replies are empty, read from http://far, in "
        "reply"
    )
    ending = await driven(far(says="x"), tmp_path / "run")
    assert ending.reason.code == "max_trials"


async def test_a_function_may_mean_an_empty_reply(tmp_path: Path) -> None:
    ending = await driven(searching(saying("")), tmp_path / "run")
    assert ending.reason.code == "max_trials"


async def test_errors_may_differ(tmp_path: Path) -> None:
    def raises(candidate: Candidate, case: Case, draw: int) -> str:
        del candidate, draw
        raise ValueError(f"no table for {case.id}")

    error = await failure(searching(raises), tmp_path / "run")
    assert "6 of 6 runs of cases ended in an error" in error.message
    assert "ValueError: no table for t0" in error.message


async def test_nobody_answers_where_some_raise_and_some_are_away(tmp_path: Path) -> None:
    def raises(candidate: Candidate, case: Case, draw: int) -> str:
        if case.id == "t0":
            raise ConnectionError("connection refused")
        return no_key()

    error = await failure(searching(raises), tmp_path / "run")
    assert "6 of 6 runs of cases ended in an error, the first one in: KeyError" in error.message


async def test_an_agent_that_never_ends_in_time_has_not_answered(tmp_path: Path) -> None:
    setup = searching(hang, case_policy=CasePolicy(time_limit=0.01))
    error = await failure(setup, tmp_path / "run")
    assert "6 of 6 runs of cases ended in an error" in error.message


async def test_an_error_is_quoted_without_secrets_and_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sesame-sesame-sesame-sesame")

    def raises(*_: object) -> str:
        raise RuntimeError(f"sk-sesame-sesame-sesame-sesame is refused {'x' * 5000}")

    error = await failure(searching(raises), tmp_path / "run")
    assert "sesame" not in str(error)
    assert "is refused xxx" in error.message
    assert len(error.message) < 600
    files = (each for each in (tmp_path / "run").rglob("*") if each.is_file())
    assert not any(b"sesame" in each.read_bytes() for each in files)


def mostly(candidate: Candidate, case: Case, draw: int) -> str:
    return answer(candidate, case, draw) if case.id == "t5" else no_key()


def silent(*_: object) -> None:
    """An answer of no use."""


def unparsable(*_: object) -> Any:
    return json.loads("Sure! Here is your JSON")


def empty(*_: object) -> str:
    return ""


def useless(*_: object) -> Outcome:
    message = "the answer does not fit"
    return Outcome(failure=Failure(kind=FailureKind.AGENT, message=message, mendable=True))


@pytest.mark.parametrize("agent", [mostly, silent, unparsable, empty, useless])
async def test_answers_of_no_use_are_what_a_search_is_for(
    tmp_path: Path, agent: Callable[..., Any]
) -> None:
    ending = await driven(searching(agent), tmp_path / "run")
    assert ending.reason.code == "max_trials"


def test_workers_send_whether_a_candidate_could_avoid_a_failure() -> None:
    for mendable in (True, False):
        failed = Failure(kind=FailureKind.AGENT, message="no", mendable=mendable)
        outcomes = codec(Outcome)
        assert outcomes.decode(outcomes.encode(Outcome(failure=failed))).failure == failed


async def test_a_fork_does_not_import_what_was_raised(tmp_path: Path) -> None:
    await failure(searching(no_key), tmp_path / "run")
    run = fork(searching(answer), tmp_path / "run", folder=tmp_path / "fork")
    try:
        assert (await drive(run)).reason.code == "max_trials"
    finally:
        await run.close()


async def test_a_fork_of_a_measurement_that_raised_says_that_it_imports_its_errors(
    tmp_path: Path,
) -> None:
    measured = small(agent=no_key)
    await driven(
        Setup(
            target=measured.target,
            metrics=measured.metrics,
            objective=Objective(weights={"expected_text": 1.0}),
            dataset=measured.dataset,
            strategy=Measure(),
        ),
        tmp_path / "run",
    )
    assert len(RunRecord.read(tmp_path / "run").rows) == 1, "a measurement shows its errors"
    run = fork(searching(answer), tmp_path / "run", folder=tmp_path / "fork")
    try:
        with pytest.raises(BaselineUnmeasured, match="OPENAI_API_KEY") as error:
            await drive(run)
    finally:
        await run.close()
    assert error.value.remedy.endswith("then start a new run without --fork")


async def test_train_that_raises_beside_a_holdout_that_answers_goes_on(tmp_path: Path) -> None:
    names = {case.id for case in TRAIN}

    def half(candidate: Candidate, case: Case, draw: int) -> str:
        return no_key() if case.id in names else answer(candidate, case, draw)

    async def both(run: Run) -> None:
        start = run.target.baseline
        sides = [await run.evaluate(start, split=split) for split in (Split.TRAIN, Split.HOLDOUT)]
        train, holdout = (SplitResult.of(side, run.objective) for side in sides)
        run.record(Trial(candidate=start, phase="baseline", train=train, holdout=holdout))
        run.advance(start)

    ending = await driven(small(steps=both, agent=half), tmp_path / "run")
    assert ending.reason.code == "finished"
