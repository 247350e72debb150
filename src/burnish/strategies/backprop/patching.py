"""Patching: a new value for each surface that something was said about."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from burnish.core.candidates import Candidate
from burnish.core.content import Json
from burnish.core.leaks import LeakWatch
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.surfaces import Value, value_key
from burnish.core.trials import Proposal
from burnish.evaluation.matching.excerpts import without_middle
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.batches import ask_each
from burnish.strategies.backprop.packets import Lost, MergedGradient, Severity
from burnish.strategies.backprop.step_requests import shown_surface
from burnish.strategies.backprop.values import BadValue, bounds_of, value_from
from burnish.strategies.backprop.wording import PatchAnswer, PatchRequest, Remark

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
    refused: tuple["Refused", ...] = ()
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Something that a role offered as a value and that cannot be one."""

    surface: str
    offered: Json
    why: str


@dataclass(kw_only=True)
class RejectedPatches:
    """What was tried and turned down, by surface, the latest last."""

    secrets: LeakWatch
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))

    def add(self, surface: str, offered: Json, why: str) -> None:
        """Remember a patch that brought nothing."""
        value = without_middle(str(offered), _SHOWN)
        entry = f"- tried: {value}\n  turned down: {why}"
        # What holds text of a held out case is not to be shown, even as a bad example.
        if self.secrets.leaked([str(offered), why]) is None and entry not in self.told[surface]:
            self.told[surface].append(entry)

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
        replies = await ask_each(
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
        shown = shown_surface(name, candidate, self._structure, self._kinds)
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
        found = [
            self._patch(name, reply, candidate) for name, reply in zip(names, replies, strict=True)
        ]
        refused = [each for each in found if isinstance(each, Refused)]
        lost = [Lost(role=self._role.name, where=each.surface, why=each.why) for each in refused]
        return Patched(
            patches=tuple(each for each in found if isinstance(each, Patch)),
            refused=tuple(refused),
            lost=tuple(lost),
            proposals=tuple(reply.proposal for reply in replies),
        )

    def _patch(self, name: str, reply: Asked[PatchAnswer], candidate: Candidate) -> Patch | Refused:
        """The patch, or why there is none."""
        if reply.answer is None:
            return Refused(surface=name, offered=None, why=reply.proposal.error)
        surface, offered = self._surfaces[name], reply.answer.value
        refused = Refused(surface=name, offered=offered, why="the patch changes nothing")
        try:
            value = value_from(offered, surface)
        except BadValue as error:
            return replace(refused, why=str(error))
        if self._run.secrets.leaked(offered) is not None:
            return replace(refused, why="the value holds text of a held out case")
        if problems := surface.problems(value):
            return replace(refused, why="; ".join(map(str, problems)))
        if value_key(value) == value_key(candidate.values[name]):
            return refused
        return Patch(surface=name, value=value, reason=reply.answer.reason.strip())
