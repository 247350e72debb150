"""The runs that are killed: one world for each strategy, in which candidates are accepted."""

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Outcome
from burnish.core.content import codec
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.runs.driver import Ending
from burnish.runs.events import Claim
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    PatchAnswer,
    PatchRequest,
)
from burnish.strategies.coordinate.trials import PhaseLimits
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import Edit, EditRequest
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.testing import CallCounter, toy
from burnish.testing.doubles import story
from burnish.testing.toy import Climb, MeasuredCandidate, proposer
from tests.crash import delegation_worlds
from tests.strategies import auto_runs, backprop_world, edit_world, reflection_world, tuning_world

Told = dict[str, Any]
Launch = Callable[[Path, CallCounter, argparse.Namespace], Told]


@dataclass(frozen=True, kw_only=True)
class World:
    """A run that a process starts in a folder, or goes on with."""

    launch: Launch
    prepare: Callable[[Path], None] = lambda folder: None
    """Makes what the run starts from, before the first process."""
    run_in: Callable[[Path], Path] = lambda folder: folder
    """The run's own folder."""
    story: Callable[[Path], list[Any]] = lambda run: story(run / "trials.jsonl")
    """What was decided: the same however often the run was killed."""
    at_once: int = 4
    """How many calls may be lost to one kill."""


def told_of(ending: Ending) -> Told:
    """What a child says at its end."""
    return {
        "best": ending.best.id,
        "code": ending.reason.code,
        "claim": None if ending.claim is None else codec(Claim).encode(ending.claim),
        "spent": codec(Spend).encode(ending.spent),
        "billed": codec(Spend).encode(ending.billed),
    }


def _of(setup: Callable[[CallCounter, argparse.Namespace], Setup]) -> World:
    """A world that is a Setup."""

    def launch(folder: Path, counter: CallCounter, options: argparse.Namespace) -> Told:
        made = replace(setup(counter, options), concurrency=options.concurrency)
        return told_of(asyncio.run(edit_world.driven(made, folder)))

    return World(launch=launch)


# -- The toy --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _EditedClimb(Climb):
    """Someone changed the code and not the version."""

    async def _trial(
        self, run: Run, best: MeasuredCandidate, cycle: int, phase: str, step: int
    ) -> MeasuredCandidate:
        return await super()._trial(run, best, cycle, phase, step + 1)


def toy_setup(counter: CallCounter, options: argparse.Namespace) -> Setup:
    """A small climb, with outages and crashes where the options ask for them."""
    world = toy.ToyWorld(
        train=6,
        holdout=5,
        test=4,
        call_seconds=0.002,
        outage_rate=options.outages,
        crash_rate=options.outages / 2,
    )
    kind = _EditedClimb if options.edited else Climb
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=toy.target(world, counter=counter),
        metrics=(toy.RulesKept(),),
        objective=Objective(weights={"rules_kept": 1.0}),
        dataset=replace(toy.dataset(world), **({"test": ()} if options.no_test else {})),
        strategy=kind(proposer=proposer(counter=counter), cycles=2, trials_per_phase=3),
        budget=Budget(max_trials=options.trials),
        concurrency=options.concurrency,
        test_repeats=2,
        confirm=options.confirm,
    )


# -- Coordinate descent ---------------------------------------------------------------------------

_AXES = tuning_world.AXES.model_copy(
    update={
        "repeats": 1,
        "max_cycles": 2,
        "demonstration_phase": PhaseLimits(max_trials=4, patience=3),
        "numeric_phase": PhaseLimits(max_trials=5, patience=4),
        "textual_phase": PhaseLimits(max_trials=4, patience=2),
    }
)


def _coordinate(counter: CallCounter, _: argparse.Namespace) -> Setup:
    world = tuning_world.TuningWorld(
        train=6, holdout=4, test=3, noise=0.03, crash_rate=0.02, role_failure_rate=0.1
    )
    return tuning_world.setup(world, _AXES, counter=counter)


# -- Automatic search -----------------------------------------------------------------------------


def _auto(counter: CallCounter, _: argparse.Namespace) -> Setup:
    world = tuning_world.TuningWorld(
        train=6, holdout=6, test=3, noise=0.03, crash_rate=0.02, role_failure_rate=0.1
    )
    return auto_runs.setup(world, budget=Budget(max_trials=14), counter=counter)


# -- Reflective search ----------------------------------------------------------------------------

_REFLECTION = reflection_world.World(
    train=8,
    holdout=20,
    rules=4,
    fields=4,
    known=0,
    needs=1,
    noise=0.08,
    idle_share=0.3,
    harmful_share=0.1,
    crash_rate=0.02,
    role_failure_rate=0.05,
    call_seconds=0.001,
)
_MERGING = ReflectiveSettings(
    parent_selection="pareto", racing=False, reuse=False, merge=True, proposals_per_round=3
)


def _reflective(settings: ReflectiveSettings) -> World:
    def setup(counter: CallCounter, _: argparse.Namespace) -> Setup:
        budget = Budget(max_metric_calls=300)
        return reflection_world.setup(_REFLECTION, settings, budget=budget, counter=counter)

    return _of(setup)


# -- Back-propagation -----------------------------------------------------------------------------


def _half(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """Even cases need a word from the planner, odd ones from the writer."""
    del draw
    even = int(case.id[1:]) % 2 == 0
    text = str(candidate.values[backprop_world.PLANNER if even else backprop_world.WRITER])
    return backprop_world.outcome("yes" if "FIX" in text else "no", plan=f"a plan for {case.id}")


def _blame_both(request: BackwardRequest, draw: int) -> BackwardAnswer:
    """The writer for odd cases, the planner for the others; now and then nobody."""
    if draw % 7 == 6:
        raise RoleFailed("not today")
    number = int(request.input.rpartition("q")[2] or 0)
    if number % 2 == 1 and request.surfaces[0].id == backprop_world.WRITER:
        request = request.model_copy(update={"predecessors": ()})
    return backprop_world.blame_the_plan(request, draw)


def _patch(request: PatchRequest, draw: int) -> PatchAnswer:
    """What is right comes in the second round."""
    word = "FIX" if draw >= 2_000_000 else f"Try {draw}."
    return PatchAnswer(value=f"{request.surface.value} {word}", reason="it may help")


def _backprop(counter: CallCounter, options: argparse.Namespace) -> Setup:
    at_once = options.concurrency
    settings = BackpropSettings(
        max_rounds=3,
        candidates_per_round=2,
        merge_single=True,
        backward_parallelism=at_once,
        aggregation_parallelism=at_once,
        patch_parallelism=at_once,
    )
    roles = backprop_world.Roles(back=_blame_both, patch=_patch)
    return backprop_world.world(_half, roles, settings, counter=counter)


# -- Edits of files -------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _ByDraw(edit_world.Script):
    """An editor whose answers are a function of the draw alone: most are better than the last."""

    def answer(self, request: EditRequest, draw: int) -> Edit:
        del request
        return edit_world.whole("boom\n" if draw % 5 == 3 else f"{1 + draw}\n1\n1\n")


def _edits(counter: CallCounter, _: argparse.Namespace) -> Setup:
    return edit_world.setup(
        _ByDraw(edits=()),
        EditsSettings(task="make the numbers large", candidates_per_iteration=2),
        budget=Budget(max_trials=16),
        holdout=True,
        test=True,
        counter=counter,
    )


def _epochs(folder: Path, counter: CallCounter, _: argparse.Namespace) -> Told:
    return told_of(delegation_worlds.train(folder, counter))


def _refine(folder: Path, counter: CallCounter, _: argparse.Namespace) -> Told:
    return delegation_worlds.refine(folder, counter)


WORLDS = {
    "toy": _of(toy_setup),
    "auto": _of(_auto),
    "coordinate": _of(_coordinate),
    "reflective": _reflective(ReflectiveSettings()),
    "reflective-three": _reflective(ReflectiveSettings(proposals_per_round=3)),
    "reflective-merge": _reflective(_MERGING),
    "backprop": _of(_backprop),
    "edits": _of(_edits),
    "epochs": World(
        launch=_epochs,
        prepare=delegation_worlds.prepare_training,
        story=delegation_worlds.training_story,
        at_once=delegation_worlds.TRAINING_AT_ONCE,
    ),
    "refine": World(
        launch=_refine,
        prepare=delegation_worlds.make_seed,
        run_in=delegation_worlds.session_in,
        story=delegation_worlds.refinement_story,
    ),
}
STRATEGIES = ("auto", "coordinate", "reflective", "backprop", "edits", "epochs", "refine")
"""The worlds that a sweep goes through."""
