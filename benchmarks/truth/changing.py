"""Worlds whose judge changes with its own calls: it drifts, or has good and bad minutes."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from benchmarks.truth.plays import Play, Played
from benchmarks.truth.tables import Rate, Table, claims, percent
from benchmarks.truth.worlds import (
    START,
    SURFACE,
    AnswerWorld,
    Effect,
    TrueGain,
    World,
    helps_in,
    student,
)
from burnish.core.cases import Case, Outcome, Split
from burnish.core.content import stream
from burnish.core.errors import Problem
from burnish.core.evaluations import Objective, Score
from burnish.core.protocols import Effects, Role, Target
from burnish.core.statistics import Share
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing import ScriptedTarget
from burnish.testing.doubles import FreeMetric, luck

Change: TypeAlias = Literal["drift", "minutes"]
"""`drift`: each call scores a little higher than the one before. `minutes`: good and bad times, in
which many calls in a row score higher, or lower."""
CHANGES: dict[Change, str] = {"drift": "a judge that drifts", "minutes": "good and bad minutes"}
CONCURRENCIES = (1, 8)
RUNS = 100
_FALSE_CLAIMS = 0.09
"""As many as 5 % may come to in a hundred runs."""
_REPEATS = 2
_NOISE, _DRIFT = 0.02, 0.0005
_MINUTES, _MEMORY = 0.05, 0.97
"""The spread of good and bad minutes, and how much of one call's is left at the next."""


@dataclass(frozen=True, kw_only=True)
class JudgedWorld(AnswerWorld):
    """Answers whose quality is a number, which a text raises in all cases alike."""

    EFFECTS: ClassVar[tuple[Effect, ...]] = ("null", "power")

    def respond(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        quality = 0.3 + 0.2 * luck("case", case.id) + self._gain(str(candidate.values[SURFACE]))
        return Outcome(replies=("an answer",), measures={"quality": quality})

    def true_gain(self, text: str, cases: Sequence[Case]) -> TrueGain:
        del cases
        return TrueGain(here=self._gain(text), everywhere=self._gain(text))

    def _gain(self, text: str) -> float:
        return self.help * helps_in(text)

    @classmethod
    def shown_when_steady(cls) -> float:
        """The smallest gain whose expected interval excludes zero, if the judge did not change."""
        return student(cls.CLAIM - 1) * _NOISE * math.sqrt(2 / _REPEATS / cls.CLAIM)


@dataclass(frozen=True, kw_only=True)
class ChangingJudge(FreeMetric):
    """Scores the quality with some noise, and with what its own change adds at this call."""

    name: str = "judge"
    change: Change
    luck: random.Random
    state: dict[str, float] = field(default_factory=lambda: {"calls": 0.0, "minutes": 0.0})

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        value = outcome.measures["quality"] + self.luck.gauss(0.0, _NOISE) + self._changed()
        return [Score(metric=self.name, value=min(1.0, max(0.0, value)))]

    def _changed(self) -> float:
        self.state["calls"] += 1
        fresh = math.sqrt(1 - _MEMORY**2) * self.luck.gauss(0.0, _MINUTES)
        self.state["minutes"] = _MEMORY * self.state["minutes"] + fresh
        return _DRIFT * self.state["calls"] if self.change == "drift" else self.state["minutes"]


@dataclass(frozen=True, kw_only=True)
class TakesOne:
    """A search that takes its one proposal whatever it scores: all depends on the claim."""

    text: str
    name: str = "takes_one"
    fingerprint: str = "1"
    roles: Sequence[Role[Any, Any]] = ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        del target
        return ()

    async def search(self, run: Run) -> None:
        """Measure the start and the proposal."""
        start = run.target.baseline
        await _measured(run, start, "baseline", None)
        proposal = start.child({SURFACE: self.text}, origin=Origin(by=self.name))
        taken = Decision(gate=self.name, verdict=Verdict.ACCEPT, code="taken", reason="as ever")
        await _measured(run, proposal, "proposal", taken)
        run.advance(proposal)


async def _measured(run: Run, candidate: Candidate, phase: str, decision: Decision | None) -> None:
    holdout = SplitResult.of(await run.evaluate(candidate, split=Split.HOLDOUT), run.objective)
    run.record(Trial(candidate=candidate, phase=phase, holdout=holdout, decision=decision))


@dataclass(frozen=True, kw_only=True)
class ChangingPlay(Play):
    """One run under a judge that changes."""

    strategy: str = TakesOne.name
    change: Change
    concurrency: int

    def world(self) -> World:
        """Its world; where a text helps, twice as much as a steady judge could show."""
        step = 2 * JudgedWorld.shown_when_steady() if self.effect == "power" else 0.0
        return JudgedWorld(effect=self.effect, number=self.number, sealed=self.sealed, help=step)

    def setup(self, world: World) -> Setup:
        """The run in this world."""
        judge = ChangingJudge(change=self.change, luck=stream(self.number, *self.key, self.effect))
        return Setup(
            target=ScriptedTarget(
                respond=world.respond,
                surfaces=(TextSurface(id=SURFACE),),
                values={SURFACE: START},
            ),
            metrics=(judge,),
            objective=Objective(weights={judge.name: 1.0}),
            dataset=world.dataset(),
            strategy=TakesOne(text=world.proposal(START)),
            concurrency=self.concurrency,
            test_repeats=_REPEATS,
            confirm=True,
        )

    @property
    def key(self) -> tuple[str, str, str]:
        """What its row of the table is about."""
        return CHANGES[self.change], self.basis, str(self.concurrency)


def changing_plays(*, runs: int, bases: Sequence[bool]) -> list[ChangingPlay]:
    """So many runs of each kind in which nothing helps, and as many with a real gain."""
    return [
        ChangingPlay(
            effect=effect, change=change, sealed=sealed, concurrency=concurrency, number=number
        )
        for change in CHANGES
        for sealed in bases
        for concurrency in CONCURRENCIES
        for effect in JudgedWorld.EFFECTS
        for number in range(runs)
    ]


def changing_table(played: Sequence[Played]) -> Table:
    """How often a gain is claimed that is only a change of the judge, and a real one beside it."""
    rows: list[list[str]] = []
    rates: list[Rate] = []
    groups: dict[tuple[str, str, str], dict[Effect, list[Played]]] = {}
    for each in played:
        assert isinstance(each.play, ChangingPlay)
        groups.setdefault(each.play.key, {}).setdefault(each.play.effect, []).append(each)
    for key, group in groups.items():
        null, real = group["null"], group["power"]
        share = Share.of_counts(claims(null), len(null))
        rates.append(Rate(share=share, goal=_FALSE_CLAIMS, at_most=True))
        changed = percent(each.changed for each in null)
        shown = percent(each.verdict == "improved" for each in real)
        rows.append([*key, str(len(null)), changed, *rates[-1].cells(), shown])
    return Table(
        words="**The judge changes with its own calls**, while no proposal changes anything: each "
        "call scores 0.0005 higher than the one before, or good and bad times go over into each "
        "other (AR(1), 0.97). *Real gain* is how often a gain of twice what the cases could show "
        "under a steady judge is claimed under this one:",
        head=[
            "judge", "claim from", "cases at once", "runs", "offer another text", "claim a gain",
            "95 % interval", "goal", "real gain",
        ],
        rows=rows,
        met=all(each.met for each in rates),
    )  # fmt: skip
