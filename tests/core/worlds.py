"""Evaluations to test with: written down in a line, or drawn by hypothesis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from burnish.core.cases import Failure, FailureKind, Outcome, Split
from burnish.core.comparisons import Pair
from burnish.core.evaluations import (
    CaseResult,
    Constraint,
    Evaluation,
    Objective,
    Penalties,
    Score,
    TieBreaker,
)
from burnish.core.gates import improves_on_minibatch, min_gain, sigma, strict
from burnish.core.money import NANO
from burnish.core.trials import Decision

T = TypeVar("T")

CRASH = Failure(kind=FailureKind.AGENT, message="boom")
OUTAGE = Failure(kind=FailureKind.INFRASTRUCTURE, message="503")


def ran(
    case: str,
    scores: Mapping[str, float | None],
    *,
    draw: int = 0,
    nano_usd: int | None = 0,
    seconds: float = 0.0,
    measures: Mapping[str, float] | None = None,
) -> CaseResult:
    """A run that finished."""
    return CaseResult(
        case=case,
        draw=draw,
        outcome=Outcome(
            replies=("ok",), nano_usd=nano_usd, seconds=seconds, measures=measures or {}
        ),
        scores=tuple(Score(metric=m, value=value) for m, value in scores.items()),
    )


def crashed(result: CaseResult) -> CaseResult:
    """The same run, had the agent failed: at once, for free."""
    return CaseResult(
        case=result.case,
        draw=result.draw,
        outcome=Outcome(failure=CRASH),
        scores=tuple(Score.of_failure(score.metric, "boom") for score in result.scores),
    )


def lost(result: CaseResult) -> CaseResult:
    """The same run, had the infrastructure failed."""
    return replace(result, outcome=Outcome(failure=OUTAGE), scores=())


def evaluation(*results: CaseResult) -> Evaluation:
    """These runs as one evaluation."""
    return Evaluation(candidate="c", split=Split.TRAIN, results=results)


def table(*sweeps: Sequence[float | None], metric: str = "acc") -> Evaluation:
    """One metric: a row a sweep, a column a case, None where the score is missing."""
    return evaluation(
        *(
            ran(f"case{i}", {metric: value}, draw=draw)
            for draw, row in enumerate(sweeps)
            for i, value in enumerate(row)
        )
    )


def with_losses(*losses: float) -> Evaluation:
    """One case whose sweeps have these losses."""
    return table(*([1.0 - loss] for loss in losses))


ACC = Objective(weights={"acc": 1.0})


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything any gate needs for one decision."""

    train: Pair
    holdout: Pair
    objective: Objective = ACC
    accept_sigma: float = 1.0
    gain: float = 0.0
    tolerance: float = 0.0
    max_missing: float = 1.0
    metrics: tuple[str, ...] = field(default=("acc",))


GATES: Mapping[str, Callable[[World], Decision]] = {
    "sigma": lambda w: sigma(
        objective=w.objective,
        train=w.train,
        holdout=w.holdout,
        accept_sigma=w.accept_sigma,
        max_missing=w.max_missing,
    ),
    "sigma on train": lambda w: sigma(
        objective=w.objective,
        train=w.train,
        accept_sigma=w.accept_sigma,
        max_missing=w.max_missing,
    ),
    "min_gain": lambda w: min_gain(
        objective=w.objective, validation=w.train, gain=w.gain, max_missing=w.max_missing
    ),
    "strict": lambda w: strict(
        objective=w.objective,
        pair=w.train,
        tolerance=w.tolerance,
        accept_sigma=w.accept_sigma,
        max_missing=w.max_missing,
    ),
    "strict on a metric": lambda w: strict(
        objective=w.objective,
        pair=w.train,
        primary="acc",
        direction="maximize",
        tolerance=w.tolerance,
        accept_sigma=w.accept_sigma,
        max_missing=w.max_missing,
    ),
    "minibatch": lambda w: improves_on_minibatch(
        objective=w.objective, minibatch=w.train, max_missing=w.max_missing
    ),
}

SCORES = (0.0, 0.2, 0.25, 0.5, 0.7, 1.0)
PRICES = (0, NANO // 3, NANO, 3 * NANO)
TIMES = (0.0, 0.5, 1.0, 7.25)
KINDS = ("finished",) * 5 + ("crashed", "lost", "unscored")


@st.composite
def worlds(draw: DrawFn, *, spoilt: bool = True) -> World:
    """A comparison on train and on holdout; `spoilt` ones have runs or scores missing."""
    metrics = ("acc", "tone")[: draw(st.integers(1, 2))]
    return World(
        train=draw(pairs(metrics, spoilt=spoilt)),
        holdout=draw(pairs(metrics, spoilt=spoilt)),
        objective=draw(objectives(metrics)),
        accept_sigma=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        gain=draw(st.sampled_from([-0.1, 0.0, 0.05, 0.2])),
        tolerance=draw(st.sampled_from([0.0, 0.05])),
        metrics=metrics,
    )


@st.composite
def pairs(draw: DrawFn, metrics: tuple[str, ...], *, spoilt: bool) -> Pair:
    """Two evaluations over the same cases and repeats."""
    names = [f"case{i}" for i in range(draw(st.integers(1, 5)))]
    # The first metric applies to every case, the second to some, as metrics do.
    asked = {name: metrics[: 1 + (i + 1) % len(metrics)] for i, name in enumerate(names)}
    repeats = draw(st.integers(1, 3))
    slots = [(name, number) for number in range(repeats) for name in names]
    one = st.tuples(*(st.integers(0, 1 << 16) for _ in slots))
    sides = [
        evaluation(
            *(
                run_from(code, name, asked[name], number, spoilt=spoilt)
                for code, (name, number) in zip(draw(one), slots, strict=True)
            )
        )
        for _ in range(2)
    ]
    return Pair(candidate=sides[0], incumbent=sides[1])


def run_from(
    code: int, name: str, metrics: tuple[str, ...], number: int, *, spoilt: bool
) -> CaseResult:
    """One run: mostly finished, at times crashed, and when spoilt at times not there.

    One number says all of it: drawing each part on its own takes hypothesis ten times longer.
    """

    def pick(choices: Sequence[T]) -> T:
        nonlocal code
        code, index = divmod(code, len(choices))
        return choices[index]

    kind = pick(KINDS if spoilt else KINDS[:-2])
    scores: dict[str, float | None] = {metric: pick(SCORES) for metric in metrics}
    if kind == "unscored":
        scores[metrics[-1]] = None
    whole = ran(name, scores, draw=number, nano_usd=pick(PRICES), seconds=pick(TIMES))
    if kind == "crashed":
        return crashed(whole)
    return lost(whole) if kind == "lost" else whole


CONSTRAINTS = (
    Constraint(metric="acc", op=">=", value=0.3),
    Constraint(metric="loss", op="<", value=0.9),
    Constraint(metric="cost_usd", op="<=", value=6.0),
    Constraint(metric="latency_sec", op="<=", value=4.0),
    Constraint(metric="failed_cases", op="<=", value=1.0),
)
BREAKERS = (
    TieBreaker(metric="tone", prefer="higher"),
    TieBreaker(metric="cost_usd", prefer="lower"),
    TieBreaker(metric="latency_sec", prefer="lower"),
)


@st.composite
def objectives(draw: DrawFn, metrics: tuple[str, ...]) -> Objective:
    """Weights for all metrics or the first, maybe penalties, constraints and tie-breakers."""
    heavy = metrics[: draw(st.integers(1, len(metrics)))]
    penalties = st.sampled_from(
        [
            Penalties(),
            Penalties(cost_per_usd=0.1),
            Penalties(latency_per_sec=0.05),
            Penalties(cost_per_usd=0.01, latency_per_sec=0.01),
        ]
    )
    return Objective(
        weights={metric: draw(st.sampled_from([0.5, 1.0, 3.0])) for metric in heavy},
        penalties=draw(penalties),
        constraints=draw(_some(CONSTRAINTS)),
        tie_breakers=draw(_some(BREAKERS)),
    )


def _some(things: Sequence[T]) -> SearchStrategy[tuple[T, ...]]:
    few = st.lists(st.sampled_from(things), max_size=2, unique=True)
    return few.map(tuple)


def without(world: World, cases: Mapping[str, set[str]]) -> World:
    """The world had these cases, by `train` and `holdout`, not been run on either side."""

    def cut(pair: Pair, gone: set[str]) -> Pair:
        kept = [case for case in pair.candidate.cases if case not in gone]
        return Pair(candidate=pair.candidate.only(kept), incumbent=pair.incumbent.only(kept))

    return replace(
        world,
        train=cut(world.train, cases["train"]),
        holdout=cut(world.holdout, cases["holdout"]),
    )
