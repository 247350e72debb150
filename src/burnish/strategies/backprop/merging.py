"""Merging: what many runs say of one surface becomes a few remarks that keep their sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.candidates import Candidate
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.trials import Proposal
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.batches import ask_each
from burnish.strategies.backprop.packets import Lost, MergedGradient, SurfaceGradient, rank
from burnish.strategies.backprop.step_requests import shown_surface
from burnish.strategies.backprop.wording import MergeAnswer, MergeRequest, NumberedRemark


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What should change, by surface, in order of its name."""

    surfaces: Mapping[str, Sequence[MergedGradient]]
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


class Merger:
    """Asks the aggregator, surface by surface."""

    def __init__(
        self,
        run: Run,
        role: Role[MergeRequest, MergeAnswer],
        *,
        structure: Structure | None,
        parallel: int,
        single: bool,
    ) -> None:
        self._run = run
        self._role = role
        self._structure = structure
        self._kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._parallel = parallel
        self._single = single

    async def merged(
        self, gradients: Sequence[SurfaceGradient], candidate: Candidate, *, draw: int
    ) -> Merged:
        """What should change about each surface; never less than was said."""
        said: dict[str, list[SurfaceGradient]] = {}
        for gradient in sorted(gradients, key=lambda each: (each.surface, each.order)):
            said.setdefault(gradient.surface, []).append(gradient)
        asking = [name for name, remarks in said.items() if self._single or len(remarks) > 1]
        requests = [self._request(name, said[name], candidate) for name in asking]
        replies = await ask_each(self._run, self._role, requests, draw=draw, size=self._parallel)
        found = {name: _as_they_are(remarks) for name, remarks in said.items()}
        lost: list[Lost] = []
        for name, reply in zip(asking, replies, strict=True):
            answered = self._answered(name, said[name], reply)
            if isinstance(answered, str):
                lost.append(Lost(role=self._role.name, where=name, why=answered))
            else:
                found[name] = answered
        proposals = tuple(reply.proposal for reply in replies)
        return Merged(surfaces=found, lost=tuple(lost), proposals=proposals)

    def _request(
        self, name: str, gradients: Sequence[SurfaceGradient], candidate: Candidate
    ) -> MergeRequest:
        shown = shown_surface(name, candidate, self._structure, self._kinds)
        numbered = [
            NumberedRemark.model_validate(
                {"number": place, "severity": each.severity, "gradient": each.text}
            )
            for place, each in enumerate(gradients, start=1)
        ]
        return MergeRequest(surface=shown, gradients=tuple(numbered))

    def _answered(
        self, name: str, said: Sequence[SurfaceGradient], reply: Asked[MergeAnswer]
    ) -> list[MergedGradient] | str:
        """The merged remarks; or why the answer is of no use, so that the raw ones stand."""
        if reply.answer is None:
            return reply.proposal.error
        found: list[MergedGradient] = []
        for remark in reply.answer.gradients:
            text = remark.gradient.strip()
            if text and self._run.secrets.leaked(text) is None:
                cited = [said[n - 1] for n in dict.fromkeys(remark.sources) if 0 < n <= len(said)]
                found.append(
                    MergedGradient(
                        surface=name,
                        severity=remark.severity.value,
                        text=text,
                        sources=tuple(cited or said),
                    )
                )
        return sorted(found, key=lambda each: rank(each.severity)) or "the answer says nothing"


def _as_they_are(gradients: Sequence[SurfaceGradient]) -> list[MergedGradient]:
    """The remarks unmerged, equal ones once."""
    by_text: dict[str, list[SurfaceGradient]] = {}
    for gradient in gradients:
        by_text.setdefault(gradient.text, []).append(gradient)
    return [
        MergedGradient(
            surface=same[0].surface,
            severity=min((each.severity for each in same), key=rank),
            text=text,
            sources=tuple(same),
        )
        for text, same in by_text.items()
    ]
