"""Translates between a target's surfaces and PromptIter's snapshots, profiles and SurfaceIDs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from burnish.compat.promptiter.shapes import (
    NUMBER,
    Edge,
    Node,
    PatchSet,
    Profile,
    Snapshot,
    Surface,
    SurfaceOverride,
    SurfacePatch,
    SurfaceValue,
    union_of,
    value_of,
)
from burnish.core import surfaces
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import shorten
from burnish.core.protocols import Target
from burnish.core.surfaces import (
    Candidate,
    Origin,
    Position,
    Structure,
    Structured,
    SurfaceType,
    Value,
    position_id,
)
from burnish.core.surfaces import Surface as Editable
from burnish.strategies.backprop.packets import WHOLE
from burnish.strategies.backprop.rounds import Patch


@dataclass(frozen=True, kw_only=True)
class SurfaceMap:
    """The structure of a target, and the surfaces that edit it."""

    structure: Structure
    baseline: Candidate
    editable: Mapping[str, Editable]
    """The target's surfaces, by the target's own ids."""

    @classmethod
    def of(cls, target: Target) -> "SurfaceMap":
        """The map of a target; one without a structure is a graph of one node."""
        structure = target.structure if isinstance(target, Structured) else _of_one(target)
        surfaces = {surface.id: surface for surface in target.surfaces}
        return cls(structure=structure, baseline=target.baseline, editable=surfaces)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The structure as PromptIter accepts it.

        A node has one surface of each type but `tool`: all its skills are one, and the numbers of
        its model are left out, for which there is no type.
        """
        whole = self.whole
        shown: dict[str, Surface] = {}
        for surface in whole.surfaces:
            name = _known_id(surface)
            before = shown.get(name)
            if name and before is None:
                shown[name] = surface.model_copy(update={"surface_id": name})
            elif before is not None:
                skills = (*(before.value.skills or ()), *(surface.value.skills or ()))
                value = before.value.model_copy(update={"skills": skills})
                shown[name] = before.model_copy(update={"value": value})
        surfaces = tuple(sorted(shown.values(), key=lambda each: each.surface_id))
        return whole.model_copy(update={"surfaces": surfaces})

    @cached_property
    def whole(self) -> Snapshot:
        """The same with everything that can be edited: each skill, and numbers as a type."""
        structure = self.structure
        return Snapshot(
            structure_id=structure.id,
            entry_node_id=structure.entry,
            nodes=tuple(Node.of(node, node_id=node.id) for node in structure.nodes),
            edges=tuple(Edge(from_node_id=e.source, to_node_id=e.to) for e in structure.edges),
            surfaces=tuple(self.surface(p, self.now(p)) for p in structure.positions),
        )

    def surface(self, position: Position, value: Value) -> Surface:
        is_number = position.type is SurfaceType.MODEL and position.part
        return Surface.of(
            position,
            surface_id=position.id,
            type=NUMBER if is_number else position.type,
            value=union_of(position, value),
        )

    def applied(self, surfaces: Sequence[str]) -> tuple[str, ...]:
        """The ids of the target's surfaces that the snapshot knows, for a trace."""
        known = [
            _known_id(self.surface(position, self.now(position)))
            for position in map(self.position_of, surfaces)
            if position is not None
        ]
        return tuple(dict.fromkeys(name for name in known if name))

    def now(self, position: Position) -> Value:
        """The baseline value of a position."""
        return self.baseline.values.get(position.surface, position.value)

    @cached_property
    def targets(self) -> dict[str, str]:
        """The patchable surfaces of the target, by SurfaceID."""
        return {p.id: p.surface for p in self.structure.positions if p.surface in self.editable}

    def name_of(self, surface: str) -> str:
        """The SurfaceID of a surface of the target."""
        position = self.structure.of_surface(surface)
        return position.id if position else surface

    def position_of(self, surface: str) -> Position | None:
        """The position that a surface of the target edits."""
        return self.structure.of_surface(surface)

    def value(self, name: str, union: SurfaceValue) -> Value:
        """The value of a union for a SurfaceID; raises ConfigError if it does not fit."""
        position = self.structure.position(name)
        if position is None or name not in self.targets:
            raise ConfigError([unknown(name, self.targets)])
        return value_of(union, position, self.editable[position.surface])

    def profile(self, candidate: Candidate) -> Profile:
        """What a candidate changes, in order of SurfaceID."""
        overrides: list[SurfaceOverride] = []
        for position in self.structure.positions:
            value = candidate.values.get(position.surface)
            if value is None:
                continue
            union = union_of(position, value)
            if union != union_of(position, self.now(position)):
                overrides.append(SurfaceOverride(surface_id=position.id, value=union))
        return Profile(structure_id=self.structure.id, overrides=tuple(overrides))

    def patches(self, patches: tuple[Patch, ...]) -> PatchSet:
        """Patches in PromptIter's terms, in order of SurfaceID."""
        translated = [
            SurfacePatch(surface_id=p.id, value=union_of(p, patch.value), reason=patch.reason)
            for patch in patches
            if (p := self.position_of(patch.surface)) is not None
        ]
        return PatchSet(patches=tuple(sorted(translated, key=lambda each: each.surface_id)))

    def candidate(self, profile: Profile) -> Candidate:
        """The candidate of a profile; the baseline if it changes nothing."""
        changes: dict[str, Value] = {}
        problems: list[Problem] = []
        if profile.structure_id not in ("", self.structure.id):
            message = f"the profile belongs to structure '{profile.structure_id}'"
            remedy = f"this one is '{self.structure.id}'; an empty StructureID skips the check"
            problems.append(Problem(where="InitialProfile", message=message, remedy=remedy))
        names = [override.surface_id for override in profile.overrides]
        problems += [
            Problem(where=name, message="the profile overrides this surface twice")
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
        for override in profile.overrides:
            try:
                changes |= self._change(override)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        origin = Origin(kind="baseline", by="promptiter", note="the initial profile")
        return self.baseline.child(changes, origin=origin) if changes else self.baseline

    def _change(self, override: SurfaceOverride) -> dict[str, Value]:
        value = self.value(override.surface_id, override.value)
        position = self.structure.position(override.surface_id)
        assert position is not None
        if override.value == union_of(position, self.now(position)):
            return {}
        if problems := self.editable[position.surface].problems(value):
            raise ConfigError(problems)
        return {position.surface: value}


def _known_id(surface: Surface) -> str:
    """The id of a surface in PromptIter's snapshot; empty if it has no place there."""
    if surface.type == NUMBER:
        return ""
    if surface.type is SurfaceType.SKILL:
        return position_id(surface.node_id, SurfaceType.SKILL)
    return surface.surface_id


def unknown(name: str, surfaces: Mapping[str, object]) -> Problem:
    """The problem of a SurfaceID that cannot be patched."""
    name = shorten(name, 100)
    message = f'target surface id "{name}" is unknown' if name else "a surface id is empty"
    return Problem(
        where=name, message=message, remedy=f"there are: {', '.join(surfaces) or 'none'}"
    )


def _of_one(target: Target) -> Structure:
    """A target without a structure: each surface is a position of its one node."""
    node = surfaces.Node(id=WHOLE, name=target.description.kind)
    types = {
        "demos": SurfaceType.FEW_SHOT,
        "number": SurfaceType.MODEL,
        "choice": SurfaceType.MODEL,
    }
    kinds = [types.get(surface.kind, SurfaceType.INSTRUCTION) for surface in target.surfaces]
    positions: list[Position] = []
    for surface, kind in zip(target.surfaces, kinds, strict=True):
        alone = kinds.count(kind) == 1 and kind is not SurfaceType.MODEL
        part = "" if alone else surface.id
        position = Position(
            id=position_id(WHOLE, kind, part),
            node=WHOLE,
            type=kind,
            value=target.baseline.values[surface.id],
            surface=surface.id,
            part=part,
        )
        positions.append(position)
    return Structure.of(node.id, [node], positions=positions)
