"""Patching: a new value for each surface that something was said about."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.candidates import Candidate
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.surfaces import Value, value_key
from burnish.core.trials import Proposal
from burnish.evaluation.matching.excerpts import without_middle
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.batches import asked_in_batches
from burnish.strategies.backprop.packets import Lost, MergedGradient, Severity
from burnish.strategies.backprop.values import BadValue, bounds_of, shown_value, value_from
from burnish.strategies.backprop.walking import surface_type
from burnish.strategies.backprop.wording import PatchAnswer, PatchRequest, Remark, ShownSurface

REMEMBERED = 3
"""Rejected patches of a surface that the patcher is shown."""
_SHOWN = 600


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A new value for a surface, and why."""

    surface: str
    value: Value
    reason: str


@dataclass(frozen=True, kw_only=True)
class Patched:
    """One set of patches: at most one a surface."""

    patches: tuple[Patch, ...] = ()
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass
class RejectedPatches:
    """What was tried and turned down, by surface, the latest last."""

    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, patches: Sequence[Patch], why: str) -> None:
        """Remember a set of patches that brought nothing."""
        for patch in patches:
            value = without_middle(str(shown_value(patch.value)), _SHOWN)
            self.told[patch.surface].append(f"- tried: {value}\n  turned down: {why}")

    def of(self, surface: str) -> str:
        """The last few of a surface, in words."""
        return "\n".join(self.told.get(surface, [])[-REMEMBERED:]) or "(none)"


class Patcher:
    """Asks the patcher, surface by surface."""

    def __init__(
        self,
        run: Run,
        role: Role[PatchRequest, PatchAnswer],
        rejected: RejectedPatches,
        *,
        structure: Structure | None,
        parallel: int,
    ) -> None:
        self._run = run
        self._role = role
        self._rejected = rejected
        self._structure = structure
        self._surfaces = {surface.id: surface for surface in run.target.surfaces}
        self._kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._parallel = parallel

    async def patched(
        self,
        merged: Mapping[str, Sequence[MergedGradient]],
        candidate: Candidate,
        *,
        sets: int,
        draw: int,
    ) -> list[Patched]:
        """So many sets of patches, each from answers of its own."""
        names = list(merged)
        requests = [self._request(name, merged[name], candidate) for name in names]
        replies = await asked_in_batches(
            self._run, self._role, requests * sets, draw=draw, size=self._parallel
        )
        size = len(names)
        return [
            self._set(names, replies[place * size : (place + 1) * size], candidate)
            for place in range(sets)
        ]

    def _request(
        self, name: str, gradients: Sequence[MergedGradient], candidate: Candidate
    ) -> PatchRequest:
        surface = self._surfaces[name]
        shown = ShownSurface(
            id=name,
            type=surface_type(name, self._structure, self._kinds),
            value=shown_value(candidate.values[name]),
        )
        return PatchRequest(
            surface=shown,
            kind=surface.kind,
            bounds=bounds_of(surface),
            gradients=tuple(
                Remark(severity=Severity(each.severity), gradient=each.text) for each in gradients
            ),
            rejected=self._rejected.of(name),
            limits=surface,
        )

    def _set(
        self, names: Sequence[str], replies: Sequence[Asked[PatchAnswer]], candidate: Candidate
    ) -> Patched:
        patches: list[Patch] = []
        lost: list[Lost] = []
        for name, reply in zip(names, replies, strict=True):
            found = self._patch(name, reply, candidate)
            if isinstance(found, Patch):
                patches.append(found)
            else:
                lost.append(Lost(role=self._role.name, where=name, why=found))
        return Patched(
            patches=tuple(patches),
            lost=tuple(lost),
            proposals=tuple(reply.proposal for reply in replies),
        )

    def _patch(self, name: str, reply: Asked[PatchAnswer], candidate: Candidate) -> Patch | str:
        """The patch, or why there is none."""
        if reply.answer is None:
            return reply.proposal.error
        surface = self._surfaces[name]
        try:
            value = value_from(reply.answer.value, surface)
        except BadValue as error:
            return str(error)
        if problems := surface.problems(value):
            return "; ".join(map(str, problems))
        if value_key(value) == value_key(candidate.values[name]):
            return "the patch changes nothing"
        return Patch(surface=name, value=value, reason=reply.answer.reason.strip())
