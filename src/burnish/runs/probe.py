"""Probing: whether a candidate would do anything that the measured runs did not, for nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.cases import Case
from burnish.core.content import Json, codec, short_id
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.money import NOTHING
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Call, Effects, Receipt, Rehearsable, Scope, Target
from burnish.core.surfaces import Candidate
from burnish.journal.once import JournaledEffects, Rehearsal

_MOST_RUNS = 50
"""Measured runs that are gone over again; those in which most happened come first."""


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What a probe found, as the journal keeps it."""

    reaches: bool
    """Whether a change reaches what is asked or answered; also where nobody can tell."""
    runs: int = 0
    """The measured runs that would go on alike under every candidate, where it reaches nothing."""


@dataclass(frozen=True, kw_only=True)
class Prober:
    """Goes over measured runs again, on what the journal holds."""

    target: Target
    effects: JournaledEffects

    async def probe(
        self,
        candidates: Sequence[Candidate],
        *,
        before: Candidate,
        measured: Sequence[tuple[Case, CaseResult]],
        scope: Scope,
    ) -> Probed:
        """Whether any of the candidates differs from `before`, whose runs were measured.

        The answer is journaled: a replay takes it from there, whatever else the journal holds.
        """
        runs = sorted(measured, key=lambda run: -len(run[1].outcome.trace.steps))[:_MOST_RUNS]

        async def perform(effects: Effects) -> Receipt[Probed]:
            del effects
            return Receipt(value=await self._probed(candidates, before, runs))

        ids: list[Json] = [candidate.id for candidate in candidates]
        request: Json = {
            "target": self.target.description.fingerprint,
            "before": before.id,
            "candidates": ids,
            "runs": short_id([[case.content_id, result.draw] for case, result in runs]),
        }
        call = Call(
            kind="probe", request=request, codec=codec(Probed), estimate=NOTHING, computed=True
        )
        return await scope.once(call, perform)

    async def _probed(
        self,
        candidates: Sequence[Candidate],
        before: Candidate,
        runs: Sequence[tuple[Case, CaseResult]],
    ) -> Probed:
        sound = [candidate for candidate in candidates if not self.target.check(candidate)]
        target = self.target
        if not isinstance(target, Rehearsable) or not sound or not runs:
            return Probed(reaches=True)
        for case, result in runs:
            rehearsing = _Rehearsing(target, self.effects, case, result)
            if await rehearsing.differs(before, sound):
                return Probed(reaches=True)
        return Probed(reaches=False, runs=len(runs))


@dataclass(frozen=True)
class _Rehearsing:
    """One measured run, gone over under one candidate and another."""

    target: Rehearsable
    effects: JournaledEffects
    case: Case
    result: CaseResult

    async def differs(self, before: Candidate, candidates: Sequence[Candidate]) -> bool:
        """Whether a candidate asks or answers something else; also where nobody can tell."""
        rehearsal = self.effects.rehearsal()
        outcome = await self._outcome(before, rehearsal)
        if outcome is None:
            return True
        for candidate in candidates:
            # Only what this very run has used: the journal may well hold other trials' requests.
            if (
                await self._outcome(candidate, self.effects.rehearsal(within=rehearsal.used))
                != outcome
            ):
                return True
        return False

    async def _outcome(self, candidate: Candidate, rehearsal: Rehearsal) -> Outcome | None:
        """What the run gives; None where it cannot be gone over to its end."""
        try:
            outcome = await self.target.rehearse(
                candidate,
                self.case,
                draw=self.result.draw,
                effects=rehearsal,
                past=self.result.outcome,
            )
        except Exception:  # noqa: BLE001 - the border to the agent: what nobody can tell is no error
            return None
        return None if rehearsal.ended else outcome


def measured_runs(
    cases: Mapping[str, Case], evaluation: Evaluation
) -> Iterator[tuple[Case, CaseResult]]:
    """The runs that tell something: the agent really ran, and came to an end."""
    for result in evaluation.results:
        case = cases[result.case]
        if case.recorded is None and not result.outcome.missing:
            yield case, result
