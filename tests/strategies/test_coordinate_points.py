"""Numeric phases: what the study is told, what a point tried before costs, and how they end."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.errors import Problem, TargetMismatch
from burnish.core.money import NOTHING
from burnish.core.surfaces import Candidate, ChoiceSurface, NumberSurface, Surface, Value
from burnish.runs.setup import Setup, start
from burnish.strategies.coordinate.demonstrations import NumericPhase
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    Memory,
    PhaseLimits,
    TrialRunner,
)
from tests.strategies.coordinate_runs import Driven, driven, scripted, with_agent

pytestmark = pytest.mark.slow

LINE = NumberSurface(id="x", low=0.0, high=1.0)
WORDS = ChoiceSurface(id="x", choices=("a", "b", "c", "d"))


def graded(quality: Callable[[Candidate], float]) -> Callable[[Candidate, Case, int], str]:
    """An agent that gets this share of ten questions right."""

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        del draw
        return "yes" if int(case.id[1:]) % 10 < 10 * quality(candidate) - 1e-9 else "no"

    return respond


def flat(candidate: Candidate) -> float:
    return 0.5


def near(candidate: Candidate) -> float:
    return 1 - abs(float(str(candidate.values["x"])) - 0.3) - 0.1


def made(
    quality: Callable[[Candidate], float],
    surface: Surface = LINE,
    *,
    at: Value = 0.9,
    trials: int = 15,
    patience: int = 5,
    eps: float = 1e-3,
    cycles: int = 1,
) -> Setup:
    settings = CoordinateSettings(
        numbers=("x",),
        repeats=1,
        max_cycles=cycles,
        numeric_phase=PhaseLimits(max_trials=trials, patience=patience),
        numeric_convergence_eps=eps,
    )
    return scripted(graded(quality), (surface,), {"x": at}, settings, train=10, holdout=10)


def sources(run: Driven, cycle: int | None = None) -> list[dict[str, Any]]:
    found = [row.trial.details["proposal_source"] for row in run.of_phase("numeric", cycle)]
    return [{**source} for source in found if isinstance(source, dict)]


def test_each_phase_has_a_fresh_study_that_is_told_the_incumbents_point_first(
    tmp_path: Path,
) -> None:
    run = driven(made(near, cycles=3), tmp_path / "run")
    first, second = sources(run, 1), sources(run, 2)
    assert {source["numeric_study_id"] for source in first} == {"numeric-phase-1"}
    assert {source["numeric_study_id"] for source in second} == {"numeric-phase-2"}
    assert first[0]["tpe_n_observations_this_study"] == 1
    assert second[0]["tpe_n_observations_this_study"] == 1
    assert first[0]["params"] != second[0]["params"], "a study of its own has a seed of its own"


def test_a_win_moves_the_incumbent_inside_the_phase(tmp_path: Path) -> None:
    run = driven(made(near, patience=15), tmp_path / "run")
    ahead = run.rows[0].trial.candidate
    for row in run.of_phase("numeric"):
        assert not row.trial.candidate.parents or row.trial.candidate.parents == (ahead.id,)
        ahead = row.trial.candidate if row.trial.accepted else ahead
    accepted = [row for row in run.rows if row.trial.accepted]
    assert len(accepted) > 1
    assert run.ending.best.id == ahead.id
    assert abs(float(str(ahead.values["x"])) - 0.3) < 0.1


def test_the_same_seed_suggests_the_same_and_the_journal_keeps_it(tmp_path: Path) -> None:
    one = driven(made(near), tmp_path / "one")
    two = driven(made(near), tmp_path / "two")
    other = driven(replace(made(near), seed=7), tmp_path / "other")
    params = [[source["params"] for source in sources(run)] for run in (one, two, other)]
    assert params[0] == params[1] != params[2]
    kept = [effect for effect in one.effects if effect.kind == "suggestion"]
    assert len(kept) == len(params[0])
    assert not any(effect.spend != NOTHING for effect in kept)
    again = driven(made(near), tmp_path / "one")
    assert again.effects == one.effects, "a finished run asks for nothing"


@pytest.mark.parametrize(("trials", "patience"), [(15, 5), (4, 5), (15, 2), (15, 12)])
def test_a_phase_is_never_all_random(tmp_path: Path, trials: int, patience: int) -> None:
    run = driven(made(flat, trials=trials, patience=patience, eps=0), tmp_path / "run")
    chosen = [source["chosen_by"] for source in sources(run)]
    assert chosen[-1] == "model"
    assert chosen == sorted(chosen), "chance first, then the model"
    looked_at = {s["chosen_by"]: s["candidates_evaluated"] for s in sources(run)}
    assert looked_at["model"] == 24
    assert looked_at.get("chance", 1) == 1


@pytest.mark.parametrize(
    ("setup", "reason", "trials"),
    [
        (made(flat, trials=3, patience=9, eps=0), "max_trials", 3),
        (made(flat, trials=9, patience=4, eps=0), "patience", 4),
        (made(near, trials=30, patience=30, eps=10), "converged", 11),
        (made(flat, WORDS, at="a", trials=40, patience=40, eps=0), "space_exhausted", None),
        (made(flat, replace(LINE, high=0.0), at=0.0), "space_exhausted", 0),
    ],
    ids=["max_trials", "patience", "converged", "exhausted", "a space of one point"],
)
def test_a_phase_ends_and_says_why(
    tmp_path: Path, setup: Setup, reason: str, trials: int | None
) -> None:
    run = driven(setup, tmp_path / "run")
    assert run.ends() == {(1, "numeric"): reason}
    if trials is not None:
        assert len(run.of_phase("numeric")) == trials


def test_a_point_tried_before_costs_no_call_and_counts_toward_patience(tmp_path: Path) -> None:
    run = driven(made(flat, WORDS, at="a", trials=40, patience=40, eps=0), tmp_path / "run")
    trials = run.of_phase("numeric")
    again = [row for row in trials if row.trial.problems]
    assert again, "of four words some are drawn twice before all were"
    assert all(row.spend == NOTHING and row.trial.train is None for row in again)
    assert all("nothing" in str(p) or "before" in str(p) for r in again for p in r.trial.problems)
    assert sum(effect.kind == "run" for effect in run.effects) == 20 + 3 * 10
    few = NumberSurface(id="x", low=1, high=6, integer=True)
    short = driven(made(flat, few, at=1, patience=6, eps=0), tmp_path / "short")
    assert short.ends() == {(1, "numeric"): "patience"}
    assert len(short.of_phase("numeric")) == 6
    assert any(row.trial.problems for row in short.of_phase("numeric"))


def phase_over(setup: Setup, folder: Path, *, cycles: int = 1) -> tuple[list[NumericPhase], str]:
    """Phases one after the other over one memory, for a look at what the studies were told."""

    async def go() -> tuple[list[NumericPhase], str]:
        assert isinstance(setup.strategy, Coordinate)
        run, memory, settings = start(setup, folder=folder), Memory(), setup.strategy.settings
        try:
            trying = TrialRunner(run, settings, cycle=0, phase="baseline", memory=memory)
            incumbent, made, reason = await trying.baseline(), list[NumericPhase](), ""
            for cycle in range(1, cycles + 1):
                limits = settings.numeric_phase
                phase = NumericPhase(
                    run=run, settings=settings, cycle=cycle, limits=limits, memory=memory
                )
                incumbent, reason = await phase.go(incumbent)
                made.append(phase)
            return made, reason
        finally:
            await run.close()

    return asyncio.run(go())


def test_a_point_tried_before_is_told_from_the_ledger(tmp_path: Path) -> None:
    setup = made(flat, WORDS, at="a", trials=12, patience=12, eps=0)
    phases, _ = phase_over(setup, tmp_path / "run", cycles=2)
    second = phases[1]
    assert second.accepts == 0
    assert len(second.observations) > 1
    assert all(each.loss == 0.5 for each in second.observations), "not the worst: what was measured"


def test_a_point_that_is_turned_away_is_told_as_the_worst(tmp_path: Path) -> None:
    setup = made(flat, WORDS, at="a", trials=12, patience=12, eps=0)

    def problems(candidate: Candidate) -> list[Problem]:
        return [Problem(where="x", message="no b")] if candidate.values["x"] == "b" else []

    phases, _ = phase_over(with_agent(setup, problems=problems), tmp_path / "run")
    told = {str(each.point["x"]): each.loss for each in phases[0].observations}
    assert told["b"] == 1.0
    assert {loss for word, loss in told.items() if word != "b"} == {0.5}


def test_a_point_that_nobody_could_measure_is_not_told(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        if candidate.values["x"] == "b" and int(case.id[1:]) % 10 >= 4:
            raise ConnectionError("the endpoint is down for all that it would get wrong")
        return graded(flat)(candidate, case, draw)

    setup = made(flat, WORDS, at="a", trials=12, patience=12, eps=0)
    phases, reason = phase_over(with_agent(setup, respond=respond), tmp_path / "run")
    assert reason == "space_exhausted", "it was tried all the same"
    told = {str(each.point["x"]) for each in phases[0].observations}
    assert told == {"a", "c", "d"}


def test_what_chose_a_point_is_in_the_row(tmp_path: Path) -> None:
    run = driven(made(near, trials=8, patience=8), tmp_path / "run")
    last = sources(run)[-1]
    assert last["params"]["x"] == run.rows[-1].trial.candidate.values["x"]
    assert last["tpe_quantile"] == 0.1
    # The sampler does not tell its densities, so the row does not either.
    assert last["axis_marginals"] is None
    assert last["selected_candidate_score"] is None
    assert run.rows[-1].trial.touched == ("x",)


@pytest.mark.parametrize("at", [2.0, "high"])
def test_a_start_outside_its_bounds_is_refused_before_anything_is_paid(
    tmp_path: Path, at: Value
) -> None:
    with pytest.raises(TargetMismatch, match="change the value it starts with, or the bounds"):
        driven(made(flat, at=at), tmp_path / "run")
    assert not (tmp_path / "run").exists()
