"""A candidate that retrieves nothing where it is hard gains nothing, whoever searches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Outcome, Step, ToolCall, Trace
from burnish.core.content import short_id
from burnish.core.evaluations import Objective, Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, NumberSurface, Surface, Value
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.strategies.races import Course
from burnish.strategies.reflective.attempts import Pool, ReflectiveSettings, as_good_as
from burnish.testing import ExpectedText, ScriptedTarget
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.reflective_parts import TWO, both, holdout, race_so_far, result
from tests.strategies.reflective_runs import CLASSIC, Talk
from tests.strategies.reflective_runs import scripted as reflecting

WEIGHTS = {"expected_text": 1.0, "faithful": 1.0}


@dataclass(frozen=True, kw_only=True)
class Faithful:
    """A metric: 1 where the reply rests on a passage; says nothing where none was retrieved."""

    name: str = "faithful"

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id(self.name)

    def estimate(self, case: Case) -> Spend:
        """Nothing."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Look for the reply in the passages."""
        del case, effects
        passages = [p for s in outcome.trace.steps for tool in s.tools for p in tool.passages]
        if not passages:
            return []
        held = outcome.output in passages
        return [Score(metric=self.name, value=float(held), passed=held)]


def answer(case: Case, *, strict: bool) -> Outcome:
    """Easy cases are right; hard ones are wrong, and being strict retrieves nothing for them."""
    hard = case.id.startswith("hard")
    passages = () if hard and strict else ("yes",)
    tool = ToolCall(name="search", passages=passages)
    step = Step(id="s", node="agent", tools=(tool,))
    return Outcome(replies=("no" if hard else "yes",), trace=Trace(steps=(step,)))


def cases(split: str, *, hard: int, easy: int) -> tuple[Case, ...]:
    names = [*(f"hard-{split}{n}" for n in range(hard)), *(f"easy-{split}{n}" for n in range(easy))]
    return tuple(Case.single(f"What of {name}?", "yes", name=name) for name in names)


def world(setup: Setup, *, hard: int) -> Setup:
    return replace(
        setup,
        metrics=(ExpectedText(), Faithful()),
        objective=Objective(weights=WEIGHTS),
        dataset=Dataset(
            train=cases("t", hard=hard, easy=12 - hard),
            holdout=cases("h", hard=hard, easy=12 - hard),
        ),
    )


def by_threshold(candidate: Candidate, case: Case, draw: int) -> Outcome:
    del draw
    return answer(case, strict=float(str(candidate.values["min_similarity_score"])) > 0.5)


def by_text(candidate: Candidate, case: Case, draw: int) -> Outcome:
    del draw
    return answer(case, strict="only what is near" in str(candidate.values["system"]))


def accepted(run: Driven) -> list[str]:
    decisions = [row.trial.decision for row in run.rows if row.trial.decision]
    return [decision.reason for decision in decisions if decision.accepted]


HARD = pytest.mark.parametrize("hard", [2, 5])
"""Within the share that may be missing, and beyond it."""


@HARD
@pytest.mark.parametrize("repeats", [1, 3])
def test_coordinate_descent_does_not_raise_the_threshold(
    tmp_path: Path, hard: int, repeats: int
) -> None:
    surfaces: tuple[Surface, ...] = (NumberSurface(id="min_similarity_score", low=0.0, high=1.0),)
    values: dict[str, Value] = {"min_similarity_score": 0.2}
    settings = CoordinateSettings(
        numbers=("min_similarity_score",),
        repeats=repeats,
        max_cycles=1,
        numeric_phase=PhaseLimits(max_trials=8, patience=8),
    )
    made = Setup(
        target=ScriptedTarget(respond=by_threshold, surfaces=surfaces, values=values),
        metrics=(),
        objective=Objective(weights=WEIGHTS),
        dataset=Dataset(train=()),
        strategy=Coordinate(settings=settings),
    )
    run = driven(world(made, hard=hard), tmp_path / "run")
    tried = [float(str(row.trial.candidate.values["min_similarity_score"])) for row in run.rows]
    assert max(tried) > 0.5
    assert accepted(run) == []
    silent = [row.trial.decision for row in run.rows[1:] if row.trial.decision]
    codes = {decision.code for decision in silent if decision.missing.lost}
    assert codes == ({"missing"} if hard == 5 else {"tie"})


@HARD
@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC], ids=["trail", "classic"])
def test_reflection_does_not_forbid_retrieval(
    tmp_path: Path, hard: int, settings: ReflectiveSettings
) -> None:
    talk = Talk(rewrite=lambda request, draw: f"{request.current_text} only what is near {draw}")
    settings = settings.model_copy(update={"minibatch": 12})
    made = reflecting(by_text, talk, settings=settings, budget=Budget(max_trials=3))
    run = driven(world(made, hard=hard), tmp_path / "run")
    assert len(run.rows) > 1
    assert accepted(run) == []


# -- the parts of reflective search that hold evaluations against each other -------------------

BEFORE = both({"c0": (0.5, 0.1), "c1": (0.5, 0.9)})
SILENT = replace(
    BEFORE,
    candidate="y",
    results=(result("c0", m=0.5), result("c1", m=0.5, n=0.9)),
)


def test_a_race_does_not_count_what_was_lost_as_a_gain() -> None:
    order = holdout(2)
    course = Course(order=order, incumbent=BEFORE, repeats=1, block=2, early=True)
    assert race_so_far(SILENT, course, TWO).gains == (0.0,)


def test_a_merge_that_lost_a_score_is_not_as_good_as_its_sides() -> None:
    found = as_good_as(SILENT, [BEFORE, BEFORE], TWO)
    assert (found.accepted, found.code) == (False, "worse")


def test_the_pool_takes_what_was_lost_at_its_worst() -> None:
    pool = Pool(TWO, "instance")
    first = pool.add(Candidate(values={"system": "1"}), BEFORE, leads=True)
    second = pool.add(Candidate(values={"system": "2"}), SILENT, leads=False)
    assert second.score < first.score
    assert second.standards["case", "c0"] < first.standards["case", "c0"]
