"""Classifiers: a text that names every label is no copied answer, and is found."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Dataset
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    PhaseLimits,
)
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.testing import ScriptedRole, ScriptedTarget
from tests.strategies.coordinate_runs import driven
from tests.strategies.reflective_runs import CLASSIC, START, Talk, scripted

LABELS = tuple(
    f"{what}_{happened}"
    for what in ("card_payment_fee", "balance_after_transfer", "top_up_by_cash", "exchange_rate")
    for happened in ("charged_twice", "not_updated", "asked_about")
)
ONCE = LABELS[-1]
"""The label of a single training case."""
PERFECT = f"{START} Answer with one of: {', '.join(LABELS)}."


def classify(candidate: Candidate, case: Case, draw: int) -> str:
    """An agent that knows the labels that its text names."""
    del draw
    label = case.expected or ""
    return label if label in str(candidate.values["system"]) else "I cannot tell"


def letters(label: str, numbers: range) -> list[Case]:
    return [
        Case.single(f"Letter {n:02d} of a customer about {label}", label, name=f"{label}-{n}")
        for n in numbers
    ]


def world(setup: Setup) -> Setup:
    """40 training cases over 12 labels, one of which occurs once."""
    often = [case for label in LABELS[:-1] for case in letters(label, range(4))][:39]
    train = (*often, *letters(ONCE, range(1)))
    holdout = tuple(case for label in LABELS for case in letters(label, range(10, 12)))
    return replace(setup, dataset=Dataset(train=train, holdout=holdout))


@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC], ids=["trail", "classic"])
def test_reflection_ends_with_the_text_that_names_every_label(
    tmp_path: Path, settings: ReflectiveSettings
) -> None:
    talk = Talk(rewrite=lambda request, draw: PERFECT)
    made = scripted(classify, talk, settings=settings, budget=Budget(max_metric_calls=200))
    run = driven(world(made), tmp_path / "run")
    assert run.ending.best.values["system"] == PERFECT
    (accepted,) = [row.trial for row in run.rows if row.trial.accepted]
    assert accepted.holdout is not None
    assert accepted.holdout.measurement.score == 1.0


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        (("10", "11", "13"), ""),
        (("2024-05-01", "2024-06-12"), ""),
        (("Paris", "Rome", "Oslo", "Bern", "Riga", "Bonn", "Lima"), ""),
        (("billing", "technical"), "billing, technical"),
    ],
)
def test_the_reflector_is_only_told_the_labels_of_a_closed_set(
    tmp_path: Path, answers: tuple[str, ...], labels: str
) -> None:
    seen: list[str] = []

    def rewrite(request: Any, draw: int) -> str:
        del draw
        seen.append(request.labels)
        return f"{START} Think."

    def cases(name: str) -> tuple[Case, ...]:
        rows = enumerate(answers * (20 // len(answers)))
        return tuple(Case.single(f"{name} {n}?", answer, name=f"{name}{n}") for n, answer in rows)

    made = scripted(classify, Talk(rewrite=rewrite), budget=Budget(max_trials=1))
    data = Dataset(train=cases("t"), holdout=cases("h"))
    driven(replace(made, dataset=data), tmp_path / "run")
    assert set(seen) == {labels}


def test_a_case_with_its_question_is_still_turned_away(tmp_path: Path) -> None:
    copied = letters(LABELS[0], range(1))[0]
    talk = Talk(rewrite=lambda request, draw: f"{PERFECT} {copied.input}: {copied.expected}")
    made = scripted(classify, talk, budget=Budget(max_trials=2))
    run = driven(world(made), tmp_path / "run")
    (problem,) = run.rows[1].trial.problems
    assert f"the answer to training case '{copied.id}'" in str(problem)


def test_a_text_may_name_a_label_that_only_held_out_cases_have(tmp_path: Path) -> None:
    made = world(scripted(classify, Talk(rewrite=lambda request, draw: PERFECT)))
    unseen = "direct_debit_not_recognised_by_customer"
    held = replace(made.dataset, test=tuple(letters(unseen, range(2))))
    assert isinstance(made.target, ScriptedTarget)
    target = replace(made.target, values={"system": f"{START} {unseen}"})
    run = driven(
        replace(made, dataset=held, target=target, budget=Budget(max_trials=1)), tmp_path / "run"
    )
    assert run.ending.reason.code == "max_trials"


def test_the_textual_phase_ends_with_it_too(tmp_path: Path) -> None:
    def diagnose(request: CritiqueRequest, draw: int) -> Gradient:
        del request, draw
        return Gradient(
            failing_pattern="it cannot tell",
            root_cause_hypothesis="the labels are not named",
            suggested_change_direction="name them",
            confidence=0.9,
            citations=[],
        )

    def apply(request: EditRequest, draw: int) -> Edit:
        del request, draw
        return Edit(edit_type="insert", rationale="-", new_text=PERFECT, diff_summary="labels")

    critic: ScriptedRole[Any, Any] = ScriptedRole(
        name="critic", respond=diagnose, request_type=CritiqueRequest, answer_type=Gradient
    )
    applier: ScriptedRole[Any, Any] = ScriptedRole(
        name="applier", respond=apply, request_type=EditRequest, answer_type=Edit
    )
    settings = CoordinateSettings(
        texts=("system",),
        repeats=1,
        max_cycles=1,
        textual_phase=PhaseLimits(max_trials=2, patience=2),
    )
    made = scripted(classify, Talk(rewrite=lambda request, draw: ""), budget=Budget())
    strategy = Coordinate(settings=settings, critic=critic, applier=applier)
    run = driven(replace(world(made), strategy=strategy), tmp_path / "run")
    assert run.ending.best.values["system"] == PERFECT
