"""Points of numbers, choices and demonstrations as proposals to a search that combines several."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from burnish.core.content import short_id
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Candidate, Origin, value_key
from burnish.runs.plugins import TargetParts
from burnish.runs.proposers import Proposed, ProposerEvidence, ProposerOffer, Tried
from burnish.runs.run import Run
from burnish.strategies.coordinate.demonstrations import (
    DemonstrationPhase,
    NumericPhase,
    PointPhase,
)
from burnish.strategies.coordinate.numeric import Point
from burnish.strategies.coordinate.trials import CoordinateSettings, Incumbent, Memory

NUMBERS, DEMONSTRATIONS = "numbers", "demonstrations"


class PointProposer:
    """Asks a study for the next point; the study is a fresh one when others change the incumbent.

    A study compares points by what they gained over the incumbent on a minibatch, added to what
    the study's own points gained before.
    """

    def __init__(self, run: Run, phase: type[PointPhase], settings: CoordinateSettings) -> None:
        self._run = run
        self._kind = phase
        self._settings = settings
        self._studies = 0
        self._phase: PointPhase | None = None
        """None while there is nothing to search from this incumbent."""
        self._over = ""
        """Why there is nothing to search."""
        self._place: tuple[str, list[str]] = "", []
        """The incumbent of the study, and the surfaces that were free when it began."""
        self._gained = 0.0
        self._last: tuple[Point, Candidate] | None = None

    @property
    def need(self) -> Spend:
        """Nothing: a study asks nobody."""
        return NOTHING

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """The next point, or why the study is over."""
        self._last = None
        if self._place != (evidence.parent.id, self._free):
            await self._begin(evidence)
        incumbent = self._incumbent(evidence)
        over = self._over or (self._phase.nothing_left(incumbent) if self._phase else "")
        if over or self._phase is None:
            return Proposed(nothing_left=over)
        point, attempt = await self._phase.next(incumbent)
        self._phase.trials += 1
        parent = evidence.parent
        origin = Origin(by="coordinate", kind=self._phase.name, note=attempt.note)
        candidate = parent.child(attempt.values, origin=origin)
        self._last = point, candidate
        changed = [
            name
            for name, value in attempt.values.items()
            if value_key(value) != value_key(parent.values[name])
        ]
        return Proposed(
            candidate=candidate,
            touched=tuple(changed or attempt.values),
            source=attempt.details.proposal_source,
        )

    def learn(self, tried: Tried) -> None:
        """Add the point to the study."""
        if self._last is None or self._phase is None:
            return
        point, candidate = self._last
        gain = tried.gain
        loss = 1.0 if tried.problems else None if gain is None else -(self._gained + gain)
        self._phase.observe(point, loss)
        if tried.accepted and gain is not None:
            self._gained += gain
            self._place = candidate.id, self._place[1]

    async def _begin(self, evidence: ProposerEvidence) -> None:
        self._studies += 1
        self._gained = 0.0
        self._place = evidence.parent.id, self._free
        phase = self._new_phase(self._studies)
        self._over = await phase.begin(self._incumbent(evidence))
        self._phase = None if self._over else phase

    def _incumbent(self, evidence: ProposerEvidence) -> Incumbent:
        return Incumbent(
            candidate=evidence.parent, train=evidence.train, holdout=None, loss=-self._gained
        )

    @property
    def _free(self) -> list[str]:
        return self._new_phase(self._studies).free

    def _new_phase(self, study: int) -> PointPhase:
        return self._kind(
            run=self._run,
            settings=self._settings,
            cycle=study,
            limits=self._settings.numeric_phase,
            memory=Memory(),
        )


def point_proposers(parts: TargetParts) -> Iterator[ProposerOffer]:
    """Proposers of numbers and choices, and of demonstrations, where a target has them."""
    demos = parts.demonstrations()[:1] if parts.cases_demonstrate else ()
    if numbers := parts.numbers():
        settings = CoordinateSettings(numbers=numbers)
        yield _offer(NUMBERS, NumericPhase, numbers, settings)
    if demos:
        settings = CoordinateSettings(demonstrations=demos[0])
        yield _offer(DEMONSTRATIONS, DemonstrationPhase, demos, settings)


def _offer(
    name: str, phase: type[PointPhase], surfaces: tuple[str, ...], settings: CoordinateSettings
) -> ProposerOffer:
    if find_spec("optuna") is None:
        return ProposerOffer(
            name=name,
            surfaces=surfaces,
            left_out="searching points needs optuna: pip install 'burnish[numeric]'",
        )
    return ProposerOffer(
        name=name,
        surfaces=surfaces,
        begin=partial(PointProposer, phase=phase, settings=settings),
        fingerprint=short_id([name, 1, settings.model_dump()]),
    )
