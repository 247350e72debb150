"""Merging: what many runs say of one surface becomes a few remarks that keep their sources."""

from collections.abc import Sequence

from burnish.core.candidates import Candidate
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.trials import Proposal
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.batches import asked_in_batches
from burnish.strategies.backprop.packets import Lost, MergedGradient, SurfaceGradient, rank
from burnish.strategies.backprop.values import shown_value
from burnish.strategies.backprop.walking import surface_type
from burnish.strategies.backprop.wording import (
    MergeAnswer,
    MergeRequest,
    NumberedRemark,
    ShownSurface,
)


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
        self.lost: list[Lost] = []
        self.proposals: list[Proposal] = []

    async def merged(
        self, gradients: Sequence[SurfaceGradient], candidate: Candidate, *, draw: int
    ) -> dict[str, list[MergedGradient]]:
        """By surface, in order of its name, what should change; never less than was said."""
        said: dict[str, list[SurfaceGradient]] = {}
        for gradient in sorted(gradients, key=lambda each: (each.surface, each.order)):
            said.setdefault(gradient.surface, []).append(gradient)
        asking = [name for name, remarks in said.items() if self._single or len(remarks) > 1]
        requests = [self._request(name, said[name], candidate) for name in asking]
        replies = await asked_in_batches(
            self._run, self._role, requests, draw=draw, size=self._parallel
        )
        self.proposals = [reply.proposal for reply in replies]
        found = {name: _as_they_are(remarks) for name, remarks in said.items()}
        for name, reply in zip(asking, replies, strict=True):
            found[name] = self._answered(name, said[name], reply) or found[name]
        return found

    def _request(
        self, name: str, gradients: Sequence[SurfaceGradient], candidate: Candidate
    ) -> MergeRequest:
        shown = ShownSurface(
            id=name,
            type=surface_type(name, self._structure, self._kinds),
            value=shown_value(candidate.values[name]),
        )
        numbered = [
            NumberedRemark.model_validate(
                {"number": place, "severity": each.severity, "gradient": each.text}
            )
            for place, each in enumerate(gradients, start=1)
        ]
        return MergeRequest(surface=shown, gradients=tuple(numbered))

    def _answered(
        self, name: str, said: Sequence[SurfaceGradient], reply: Asked[MergeAnswer]
    ) -> list[MergedGradient]:
        """The merged remarks; none when the answer is of no use, and the raw ones stand."""
        if reply.answer is None:
            self.lost.append(Lost(role=self._role.name, where=name, why=reply.proposal.error))
            return []
        found: list[MergedGradient] = []
        for remark in reply.answer.gradients:
            if remark.gradient.strip():
                cited = [said[n - 1] for n in dict.fromkeys(remark.sources) if 0 < n <= len(said)]
                found.append(
                    MergedGradient(
                        surface=name,
                        severity=remark.severity.value,
                        text=remark.gradient.strip(),
                        sources=tuple(cited or said),
                    )
                )
        return sorted(found, key=lambda each: rank(each.severity))


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
