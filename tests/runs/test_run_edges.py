"""Edges: the sealed test cut in the middle, strategies that break the rules, odd answers."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Case, Split
from burnish.core.errors import (
    BaselineUnmeasured,
    BurnishError,
    HoldoutLeak,
    RoleFailed,
    StrategyMisbehaved,
)
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Trial
from burnish.journal.limits import Budget
from burnish.projects import launch_in
from burnish.runs.directory import RunRecord
from burnish.runs.run import Run
from burnish.testing import ScriptedRole
from tests.runs.small import TEST, Agent, Ear, add_letters, answer, driven, longer, small


async def test_without_a_baseline_there_is_nothing_to_test(tmp_path: Path) -> None:
    setup = small(steps=add_letters, test=TEST, budget=Budget(max_calls=1))
    with pytest.raises(BaselineUnmeasured, match="max_calls: 0 of 1 calls spent"):
        await driven(setup, tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, record.billed.calls) == ("failed", 0)


async def test_a_sealed_test_cut_in_the_middle_is_finished_whatever_the_limits(
    tmp_path: Path,
) -> None:
    def cut(candidate: Candidate, case: Case, draw: int) -> str:
        if case.id == "s12":
            raise BurnishError("power cut")
        return answer(candidate, case, draw)

    limited = Budget(max_trials=2)
    with pytest.raises(BurnishError, match="power cut"):
        await driven(
            small(steps=add_letters, agent=cut, test=TEST, budget=limited, concurrency=1),
            tmp_path / "run",
        )
    agent = Agent()
    ending = await driven(
        small(steps=add_letters, agent=agent, test=TEST, budget=Budget(max_trials=9)),
        tmp_path / "run",
    )
    assert ending.reason.code == "max_trials"
    assert ending.sealed is not None
    assert {case for _, case, _ in agent.calls} <= {case.id for case in TEST}
    assert str(ending.best.values["text"]).count("x") == 2


async def test_nothing_may_be_recorded_after_a_stop(tmp_path: Path) -> None:
    async def stubborn(run: Run) -> None:
        assert run.stop_reason() is not None
        run.record(Trial(candidate=run.target.baseline))

    with pytest.raises(StrategyMisbehaved, match="told to stop"):
        await driven(small(steps=stubborn, stop_callbacks={"now": lambda: True}), tmp_path / "run")


async def test_nothing_leads_before_it_is_recorded(tmp_path: Path) -> None:
    async def hasty(run: Run) -> None:
        run.advance(longer(run.target.baseline))

    with pytest.raises(StrategyMisbehaved, match="before any trial"):
        await driven(small(steps=hasty), tmp_path / "run")


async def test_a_role_that_answers_half_a_character_has_failed(tmp_path: Path) -> None:
    role = ScriptedRole(
        name="critic", respond=lambda _, __: "half \ud83d", request_type=str, answer_type=str
    )

    async def steps(run: Run) -> None:
        with pytest.raises(RoleFailed, match="cannot be kept as JSON"):
            await run.ask(role, "why?")

    await driven(small(steps=steps, roles=[role]), tmp_path / "run")


async def test_law_3_long_answers_of_holdout_are_watched_too(tmp_path: Path) -> None:
    secret = Case.single("short?", "the answer nobody may give away", name="s1")
    role = ScriptedRole(name="critic", respond=lambda _, __: "", request_type=str, answer_type=str)

    async def steps(run: Run) -> None:
        await run.ask(role, "I know The Answer nobody may  give away")

    with pytest.raises(HoldoutLeak, match="'s1'"):
        await driven(small(steps=steps, test=(secret,), roles=[role]), tmp_path / "run")


async def test_law_6_an_exported_candidate_has_no_known_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "canary-7c1f9a-secret")
    text = "{q} canary-7c1f9a-secret, written as Bearer abcdef123456789"

    async def steps(run: Run) -> None:
        candidate = run.target.baseline.child({"text": text}, origin=Origin())
        run.record(Trial(candidate=candidate))
        run.advance(candidate)

    await driven(small(steps=steps), tmp_path / "run")
    kept = json.loads((tmp_path / "run/candidates/best/candidate.json").read_text())["text"]
    assert kept == "{q} [redacted], written as Bearer abcdef123456789"


def test_optimize_makes_a_run_in_an_empty_folder_and_goes_on_with_it(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    agent = Agent()
    setup = small(steps=add_letters, agent=agent, budget=Budget(max_trials=2))
    first = launch_in(setup, tmp_path / "run")
    calls = len(agent.calls)
    again = launch_in(setup, tmp_path / "run")
    assert again.best == first.best
    assert len(agent.calls) == calls
    assert (tmp_path / "run" / "report.md").exists()


async def test_trials_are_numbered_within_their_phase_on_a_resume_too(tmp_path: Path) -> None:
    ear = Ear()
    await driven(small(steps=add_letters, budget=Budget(max_trials=2)), tmp_path / "run")
    await driven(small(steps=add_letters, budget=Budget(max_trials=4)), tmp_path / "run", ear)
    told = [event.data["index"] for event in ear.events if event.kind == "trial_recorded"]
    assert told == [3, 4]


async def test_an_evaluation_of_some_cases_and_of_none(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        some = run.dataset.train[:2]
        found = await run.evaluate(run.target.baseline, split=Split.TRAIN, cases=some)
        assert found.cases == ("t0", "t1")
        none = await run.evaluate(run.target.baseline, split=Split.TRAIN, cases=())
        assert none.results == ()

    await driven(small(steps=steps), tmp_path / "run")
