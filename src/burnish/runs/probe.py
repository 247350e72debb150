"""Probing: whether a candidate would do anything that the measured runs did not, at no cost."""

from collections.abc import Mapping, Sequence
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
"""Measured runs that are rehearsed; those with the most steps come first."""


@dataclass(frozen=True, kw_only=True)
class Probed:
    """The result of a probe, as the journal stores it."""

    reaches: bool
    """Whether a change affects requests or answers, or that cannot be told."""
    runs: int = 0
    """If not, the number of measured runs that are the same under every candidate."""


@dataclass(frozen=True, kw_only=True)
class Prober:
    """Rehearses measured runs with the results in the journal."""

    target: Target
    effects: JournaledEffects

    async def probe(
        self,
        candidates: Sequence[Candidate],
        *,
        before: Candidate,
        measured: Evaluation,
        cases: Mapping[str, Case],
        scope: Scope,
    ) -> Probed:
        """Whether any of the candidates differs from `before`, gone over in the measured runs.

        If `before` itself was not measured, its runs end at the first request without an answer.
        Then the candidates are the same if they end at that request too.

        The result is journaled, so a replay gets the same one whatever else the journal holds.
        """
        # Only runs in which the agent really ran and came to an end.
        runs = [
            (cases[result.case], result)
            for result in measured.results
            if cases[result.case].recorded is None and not result.outcome.missing
        ]
        runs = sorted(runs, key=lambda run: -len(run[1].outcome.trace.steps))[:_MOST_RUNS]

        ends = measured.candidate == before.id

        async def perform(effects: Effects) -> Receipt[Probed]:
            del effects
            return Receipt(value=await self._probed(candidates, before, runs, must_end=ends))

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
        *,
        must_end: bool,
    ) -> Probed:
        target = self.target
        sound = [candidate for candidate in candidates if not target.check(candidate)]
        if not isinstance(target, Rehearsable) or not sound or not runs:
            return Probed(reaches=True)
        for case, result in runs:
            rehearsal = self.effects.rehearsal()
            outcome = await _rehearsed(target, before, case, result, rehearsal)
            if outcome is None and (must_end or not rehearsal.ended):
                return Probed(reaches=True)
            for candidate in sound:
                # Only what this run used: the journal may hold the requests of other trials.
                again = self.effects.rehearsal(within=rehearsal.used)
                same = await _rehearsed(target, candidate, case, result, again) == outcome
                if not same or again.ended_at != rehearsal.ended_at:
                    return Probed(reaches=True)
        return Probed(reaches=False, runs=len(runs))


async def _rehearsed(
    target: Rehearsable,
    candidate: Candidate,
    case: Case,
    result: CaseResult,
    rehearsal: Rehearsal,
) -> Outcome | None:
    """The outcome of a rehearsed run; None if it cannot be rehearsed to its end."""
    try:
        outcome = await target.rehearse(
            candidate, case, draw=result.draw, effects=rehearsal, past=result.outcome
        )
    except Exception:  # noqa: BLE001 - the border to the agent: not knowing is no error
        return None
    return None if rehearsal.ended else outcome
