"""The laws as a strategy meets them: recording, resuming, checking, asking, the sealed test."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import (
    ConfigError,
    HoldoutLeak,
    PriceUnknown,
    Problem,
    ReplayDiverged,
    ResumeRefused,
    RoleFailed,
    RunLocked,
    SealedTestRead,
    TargetMismatch,
)
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.core.trials import Trial
from burnish.journal.limits import Budget
from burnish.runs.run import Run
from burnish.runs.setup import fork, start
from burnish.system import ChildProcesses
from burnish.testing import ScriptedRole, ScriptedTarget
from burnish.testing.doubles import story
from tests.journal.journals import files_in
from tests.runs.small import (
    TEST,
    Agent,
    Ear,
    Plan,
    add_letters,
    answer,
    driven,
    longer,
    opened,
    small,
)


async def test_law_1_a_resume_repeats_no_call_and_ends_the_same(tmp_path: Path) -> None:
    whole_agent, agent = Agent(), Agent()
    whole = await driven(
        small(steps=add_letters, agent=whole_agent, budget=Budget(max_trials=5)), tmp_path / "whole"
    )
    for trials in (1, 3, 5):
        ending = await driven(
            small(steps=add_letters, agent=agent, budget=Budget(max_trials=trials)),
            tmp_path / "cut",
        )
    assert sorted(agent.calls) == sorted(whole_agent.calls)
    assert ending.best.id == whole.best.id
    assert ending.spent == whole.spent == ending.billed
    assert story(tmp_path / "cut" / "trials.jsonl") == story(tmp_path / "whole" / "trials.jsonl")


async def test_rule_06_an_edited_strategy_is_caught_before_anything_is_paid(tmp_path: Path) -> None:
    async def edited(run: Run) -> None:
        candidate = run.target.baseline.child({"text": "{q} other"}, origin=Origin())
        await run.evaluate(candidate, split=Split.TRAIN)

    agent = Agent()
    await driven(small(steps=add_letters, budget=Budget(max_trials=2)), tmp_path / "run")
    with pytest.raises(ReplayDiverged, match="not in the journal"):
        await driven(small(steps=edited, agent=agent), tmp_path / "run")
    assert agent.calls == []


async def test_rule_06_a_row_that_differs_is_caught(tmp_path: Path) -> None:
    async def relabelled(run: Run) -> None:
        run.record(Trial(candidate=run.target.baseline, phase="another"))

    await driven(small(steps=add_letters, budget=Budget(max_trials=2)), tmp_path / "run")
    before = (tmp_path / "run" / "trials.jsonl").read_bytes()
    with pytest.raises(ReplayDiverged, match="trial 0"):
        await driven(small(steps=relabelled), tmp_path / "run")
    assert (tmp_path / "run" / "trials.jsonl").read_bytes() == before


async def test_rule_09_suggestions_are_journaled(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Suggestion:
        value: float

    suggested: list[float] = []

    def steps(offset: float):
        async def search(run: Run) -> None:
            for ask in range(2):
                found = await run.remember(
                    "suggest",
                    {"ask": ask},
                    Suggestion,
                    lambda ask=ask: Suggestion(value=run.rng("sampler", ask).random() + offset),
                )
                suggested.append(found.value)

        return search

    await driven(small(steps=steps(0.0)), tmp_path / "run")
    await driven(small(steps=steps(1.0)), tmp_path / "run")
    assert suggested[:2] == suggested[2:], "an upgraded sampler does not rewrite history"
    assert suggested[0] != suggested[1]


async def test_rule_13_projections_are_mended_when_a_run_is_opened(tmp_path: Path) -> None:
    setup = small(steps=add_letters, budget=Budget(max_trials=3))
    await driven(setup, tmp_path / "run")
    names = ("trials.jsonl", "events.jsonl", "trajectory.csv")
    before = {name: (tmp_path / "run" / name).read_bytes() for name in names}
    (tmp_path / "run" / "trials.jsonl").write_bytes(before["trials.jsonl"][:-40])
    (tmp_path / "run" / "events.jsonl").write_bytes(before["events.jsonl"] + b'{"torn')
    (tmp_path / "run" / "trajectory.csv").unlink()
    run = opened(setup, tmp_path / "run")
    await run.close()
    assert {name: (tmp_path / "run" / name).read_bytes() for name in names} == before


async def test_rule_14_processes_of_a_dead_run_are_ended_on_resume(tmp_path: Path) -> None:
    setup = small()
    run = opened(setup, tmp_path / "run")
    child = await run.directory.children.spawn(["sleep", "600"])
    await run.close()
    assert child.returncode is None
    again = opened(setup, tmp_path / "run")
    await again.close()
    assert await child.wait() == -9


async def test_rule_15_a_replay_writes_nothing_of_the_users(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"

    def writes(candidate: Candidate, case: Case, draw: int) -> str:
        prompt.write_text(str(candidate.values["text"]))
        return answer(candidate, case, draw)

    setup = small(steps=add_letters, agent=writes, budget=Budget(max_trials=2))
    await driven(setup, tmp_path / "run")
    prompt.write_text("the user's own")
    await driven(setup, tmp_path / "run")
    assert prompt.read_text() == "the user's own"


async def test_rule_16_checks_are_journaled(tmp_path: Path) -> None:
    found: list[list[Problem]] = []

    async def steps(run: Run) -> None:
        candidate = longer(run.target.baseline)
        found.append(await run.check(candidate, parent=run.target.baseline))

    def target(problems: list[Problem]) -> ScriptedTarget:
        return ScriptedTarget(
            respond=answer,
            surfaces=(TextSurface(id="text"),),
            values={"text": "{q}"},
            problems=lambda _: problems,
        )

    loads = Problem(message="does not load")
    await driven(small(steps=steps, target=target([loads])), tmp_path / "run")
    await driven(small(steps=steps, target=target([])), tmp_path / "run")
    assert found == [[loads], [loads]]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 7}, "seed"),
        ({"version": "2"}, "strategy"),
        ({"test": TEST}, "data"),
        ({"metrics": ()}, "metrics"),
    ],
)
async def test_rule_17_a_resume_with_other_inputs_is_refused_by_name(
    tmp_path: Path, change: Mapping[str, object], named: str
) -> None:
    await driven(small(), tmp_path / "run")
    setup = small(**{"steps": add_letters, **change})  # pyright: ignore[reportArgumentType]
    if named == "metrics":
        setup = replace(setup, objective=replace(setup.objective, weights={}))
    with pytest.raises(ResumeRefused, match=f"{named}.*\n?.*--fork"):
        opened(setup, tmp_path / "run")


async def test_rule_17_budget_and_concurrency_may_change(tmp_path: Path) -> None:
    await driven(small(steps=add_letters, budget=Budget(max_trials=1)), tmp_path / "run")
    more = small(steps=add_letters, budget=Budget(max_trials=2), concurrency=1)
    ending = await driven(more, tmp_path / "run")
    assert ending.reason.code == "max_trials"


async def test_rule_17_a_smaller_budget_does_not_undo_what_is_recorded(tmp_path: Path) -> None:
    await driven(small(steps=add_letters, budget=Budget(max_trials=4)), tmp_path / "run")
    ending = await driven(small(steps=add_letters, budget=Budget(max_trials=1)), tmp_path / "run")
    assert str(ending.best.values["text"]).count("x") == 4


async def test_rule_17_a_fork_pays_only_for_what_changed(tmp_path: Path) -> None:
    agent = Agent()
    await driven(small(steps=add_letters, budget=Budget(max_trials=3)), tmp_path / "old")
    forked = fork(
        small(steps=add_letters, agent=agent, version="2", budget=Budget(max_trials=4)),
        tmp_path / "old",
        folder=tmp_path / "new",
    )
    from burnish.runs.driver import drive

    ending = await drive(forked)
    await forked.close()
    assert {candidate for candidate, _, _ in agent.calls} == {ending.best.id}
    assert ending.spent.calls == ending.billed.calls == 6
    header = json.loads((tmp_path / "new" / "run.json").read_text())
    assert header["forked_from"] == "old"


async def test_rule_18_listeners_are_silent_on_replay(tmp_path: Path) -> None:
    first, second = Ear(), Ear()
    await driven(small(steps=add_letters, budget=Budget(max_trials=2)), tmp_path / "run", first)
    await driven(small(steps=add_letters, budget=Budget(max_trials=3)), tmp_path / "run", second)
    assert {"trial:0", "trial:1", "trial:2", "advanced:2"} <= set(first.ids)
    assert [i for i in second.ids if i.startswith("trial")] == ["trial:3"]
    assert not set(first.ids) & set(second.ids)


async def test_rule_18_an_event_that_was_not_delivered_is_told_again(tmp_path: Path) -> None:
    class Deaf(Ear):
        def event(self, event: object) -> None:
            if getattr(event, "id", "") == "trial:1":
                raise RuntimeError("the user's callback failed")

    ear = Ear()
    setup = small(steps=add_letters, budget=Budget(max_trials=2))
    with pytest.raises(RuntimeError, match="callback"):
        await driven(setup, tmp_path / "run", Deaf())
    await driven(setup, tmp_path / "run", ear)
    assert "trial:1" in ear.ids
    assert "trial:0" not in ear.ids


async def test_rule_19_a_usd_limit_without_prices_is_refused_at_the_start(tmp_path: Path) -> None:
    setup = small(budget=Budget(max_usd=1.0))
    unpriced = replace(setup.target, price=Spend(calls=1, unpriced=1))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    with pytest.raises(PriceUnknown, match="the agent"):
        start(replace(setup, target=unpriced), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


async def test_rule_19_an_unknown_price_in_mid_run_stops_it(tmp_path: Path) -> None:
    setup = small(steps=add_letters, budget=Budget(max_usd=100.0))

    @dataclass(frozen=True, kw_only=True)
    class Surprising(ScriptedTarget):
        def estimate(self, case: Case) -> Spend:
            return Spend(calls=1, nano_usd=1)

    target = Surprising(
        respond=answer,
        surfaces=setup.target.surfaces,
        values=setup.target.baseline.values,
        price=Spend(calls=1, unpriced=1),
    )
    ending = await driven(replace(setup, target=target), tmp_path / "run")
    assert ending.reason.code == "price_unknown"
    assert ending.spent.usd is None


async def test_rule_20_the_sealed_test_is_read_once_and_ends_the_search(tmp_path: Path) -> None:
    agent = Agent()
    setup = small(steps=add_letters, agent=agent, test=TEST, budget=Budget(max_trials=3))
    ending = await driven(setup, tmp_path / "run")
    assert ending.sealed is not None
    assert ending.sealed.baseline_score == 0.0
    sealed = [case for _, case, _ in agent.calls if case.startswith("s")]
    assert len(sealed) == 2 * len(TEST)
    again = await driven(setup, tmp_path / "run")
    assert again.sealed == ending.sealed
    assert len(agent.calls) == len({*agent.calls}), "nothing was run again"
    more = replace(setup, budget=Budget(max_trials=4))
    with pytest.raises(SealedTestRead, match="--fork"):
        await driven(more, tmp_path / "run")


async def test_rule_20_a_fork_says_that_the_test_is_spent(tmp_path: Path) -> None:
    setup = small(steps=add_letters, test=TEST, budget=Budget(max_trials=1))
    await driven(setup, tmp_path / "old")
    forked = fork(setup, tmp_path / "old", folder=tmp_path / "new")
    await forked.close()
    assert json.loads((tmp_path / "new" / "run.json").read_text())["sealed_test"] == "spent"


async def test_the_budget_keeps_the_cost_of_the_sealed_test_aside(tmp_path: Path) -> None:
    setup = small(steps=add_letters, test=TEST, budget=Budget(max_calls=25))
    ending = await driven(setup, tmp_path / "run")
    assert ending.reason.code == "max_calls"
    assert ending.sealed is not None
    # 6 calls a trial, none begun unless 6 more for the test would still fit.
    assert ending.spent.calls <= 25 + 6


async def test_law_2_the_run_leaves_everything_outside_its_folder_alone(tmp_path: Path) -> None:
    mine = tmp_path / "agent.txt"
    mine.write_text("mine")
    await driven(small(steps=add_letters, budget=Budget(max_trials=2)), tmp_path / "run")
    outside = [p for p in files_in(tmp_path) if not p.is_relative_to(tmp_path / "run")]
    assert outside == [mine]
    assert mine.read_text() == "mine"


def role(answers: str = "ok") -> ScriptedRole[str, str]:
    return ScriptedRole(
        name="proposer", respond=lambda _, __: answers, request_type=str, answer_type=str
    )


async def test_law_3_a_case_in_two_splits_is_refused(tmp_path: Path) -> None:
    setup = small()
    leaky = Dataset(train=setup.dataset.train, holdout=(Case.single("Train  question NUMBER 3"),))
    with pytest.raises(ConfigError, match="is in both"):
        start(replace(setup, dataset=leaky), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["holdout question number 7", "see: Sealed  question number 11!"])
async def test_law_3_no_proposer_sees_holdout_or_test_text(tmp_path: Path, text: str) -> None:
    async def steps(run: Run) -> None:
        await run.ask(role(), text)

    with pytest.raises(HoldoutLeak, match="no proposer may see"):
        await driven(small(steps=steps, test=TEST, roles=[role()]), tmp_path / "run")


async def test_law_5_a_trial_is_on_disk_with_all_that_led_to_it(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []

    async def steps(run: Run) -> None:
        said = await run.ask(role("use more x"), "train question number 1 failed")
        candidate = longer(run.target.baseline)
        run.record(Trial(candidate=candidate, phase=said))
        rows.append(json.loads((tmp_path / "run" / "trials.jsonl").read_text()))

    await driven(small(steps=steps, roles=[role()]), tmp_path / "run")
    trial = rows[0]["trial"]
    assert isinstance(trial, dict)
    assert trial["candidate"]["values"] == {"text": "{q}x"}
    assert trial["proposals"] == [
        {
            "role": "proposer",
            "request": "train question number 1 failed",
            "answer": "use more x",
            "error": "",
            "mended": [],
        }
    ]


async def test_rule_04_a_roles_failure_is_a_result(tmp_path: Path) -> None:
    asked: list[int] = []

    def fails(request: str, draw: int) -> str:
        asked.append(draw)
        raise RoleFailed("cut off", spend=Spend(calls=1))

    failing = ScriptedRole(name="critic", respond=fails, request_type=str, answer_type=str)

    async def steps(run: Run) -> None:
        with pytest.raises(RoleFailed, match="cut off"):
            await run.ask(failing, "why?")

    await driven(small(steps=steps, roles=[failing]), tmp_path / "run")
    ending = await driven(small(steps=steps, roles=[failing]), tmp_path / "run")
    assert asked == [0]
    assert ending.spent == Spend(calls=1)


async def test_law_6_no_secret_reaches_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "canary-7c1f9a-secret")

    def talkative(candidate: Candidate, case: Case, draw: int) -> str:
        if case.id == "t1":
            raise ValueError(f"401 for {os.environ['SHOP_API_KEY']}")
        return f"key={os.environ['SHOP_API_KEY']}"

    async def steps(run: Run) -> None:
        leaky = role("canary-7c1f9a-secret")
        await run.ask(leaky, "what is canary-7c1f9a-secret ?")
        candidate = run.target.baseline.child({"text": "{q} canary-7c1f9a-secret"}, origin=Origin())
        await run.evaluate(candidate, split=Split.TRAIN)
        run.record(Trial(candidate=candidate, details={"note": "canary-7c1f9a-secret"}))
        run.announce("warning", "w", {"message": "canary-7c1f9a-secret"})

    await driven(small(steps=steps, agent=talkative, roles=[role()]), tmp_path / "run")
    assert not [p for p in files_in(tmp_path) if b"canary-7c1f9a" in p.read_bytes()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{q}", "changes nothing"),
        ("no placeholder", "placeholder"),
        ("{q}" + "y" * 200, "203 characters"),
    ],
)
async def test_law_7_a_bad_candidate_costs_no_call(tmp_path: Path, text: str, reason: str) -> None:
    found: list[Problem] = []

    async def steps(run: Run) -> None:
        candidate = run.target.baseline.child({"text": text}, origin=Origin())
        found.extend(await run.check(candidate, parent=run.target.baseline))

    ending = await driven(small(steps=steps), tmp_path / "run")
    assert reason in str(found[0])
    assert ending.spent.calls == 0


async def test_law_7_a_candidate_that_was_tried_is_turned_away(tmp_path: Path) -> None:
    found: list[Problem] = []

    async def steps(run: Run) -> None:
        first = longer(run.target.baseline)
        run.record(Trial(candidate=first))
        again = longer(longer(run.target.baseline)).child({"text": "{q}x"}, origin=Origin())
        found.extend(await run.check(again, parent=longer(first)))

    await driven(small(steps=steps), tmp_path / "run")
    assert "tried before" in str(found[0])


def test_law_8_streams_are_named(tmp_path: Path) -> None:
    run = opened(small(), tmp_path / "run")
    assert run.rng("a").random() == run.rng("a").random()
    assert run.rng("a").random() != run.rng("b").random()
    run.directory.close()


async def test_two_processes_cannot_drive_one_run(tmp_path: Path) -> None:
    run = opened(small(), tmp_path / "run")
    with pytest.raises(RunLocked):
        opened(small(), tmp_path / "run")
    await run.close()
    again = opened(small(), tmp_path / "run")
    await again.close()


async def test_a_strategy_that_does_not_fit_the_target_is_refused_early(tmp_path: Path) -> None:
    class Picky(Plan):
        def mismatch(self, target: object) -> list[Problem]:
            return [Problem(message="it has no file surface")]

    setup = small()
    picky = Picky(steps=add_letters)
    with pytest.raises(TargetMismatch, match=r"'plan' cannot run .* no file surface"):
        start(replace(setup, strategy=picky), folder=tmp_path / "run")


def test_runs_started_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    runs = [start(small(), root=tmp_path) for _ in range(3)]
    names = {run.directory.folder.name for run in runs}
    for run in runs:
        run.directory.close()
    assert len(names) == 3
    assert {run.directory.header.id for run in runs} == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_the_header_says_what_the_run_was_started_with(tmp_path: Path) -> None:
    run = start(small(test=TEST), folder=tmp_path / "run")
    run.directory.close()
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["strategy"] == "plan"
    assert header["cases"] == {"train": 6, "holdout": 4, "test": 3}
    assert header["inputs"]["strategy"] == short_id(["plan", short_id("1")])
    assert header["seed"] == 42


def test_child_processes_have_a_place_in_the_run(tmp_path: Path) -> None:
    run = opened(small(), tmp_path / "run")
    assert isinstance(run.directory.children, ChildProcesses)
    run.directory.close()
