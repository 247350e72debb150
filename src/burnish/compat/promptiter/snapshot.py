"""A target as PromptIter sees it: snapshot, profiles, and which surface each SurfaceID is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from burnish.compat.promptiter.shapes import (
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
from burnish.core import structures
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Target
from burnish.core.structures import Position, Structure, Structured, SurfaceType, position_id
from burnish.core.surfaces import Candidate, Origin, Value
from burnish.core.surfaces import Surface as Editable
from burnish.strategies.backprop.losses import WHOLE
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
        """What a target is made of; one that cannot say is a graph of one node."""
        structure = target.structure if isinstance(target, Structured) else _of_one(target)
        surfaces = {surface.id: surface for surface in target.surfaces}
        return cls(structure=structure, baseline=target.baseline, editable=surfaces)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The structure in PromptIter's terms."""
        nodes = [Node(node_id=n.id, kind=n.kind, name=n.name) for n in self.structure.nodes]
        edges = [Edge(from_node_id=e.source, to_node_id=e.to) for e in self.structure.edges]
        return Snapshot(
            structure_id=self.structure.id,
            entry_node_id=self.structure.entry,
            nodes=tuple(nodes),
            edges=tuple(edges),
            surfaces=tuple(self.surface(p, self.now(p)) for p in self.structure.positions),
        )

    def surface(self, position: Position, value: Value) -> Surface:
        """A position with a value."""
        return Surface(
            surface_id=position.id,
            node_id=position.node,
            type=position.type,
            value=union_of(position, value),
        )

    def now(self, position: Position) -> Value:
        """The value that a position has in the target as it is."""
        return self.baseline.values.get(position.surface, position.value)

    @cached_property
    def targets(self) -> dict[str, str]:
        """By SurfaceID, the surface of the target that may be patched."""
        return {p.id: p.surface for p in self.structure.positions if p.surface in self.editable}

    def name_of(self, surface: str) -> str:
        """The SurfaceID of a surface of the target."""
        position = self.structure.of_surface(surface)
        return position.id if position else surface

    def position_of(self, surface: str) -> Position | None:
        """The position that a surface of the target edits."""
        return self.structure.of_surface(surface)

    def value(self, name: str, union: SurfaceValue) -> Value:
        """The value that is given for a SurfaceID. Raises with what is wrong about it."""
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
        """The candidate that a profile spells: the baseline where it says nothing new."""
        changes, problems = self._changes(profile)
        if problems:
            raise ConfigError(problems)
        origin = Origin(kind="baseline", by="promptiter", note="the initial profile")
        return self.baseline.child(changes, origin=origin) if changes else self.baseline

    def _changes(self, profile: Profile) -> tuple[dict[str, Value], list[Problem]]:
        changes: dict[str, Value] = {}
        problems: list[Problem] = []
        if profile.structure_id not in ("", self.structure.id):
            message = f"the profile is of structure '{profile.structure_id}'"
            remedy = (
                f"this one is '{self.structure.id}'; leave StructureID empty to take it as it is"
            )
            problems.append(Problem(where="InitialProfile", message=message, remedy=remedy))
        names = [override.surface_id for override in profile.overrides]
        problems += [
            Problem(where=name, message="the profile overrides it twice")
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
        for override in profile.overrides:
            try:
                changes |= self._change(override)
            except ConfigError as error:
                problems += error.problems
        return changes, problems

    def _change(self, override: SurfaceOverride) -> dict[str, Value]:
        value = self.value(override.surface_id, override.value)
        position = self.structure.position(override.surface_id)
        assert position is not None
        if override.value == union_of(position, self.now(position)):
            return {}
        if problems := self.editable[position.surface].problems(value):
            raise ConfigError(problems)
        return {position.surface: value}


def unknown(name: str, surfaces: Mapping[str, object]) -> Problem:
    """What to say of a SurfaceID that cannot be patched."""
    message = f'target surface id "{name}" is unknown' if name else "a surface id is empty"
    return Problem(
        where=name, message=message, remedy=f"there are: {', '.join(surfaces) or 'none'}"
    )


def _of_one(target: Target) -> Structure:
    node = structures.Node(id=WHOLE, name=target.description.kind)
    return Structure.of(node.id, [node], positions=_positions(target))


def _positions(target: Target) -> Iterator[Position]:
    """Each surface of a target that has no structure, as a position of its one node."""
    types = {
        "demos": SurfaceType.FEW_SHOT,
        "number": SurfaceType.MODEL,
        "choice": SurfaceType.MODEL,
    }
    kinds = [types.get(surface.kind, SurfaceType.INSTRUCTION) for surface in target.surfaces]
    for surface, kind in zip(target.surfaces, kinds, strict=True):
        alone = kinds.count(kind) == 1 and kind is not SurfaceType.MODEL
        part = "" if alone else surface.id
        yield Position(
            id=position_id(WHOLE, kind, part),
            node=WHOLE,
            type=kind,
            value=target.baseline.values[surface.id],
            surface=surface.id,
            part=part,
        )
