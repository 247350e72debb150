"""A search ends where nobody answers, and where it costs more than its limits leave."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Dataset, Outcome, Split
from burnish.core.errors import BaselineUnmeasured, EndpointDown, RoleFailed
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import SplitResult, Trial
from burnish.journal.limits import Budget
from burnish.models.errors import ModelRefused
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.run import Run
from burnish.runs.setup import Setup, fork, start
from burnish.runs.stoppers import GIVE_UP_AFTER_ALIKE, Outages
from burnish.testing import ExpectedText, ScriptedRole, ScriptedTarget
from tests.runs.small import Agent, add_letters, answer, driven, longer, small

CASES = tuple(Case.single(f"question number {n}", f"<{n}>", name=f"t{n}") for n in range(40))
SEALED = tuple(Case.single(f"sealed question {n}", f"<{n}>", name=f"s{n}") for n in range(10))


def many(setup: Setup, *, test: bool = False) -> Setup:
    """The setup with 40 cases in train."""
    return replace(setup, dataset=Dataset(train=CASES, test=SEALED if test else ()))


def refused(candidate: Candidate, case: Case, draw: int) -> str:
    """An endpoint that nobody reaches; every error has another port in it."""
    del candidate, draw
    raise ConnectionError(f"connection refused (from port {hash(case.id) % 60_000})")


@pytest.mark.parametrize(
    ("budget", "costs_matter"),
    [
        (Budget(max_metric_calls=50, max_minutes=5.0, max_trials=3, patience=2), False),
        (Budget(max_calls=50), True),
        (Budget(max_tokens=50), True),
        (Budget(max_usd=0.5), True),
    ],
)
async def test_costs_are_looked_at_after_every_case_only_where_they_are_limited(
    tmp_path: Path, budget: Budget, *, costs_matter: bool
) -> None:
    run = start(small(steps=add_letters, budget=budget), folder=tmp_path / "run")
    try:
        assert (run.closing.exceeded is not None) is costs_matter
    finally:
        await run.close()


# -- Nobody answers -------------------------------------------------------------------------------


async def test_after_ten_errors_that_are_alike_the_run_has_failed(tmp_path: Path) -> None:
    agent = Agent(refused)
    setup = many(small(steps=add_letters, agent=agent, concurrency=2))
    with pytest.raises(EndpointDown, match="10 runs of cases in a row failed in the same way") as e:
        await driven(setup, tmp_path / "run")
    assert "connection refused" in e.value.message
    assert "`burnish runs resume run`" in e.value.remedy
    assert GIVE_UP_AFTER_ALIKE <= len(agent.calls) <= GIVE_UP_AFTER_ALIKE + 4
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, record.rows) == ("failed", ())
    assert record.billed.metric_calls >= GIVE_UP_AFTER_ALIKE


async def test_once_the_cause_is_gone_a_resume_asks_again_for_what_is_missing(
    tmp_path: Path,
) -> None:
    away = True

    def sometimes(candidate: Candidate, case: Case, draw: int) -> str:
        return (refused if away else answer)(candidate, case, draw)

    agent = Agent(sometimes)
    setup = many(small(steps=add_letters, agent=agent, budget=Budget(max_trials=1)))
    with pytest.raises(EndpointDown):
        await driven(setup, tmp_path / "run")
    away = False
    ending = await driven(setup, tmp_path / "run")
    assert (ending.reason.code, ending.spent.metric_calls) == ("max_trials", 2 * len(CASES))
    rows = RunRecord.read(tmp_path / "run").rows
    assert rows
    assert not [row.number for row in rows if row.trial.holdout and row.trial.holdout.errors]


async def test_a_fork_asks_again_once_the_cause_is_mended(tmp_path: Path) -> None:
    setup = many(small(steps=add_letters, agent=refused, budget=Budget(max_trials=1)))
    with pytest.raises(EndpointDown):
        await driven(setup, tmp_path / "run")
    mended = many(small(steps=add_letters, budget=Budget(max_trials=1)))
    run = fork(mended, tmp_path / "run", folder=tmp_path / "fork", retry_missing=True)
    try:
        ending = await drive(run)
    finally:
        await run.close()
    assert (ending.reason.code, ending.spent.metric_calls) == ("max_trials", 2 * len(CASES))


async def test_answers_in_between_keep_a_run_going(tmp_path: Path) -> None:
    def flaky(candidate: Candidate, case: Case, draw: int) -> str:
        return refused(candidate, case, draw) if int(case.id[1:]) % 10 else "here"

    setup = many(small(steps=add_letters, agent=flaky, budget=Budget(max_trials=1)))
    assert (await driven(setup, tmp_path / "run")).reason.code == "max_trials"


async def test_crashes_of_the_agent_are_no_outage(tmp_path: Path) -> None:
    def crashes(candidate: Candidate, *_: object) -> str:
        if candidate.values["text"] == "{q}":
            return "an answer"
        raise KeyError("order")

    setup = many(small(steps=add_letters, agent=crashes, budget=Budget(max_trials=1)))
    assert (await driven(setup, tmp_path / "run")).reason.code == "max_trials"


async def test_a_judge_that_never_answers_ends_the_run(tmp_path: Path) -> None:
    class Judge(ExpectedText):
        def estimate(self, case: Case) -> Spend:
            return Spend(calls=1)

        async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Any:
            raise ConnectionError("the judge is away")

    agent = Agent()
    setup = many(small(steps=add_letters, agent=agent, metrics=(Judge(),), concurrency=2))
    with pytest.raises(EndpointDown, match="the judge is away"):
        await driven(setup, tmp_path / "run")
    assert len(agent.calls) < len(CASES)


def unclear(*, usable: str = "") -> ExpectedText:
    """A judge that always answers, and gives a verdict on this case alone."""

    class Judge(ExpectedText):
        def estimate(self, case: Case) -> Spend:
            return Spend(calls=1)

        async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Any:
            if case.id == usable:
                return await super().score(case, outcome, effects=effects)
            return [Score.of_nothing(self.name, "the judge answered twice without a valid answer")]

    return Judge()


async def test_a_judge_whose_answers_are_of_no_use_is_not_called_unreachable(
    tmp_path: Path,
) -> None:
    agent = Agent()
    setup = many(small(steps=add_letters, agent=agent, metrics=(unclear(),), concurrency=2))
    for _ in range(2):
        with pytest.raises(BaselineUnmeasured, match="their judge gave no usable answer") as error:
            await driven(setup, tmp_path / "run")
        assert "answered twice without a valid answer" in error.value.message
    assert len(agent.calls) < len(CASES), "the rest is not paid for"
    assert RunRecord.read(tmp_path / "run").status == "failed"


async def test_a_judge_that_judged_once_ends_nothing(tmp_path: Path) -> None:
    agent, judge = Agent(), unclear(usable=CASES[0].id)
    setup = small(steps=add_letters, agent=agent, metrics=(judge,), budget=Budget(max_trials=1))
    assert (await driven(many(setup), tmp_path / "run")).reason.code == "max_trials"
    assert len(agent.calls) >= len(CASES)


# -- Only a candidate cannot be reached -----------------------------------------------------------


def away_if_longer(candidate: Candidate, case: Case, draw: int) -> str:
    """Nobody answers for candidates with a letter more."""
    if "x" in str(candidate.values["text"]):
        return refused(candidate, case, draw)
    return answer(candidate, case, draw)


async def try_letters(run: Run) -> None:
    """Two candidates that are not accepted, each measured in blocks of seven."""
    for tried in (run.target.baseline, *letters(run.target.baseline)):
        results: list[CaseResult] = []
        async for block in run.blocks(tried, split=Split.TRAIN, block_size=7):
            results += block.results
        train = Evaluation(candidate=tried.id, split=Split.TRAIN, results=tuple(results))
        assert [result.case for result in results] == [case.id for case in CASES]
        result = SplitResult.of(train, run.objective)
        run.record(Trial(candidate=tried, phase="letters", train=result, touched=("text",)))


def letters(baseline: Candidate) -> tuple[Candidate, Candidate]:
    once = longer(baseline)
    return once, longer(once)


async def test_a_candidate_that_cannot_be_reached_costs_only_itself(tmp_path: Path) -> None:
    agent = Agent(away_if_longer)
    setup = many(small(steps=try_letters, agent=agent, concurrency=2))
    ending = await driven(setup, tmp_path / "run")
    assert ending.reason.code == "finished"
    record = RunRecord.read(tmp_path / "run")
    assert len(record.rows) == 3
    asked = len(agent.calls)
    assert asked <= len(CASES) + 2 * (GIVE_UP_AFTER_ALIKE + 4) + 2, "the rest is not tried"
    warnings = [event for event in record.events if "cannot be reached" in str(event)]
    assert len(warnings) == 2
    again = await driven(setup, tmp_path / "run")
    assert (again.spent, len(agent.calls)) == (ending.spent, asked), "a replay decides the same"


async def test_an_endpoint_that_goes_away_for_all_ends_the_run(tmp_path: Path) -> None:
    """It works for the baseline, and then for nobody."""
    numbers = itertools.count()

    def until(candidate: Candidate, case: Case, draw: int) -> str:
        if next(numbers) >= len(CASES):
            return refused(candidate, case, draw)
        return answer(candidate, case, draw)

    agent = Agent(until)
    setup = many(small(steps=try_letters, agent=agent, concurrency=2))
    for _ in range(2):
        with pytest.raises(EndpointDown, match="10 runs of cases in a row"):
            await driven(setup, tmp_path / "run")
    assert len(agent.calls) <= len(CASES) + 2 * (GIVE_UP_AFTER_ALIKE + 8)
    assert len(RunRecord.read(tmp_path / "run").rows) == 1


async def test_a_candidate_whose_key_is_refused_costs_only_itself(tmp_path: Path) -> None:
    """Such as one that chooses another model, with a key of its own."""

    def forbidden(candidate: Candidate, case: Case, draw: int) -> str:
        if "x" in str(candidate.values["text"]):
            raise ModelRefused("openai:large refused the key (HTTP 401)")
        return answer(candidate, case, draw)

    agent = Agent(forbidden)
    setup = many(small(steps=try_letters, agent=agent, concurrency=1))
    ending = await driven(setup, tmp_path / "run")
    assert ending.reason.code == "finished"
    record = RunRecord.read(tmp_path / "run")
    assert len(record.rows) == 3
    warnings = [str(event) for event in record.events if "cannot be reached" in str(event)]
    assert len(warnings) == 2
    assert "refused the key" in warnings[0]
    asked = len(agent.calls)
    again = await driven(setup, tmp_path / "run")
    assert (again.spent, len(agent.calls)) == (ending.spent, asked), "a replay decides the same"


async def test_a_key_that_is_revoked_for_all_ends_the_run_and_is_not_stored(tmp_path: Path) -> None:
    valid = [True]

    def until(candidate: Candidate, case: Case, draw: int) -> str:
        if not valid[0] or "x" in str(candidate.values["text"]):
            valid[0] = False
            raise ModelRefused("openai:small refused the key (HTTP 401)")
        return answer(candidate, case, draw)

    setup = many(small(steps=try_letters, agent=until, concurrency=2))
    with pytest.raises(ModelRefused, match="refused the key"):
        await driven(setup, tmp_path / "run")
    mended = many(small(steps=try_letters, concurrency=2))
    assert (await driven(mended, tmp_path / "run")).reason.code == "finished"
    rows = RunRecord.read(tmp_path / "run").rows
    assert [row.trial.train.errors for row in rows if row.trial.train] == [{}, {}, {}]


@pytest.mark.parametrize("away", [True, False])
async def test_a_role_that_is_away_is_given_up_and_one_without_ideas_is_not(
    tmp_path: Path, away: bool
) -> None:
    numbers = itertools.count()

    def respond(request: str, draw: int) -> str:
        if next(numbers) == 0:
            return "an answer"
        raise RoleFailed("nothing came", missing=away)

    role = ScriptedRole(name="critic", respond=respond, answer_type=str, request_type=str)

    async def steps(run: Run) -> None:
        for number in range(30):
            with suppress(RoleFailed):
                await run.ask(role, "what now?", draw=number)

    setup = small(steps=steps, roles=(role,))
    if not away:
        assert (await driven(setup, tmp_path / "run")).reason.code == "finished"
        return
    for _ in range(2):
        with pytest.raises(EndpointDown, match="10 requests to the critic in a row"):
            await driven(setup, tmp_path / "run")
    assert next(numbers) == 1 + 2 * GIVE_UP_AFTER_ALIKE, "a resume asks again"


def test_only_errors_that_are_alike_and_in_a_row_add_up() -> None:
    outages = Outages()
    alike = [outages.add(f"<Pool object at 0x{n:x}> refused after {n} tries") for n in range(10)]
    assert alike == [False] * 9 + [True]
    outages = Outages()
    pages = [outages.add(f"try {10**n}: " + f"<p>{n}</p>" * 200_000) for n in range(10)]
    assert pages == [False] * 9 + [True], "however long"
    assert not outages.add("")
    assert not any(Outages().add(f"error {'abcdefghijkl'[n]}") for n in range(12))


# -- Limits ---------------------------------------------------------------------------------------

PRICE = Spend(calls=3, tokens_in=90, tokens_out=10, nano_usd=to_nano(0.01))


@dataclass(frozen=True, kw_only=True)
class Dear(ScriptedTarget):
    """An agent that says it makes one call, and makes three: tools, loops, long answers."""

    growing: bool = False

    def estimate(self, case: Case) -> Spend:
        return Spend(calls=1)

    async def run(self, candidate: Candidate, case: Case, *, draw: int, effects: Effects) -> Any:
        receipt = await super().run(candidate, case, draw=draw, effects=effects)
        more = str(candidate.values["text"]).count("x") if self.growing else 0
        return replace(receipt, spend=receipt.spend.times(1 + 9 * more))


def dear(*, growing: bool = False) -> Dear:
    surface = TextSurface(id="text", max_chars=100, placeholders=("{q}",))
    values = {"text": "{q}"}
    return Dear(respond=answer, surfaces=(surface,), values=values, price=PRICE, growing=growing)


async def careful_letters(run: Run) -> None:
    """Add letters while a trial is expected to fit."""
    await _letters(run, lambda: run.stop_reason(run.estimate(Split.TRAIN)) is None)


async def _letters(run: Run, fits: Callable[[], bool]) -> None:
    best = run.target.baseline
    while fits():
        train = await run.evaluate(best, split=Split.TRAIN)
        result = SplitResult.of(train, run.objective)
        phase = "letters" if run.trial else "baseline"
        run.record(Trial(candidate=best, phase=phase, train=result, touched=("text",)))
        run.advance(best)
        best = longer(best)


LIMITS: dict[str, tuple[Budget, Callable[[Spend], float]]] = {
    "max_calls": (Budget(max_calls=400), lambda spent: spent.calls / 400),
    "max_tokens": (Budget(max_tokens=13_000), lambda spent: spent.tokens / 13_000),
    "max_usd": (Budget(max_usd=1.30), lambda spent: (spent.usd or 0.0) / 1.30),
}


@pytest.mark.parametrize("code", LIMITS)
async def test_a_trial_that_costs_what_others_did_is_not_begun_if_it_does_not_fit(
    tmp_path: Path, code: str
) -> None:
    budget, share = LIMITS[code]
    setup = many(small(steps=careful_letters, target=dear(), budget=budget), test=True)
    ending = await driven(setup, tmp_path / "run")
    # 40 runs of the baseline, 40 of a trial, 20 of the sealed test: 300 of 400 calls.
    assert (ending.reason.code, ending.sealed is not None) == (code, True)
    assert ending.spent.metric_calls == 100
    assert share(ending.billed) <= 1


@pytest.mark.parametrize("code", LIMITS)
async def test_a_trial_that_turns_out_dearer_is_dropped(tmp_path: Path, code: str) -> None:
    budget, share = LIMITS[code]
    made = small(steps=careful_letters, target=dear(growing=True), budget=budget, concurrency=2)
    ending = await driven(many(made), tmp_path / "run")
    assert ending.reason.code == code
    assert "the current trial was dropped" in ending.reason.detail
    assert len(RunRecord.read(tmp_path / "run").rows) == 1
    assert share(ending.billed) <= 1 + 5 * share(PRICE.times(10)), "at most what was in flight"
    again = await driven(many(made), tmp_path / "run")
    assert (again.reason, again.spent) == (ending.reason, ending.spent)
    more = many(
        small(steps=careful_letters, target=dear(growing=True), budget=Budget(max_trials=2))
    )
    assert (await driven(more, tmp_path / "run")).reason.code == "max_trials"


async def test_limits_that_do_not_pay_for_the_baseline_fail_the_run(tmp_path: Path) -> None:
    setup = many(small(steps=careful_letters, target=dear(), budget=Budget(max_calls=50)))
    with pytest.raises(BaselineUnmeasured, match=r"max_calls: 5\d of 50 calls spent"):
        await driven(setup, tmp_path / "run")
    assert RunRecord.read(tmp_path / "run").status == "failed"


async def test_out_of_minutes_no_trial_is_begun(tmp_path: Path) -> None:
    seen: list[float] = []

    async def steps(run: Run) -> None:
        def fits() -> bool:
            if run.trial:
                seen.append(run.directory.journal.active_seconds)
            return run.stop_reason() is None

        await _letters(run, fits)

    async def slow(candidate: Candidate, case: Case, draw: int) -> str:
        await asyncio.sleep(0.01)
        return answer(candidate, case, draw)

    budget = Budget(max_minutes=0.2 / 60)
    made = many(small(steps=steps, agent=slow, budget=budget, concurrency=2))
    ending = await driven(made, tmp_path / "run")
    assert ending.reason.code == "max_minutes"
    assert len([used for used in seen if used > 0.2]) == 1, "only the trial in progress is finished"


# -- The sealed test ------------------------------------------------------------------------------


async def test_where_nothing_was_accepted_the_test_stays_sealed(tmp_path: Path) -> None:
    async def baseline_only(run: Run) -> None:
        await _letters(run, lambda: run.trial == 0)

    agent = Agent()
    ending = await driven(
        many(small(steps=baseline_only, agent=agent), test=True), tmp_path / "run"
    )
    assert ending.sealed is None
    assert ending.claim is not None
    assert ending.claim.verdict == "unchanged"
    assert not any(case.startswith("s") for _, case, _ in agent.calls)
    more = many(small(steps=careful_letters, agent=agent, budget=Budget(max_trials=2)), test=True)
    assert (await driven(more, tmp_path / "run")).sealed is not None
