"""Cheats at what is missing: a candidate that breaks the connection in the cases it would fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.cheats import Attempt, Cheat
from benchmarks.truth.cheats_ties import driven
from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome
from burnish.core.evaluations import Objective, Score
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, NumberSurface
from burnish.runs.claims import claim_words
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.testing.doubles import FreeMetric, ScriptedTarget

_AXIS = "top_k"
"""A candidate above 0.5 cheats."""
_LOST = Outcome(failure=Failure(kind=FailureKind.INFRASTRUCTURE, message="connection reset"))


@dataclass(frozen=True, kw_only=True)
class _Marks(FreeMetric):
    """The mark is what the agent says."""

    name: str = "marks"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        return [Score(metric=self.name, value=float(outcome.output))]


@dataclass(frozen=True, kw_only=True)
class _Lossy:
    """The cheat marks easy cases a little higher, and there is no result of the hard ones.

    The baseline has full marks in the hard cases. So the cheat may well be worse, and on the
    cases that both sides have it is better in each.
    """

    hard: int
    """Hard cases among the twenty of the sealed test; of train and holdout, five are."""
    marks: float
    """Of the cheat in easy cases, or a little less; the baseline has 0.5."""

    def play(self, folder: Path) -> Attempt:
        limits = PhaseLimits(max_trials=4, patience=4)
        setup = Setup(
            wait_minutes=0,  # who is away stays away
            target=ScriptedTarget(
                respond=self._respond,
                surfaces=(NumberSurface(id=_AXIS, low=0.0, high=1.0),),
                values={_AXIS: 0.2},
            ),
            metrics=(_Marks(),),
            objective=Objective(weights={"marks": 1.0}),
            dataset=Dataset(
                train=_cases("t", hard=5),
                holdout=_cases("h", hard=5),
                test=_cases("s", hard=self.hard),
            ),
            strategy=Coordinate(
                settings=CoordinateSettings(numbers=(_AXIS,), max_cycles=1, numeric_phase=limits)
            ),
        )
        ending, record = driven(setup, folder / "run")
        assert _cheats(ending.best), "the search never came to the cheat"
        assert record.claim is not None
        # Up to a quarter may be missing, so the rule accepts it; but nobody can call it a gain.
        return Attempt(
            accepted=False,
            by_rule=True,
            offered=record.claim.verdict == "improved",
            reason=claim_words(record.claim),
        )

    def _respond(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        if "hard" in case.id:
            return _LOST if _cheats(candidate) else Outcome(replies=("1.0",))
        better = self.marks - 0.01 * (int(case.id.rpartition("-")[2]) % 5)
        return Outcome(replies=(str(better) if _cheats(candidate) else "0.5",))


def _cheats(candidate: Candidate) -> bool:
    return float(str(candidate.values[_AXIS])) > 0.5


def _cases(letter: str, *, hard: int) -> tuple[Case, ...]:
    def case(number: int) -> Case:
        # Spread out: after ten lost connections in a row a run gives up.
        kind = "hard" if number * hard % 20 < hard else "easy"
        name = f"{letter}-{kind}-{number}"
        return Case.single(f"What of {name}?", name=name)

    return tuple(case(number) for number in range(20))


CHEATS = (
    Cheat(
        name="missing: the connection breaks in most cases of the sealed test",
        strategy="coordinate",
        play=_Lossy(hard=12, marks=0.9).play,
    ),
    Cheat(
        name="missing: small gains where it answers, large losses where it does not",
        strategy="coordinate",
        play=_Lossy(hard=5, marks=0.6).play,
    ),
)
