"""`--goal cheaper`: the cheapest candidate that is not worse by more than the margin."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Split, Usage
from burnish.core.errors import BaselineUnmeasured, ConfigError
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.formatting import Table
from burnish.core.statistics import saving, unit_of
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    Demonstration,
    DemosSurface,
    NumberSurface,
    TextSurface,
)
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.projects.adopt import chosen_trial
from burnish.runs.claims import claim_words
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, start
from burnish.strategies.frugal import Frugal, FrugalPlugin, FrugalSettings, Point, frontier
from burnish.testing import ExpectedText, ScriptedTarget, check_strategy

PROMPT = "Answer yes. Be polite. Thank the customer for asking. Remember our long history."
PRICES = {"large": 1000, "medium": 300, "small": 50}
OBJECTIVE = Objective(weights={"expected_text": 1.0})


def answer(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """Right, unless the prompt lost its only rule, or the model is too small for hard cases."""
    del draw
    values = candidate.values
    prompt, model, chunks, demos = (values[name] for name in ("prompt", "model", "chunks", "demos"))
    assert isinstance(demos, tuple)
    assert isinstance(chunks, int)
    words = len(str(prompt).split()) + 20 * len(demos) + 10 * chunks
    is_lost = model == "small" and case.id.endswith("hard")
    right = "Answer yes." in str(prompt) and not is_lost and chunks >= 2
    return Outcome(
        replies=("yes" if right else "no",),
        nano_usd=words * PRICES[str(model)] * 1000,
        usage=Usage(requests=1, input_tokens=words, output_tokens=1),
    )


def dataset(*, holdout: int = 24, test: int = 60) -> Dataset:
    """One case in four is too hard for the smallest model."""

    def cases(split: str, count: int) -> tuple[Case, ...]:
        names = [f"{split}-{n}{'-hard' if n % 4 == 0 else ''}" for n in range(count)]
        return tuple(Case.single(f"question {name}", "yes", name=name) for name in names)

    return Dataset(
        train=cases("train", 4), holdout=cases("holdout", holdout), test=cases("test", test)
    )


def setup(respond: Any = answer, *, data: Dataset | None = None, **settings: Any) -> Setup:
    target = ScriptedTarget(
        respond=respond,
        surfaces=(
            TextSurface(id="prompt"),
            ChoiceSurface(id="model", choices=("large", "medium", "small")),
            NumberSurface(id="chunks", low=1, high=8, integer=True),
            DemosSurface(id="demos"),
        ),
        values={
            "prompt": PROMPT,
            "model": "large",
            "chunks": 4,
            "demos": (Demonstration(input="Is it?", output="yes"),),
        },
    )
    return Setup(
        target=target,
        metrics=(ExpectedText(),),
        objective=OBJECTIVE,
        dataset=data or dataset(),
        strategy=Frugal(settings=FrugalSettings(**settings)),
    )


async def run(made: Setup, folder: Path) -> tuple[Ending, RunRecord]:
    run = start(made, folder=folder)
    try:
        ending = await drive(run)
    finally:
        await run.close()
    return ending, RunRecord.read(folder)


async def test_what_costs_and_does_not_help_leaves(tmp_path: Path) -> None:
    ending, record = await run(setup(), tmp_path / "run")
    best = ending.best.values
    assert best["model"] == "medium", "the small one fails on hard cases"
    assert best["chunks"] == 2
    assert best["demos"] == ()
    assert best["prompt"] == "Answer yes."
    assert ending.claim is not None
    assert ending.claim.verdict == "improved"
    assert ending.claim.margin == 0.05
    words = claim_words(ending.claim)
    assert "USD per 1,000 cases 73.000 → 6.600" in words, words
    assert "score 0.000 [-0.049, 0.049]" in words, words
    assert words.endswith("a saving, and the score loses no more than 0.05"), words
    refused = [row.trial for row in record.rows if not row.trial.accepted][1:]
    assert any("small" in trial.candidate.origin.note for trial in refused)


def priced(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """The huge model knows hard cases, the large one half of them, the small one no question."""
    del draw
    model = str(candidate.values["model"])
    hard = int(case.id.split("-")[1]) % 4
    right = {"huge": True, "large": hard != 0, "small": hard > 1}[model]
    price = {"huge": 4000, "large": 1000, "small": 50}[model]
    words = len(str(candidate.values["prompt"]).split())
    right = right and "Answer yes." in str(candidate.values["prompt"])
    return Outcome(
        replies=("yes" if right else "no",),
        nano_usd=words * price * 1000,
        usage=Usage(requests=1, input_tokens=words, output_tokens=1),
    )


async def test_the_frontier_keeps_what_nothing_beats_in_score_and_cost(tmp_path: Path) -> None:
    made = setup(priced, goal="frontier")
    target = ScriptedTarget(
        respond=priced,
        surfaces=(
            TextSurface(id="prompt"),
            ChoiceSurface(id="model", choices=("huge", "large", "small")),
        ),
        values={"prompt": PROMPT, "model": "large"},
    )
    ending, record = await run(replace(made, target=target), tmp_path / "run")
    assert dict(ending.best.values) == {"prompt": "Answer yes.", "model": "large"}
    assert ending.claim is not None
    assert ending.claim.verdict == "improved"
    kept = [row.trial for row in record.rows if row.trial.kept]
    ends = {(str(t.candidate.values["model"]), str(t.candidate.values["prompt"])) for t in kept}
    assert {("huge", "Answer yes."), ("small", "Answer yes.")} <= ends
    (table,) = [each for each in FrugalPlugin().report(record) if isinstance(each, Table)][-1:]
    shown = [(row[1], row[2], row[3], row[4]) for row in table.rows]
    assert [(amount, score, offered) for _, amount, score, offered in shown] == [
        ("0.100", "0.500", ""),
        ("2.000", "0.750", "offered"),
        ("8.000", "1.000", ""),
    ]
    assert ["small" in shown[0][0], "huge" in shown[2][0]] == [True, True]


async def test_a_point_of_the_frontier_can_be_adopted(tmp_path: Path) -> None:
    _, record = await run(setup(goal="frontier", margin=0.01), tmp_path / "run")
    kept = next(row for row in record.rows if row.trial.kept)
    refused = next(row for row in record.rows if row.number and not kept_or_accepted(row))
    assert chosen_trial(record, kept.number) is kept
    with pytest.raises(ConfigError, match="was not accepted"):
        chosen_trial(record, refused.number)


def kept_or_accepted(row: TrialRow) -> bool:
    return row.trial.kept or row.trial.accepted


def test_of_twins_the_frontier_has_one() -> None:
    places = {"a": (1.0, 0.5), "b": (0.99, 0.5), "c": (2.0, 0.5), "d": (2.0, 0.9), "e": (5.0, 0.9)}
    points = [(name, Point(amount=a, score=s)) for name, (a, s) in places.items()]
    assert [name for name, _ in frontier(points)] == ["b", "d"]


async def test_a_loss_within_the_margin_is_taken_and_said(tmp_path: Path) -> None:
    """A quarter of the cases is lost with the small model: with a margin of 0.4 it is worth it."""
    ending, _ = await run(setup(margin=0.4), tmp_path / "run")
    assert ending.best.values["model"] == "small"
    assert ending.claim is not None
    assert ending.claim.verdict == "improved"
    assert "score -0.250 [" in claim_words(ending.claim), claim_words(ending.claim)


async def test_what_too_few_cases_cannot_show_is_not_claimed(tmp_path: Path) -> None:
    """Eight ties do not show that no more than 0.05 is lost."""
    ending, _ = await run(setup(data=dataset(test=8)), tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.verdict == "not shown"
    assert "0.05 may be lost" in ending.claim.reason


async def test_missing_cases_may_be_lost_ones(tmp_path: Path) -> None:
    """Sixty ties would show it; five of them are missing, and all of those may be lost."""

    def cut(candidate: Candidate, case: Case, draw: int) -> Outcome:
        changed = candidate.values["prompt"] != PROMPT
        if changed and case.id in {f"test-{n}" for n in (1, 2, 3, 5, 6)}:
            raise ConnectionError("nobody answered")
        return answer(candidate, case, draw)

    ending, _ = await run(setup(cut), tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.verdict == "not shown"
    assert "5 of 60 cases are missing, and could have turned it" in ending.claim.reason


async def test_without_prices_tokens_are_saved(tmp_path: Path) -> None:
    def free(candidate: Candidate, case: Case, draw: int) -> Outcome:
        return replace(answer(candidate, case, draw), nano_usd=0)

    ending, _ = await run(setup(free), tmp_path / "run")
    assert ending.best.values["model"] == "large", "another model takes as many tokens"
    assert ending.best.values["demos"] == ()
    assert ending.claim is not None
    assert ending.claim.primary == "tokens a case"


async def test_without_anything_to_count_it_says_so(tmp_path: Path) -> None:
    def silent(candidate: Candidate, case: Case, draw: int) -> str:
        return answer(candidate, case, draw).output

    with pytest.raises(BaselineUnmeasured, match="neither a cost nor tokens"):
        await run(setup(silent), tmp_path / "run")


async def test_a_dearer_candidate_is_given_up_after_a_few_cases(tmp_path: Path) -> None:
    _, record = await run(setup(), tmp_path / "run")
    dearer = [
        row for row in record.rows if row.trial.decision and row.trial.decision.code == "dearer"
    ]
    assert dearer
    assert all(row.spend.metric_calls <= 8 for row in dearer)


async def test_it_keeps_its_budget_and_resumes(tmp_path: Path) -> None:
    await check_strategy(setup, tmp_path)


async def test_a_limit_ends_it_with_what_it_has(tmp_path: Path) -> None:
    limited = replace(setup(), budget=Budget(max_metric_calls=24 + 24 + 120 + 10))
    ending, _ = await run(limited, tmp_path / "run")
    assert ending.reason.code == "max_metric_calls"
    assert ending.spent.metric_calls <= 24 + 24 + 120 + 10


def evaluation(*results: tuple[str, float, int, bool]) -> Evaluation:
    return Evaluation(
        candidate="c",
        split=Split.HOLDOUT,
        results=tuple(
            CaseResult(
                case=case,
                draw=0,
                outcome=Outcome(
                    nano_usd=cost,
                    failure=Failure(kind=FailureKind.AGENT, message="crash") if crashed else None,
                ),
                scores=(Score(metric="expected_text", value=score),),
            )
            for case, score, cost, crashed in results
        ),
    )


def test_who_crashes_early_saves_nothing() -> None:
    before = evaluation(("a", 1.0, 100, False), ("b", 1.0, 100, False))
    after = evaluation(("a", 1.0, 100, False), ("b", 0.0, 1, True))
    seen = saving(after, before, OBJECTIVE, "usd")
    assert seen is not None
    assert seen.saved.mean == 0.0
    assert unit_of(before, faster=False) == "usd"
    assert unit_of(before, faster=True) == "seconds"
