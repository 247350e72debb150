"""How a file of kind `prompts` wants its prompts searched: one of three strategies."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from burnish.core.cases import Dataset
from burnish.core.errors import Problem
from burnish.core.protocols import Metric
from burnish.effects.budget import Budget
from burnish.models.calling import ModelClient
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelRef
from burnish.projects.backprop_block import PROPOSER, ROLES
from burnish.projects.backprop_checks import BackpropChecks
from burnish.projects.backprop_roles import proposers_of
from burnish.projects.called_parts import CalledParts
from burnish.projects.loading import Given
from burnish.projects.overrides import flag_of
from burnish.projects.prompts.bounds import too_small
from burnish.projects.prompts.notes import reflective_notes
from burnish.projects.prompts.project_file import CoordinateBlock, PromptsFile
from burnish.projects.prompts.roles import reflector_of, writers_by
from burnish.projects.reflective_block import ending
from burnish.runs.strategy import Strategy
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.reflective.strategy import Reflective
from burnish.targets.prompts.target import PromptsTarget

Measured: TypeAlias = tuple[Dataset, tuple[Metric, ...]]
"""The cases, and what is measured on them."""
REFLECTIVE, COORDINATE, BACKPROP = "reflective", "coordinate", "backprop"
STRATEGIES = (REFLECTIVE, COORDINATE, BACKPROP)


@dataclass(frozen=True, kw_only=True)
class Searching:
    """A strategy, and what goes with it."""

    strategy: Strategy
    budget: Budget
    repeats: int
    client: ModelClient
    """Whoever writes prompts."""
    notes: tuple[str, ...] = ()


def search_of(
    given: Given,
    file: PromptsFile,
    parts: CalledParts,
    target: PromptsTarget,
    measured: Measured,
) -> Searching | None:
    """How the file is searched; None, with what is wrong kept, where that cannot be."""
    name = given.flags.choose("strategy", file.strategy, given.environment, REFLECTIVE)
    making = _Making(given, file, parts, target, *measured)
    if name not in STRATEGIES:
        remedy = f"there are: {', '.join(STRATEGIES)}"
        parts.wrong.add(("strategy",), f"no strategy '{name}' for prompts", remedy)
        return None
    ways = {
        REFLECTIVE: making.reflective,
        COORDINATE: making.coordinate,
        BACKPROP: making.backprop,
    }
    return ways[name]()


@dataclass(frozen=True)
class _Making:
    given: Given
    file: PromptsFile
    parts: CalledParts
    target: PromptsTarget
    dataset: Dataset
    metrics: tuple[Metric, ...]

    def reflective(self) -> Searching | None:
        self._refuse_phases()
        repeats = self._repeats(1)
        settings = self.file.reflective.settings(repeats=repeats)
        budget, notes = ending(self._budget())
        self._require_enough(budget, repeats)
        ref = self._model("reflector")
        if ref is None:
            remedy = "name a model: reflector: openai:gpt-4o, or --reflector MODEL"
            self.parts.wrong.add(("reflector",), "there is nobody to rewrite prompts", remedy)
            return None
        role = self.parts.wrong.of(
            ("reflector",), lambda: reflector_of(ref, self.parts.models, self.parts.folder), None
        )
        if role is None:
            return None
        return Searching(
            strategy=Reflective(reflector=role, settings=settings),
            budget=budget,
            repeats=repeats,
            client=role.client,
            notes=(*notes, *reflective_notes(self.target, settings)),
        )

    def coordinate(self) -> Searching | None:
        repeats = self._repeats(CoordinateSettings().repeats)
        names = tuple(surface.id for surface in self.target.surfaces)
        settings = self._block().settings(repeats=repeats, fields=names)
        first = self._model("critic") or self._model("applier") or self._model("reflector")
        if first is None:
            remedy = "name a model: critic: openai:gpt-4o, or --critic MODEL"
            self.parts.wrong.add(("critic",), "there is nobody to diagnose and edit", remedy)
            return None
        second = self._model("applier") or first
        writers = self.parts.wrong.of(
            ("critic",),
            lambda: writers_by(first, second, self.parts.models, self.parts.folder),
            None,
        )
        if writers is None:
            return None
        return Searching(
            strategy=Coordinate(settings=settings, critic=writers.critic, applier=writers.applier),
            budget=self._budget(),
            repeats=repeats,
            client=writers.applier.client,
        )

    def backprop(self) -> Searching | None:
        self._refuse_phases(but="accept_sigma")
        repeats, flags = self._repeats(1), self.given.flags
        told = {"max_rounds": flags.max_rounds, "accept_sigma": flags.accept_sigma}
        said = {name: value for name, value in told.items() if value is not None}
        block = self.file.backprop.model_copy(update=said)
        checks = BackpropChecks(block=block, at=(BACKPROP,), wrong=self.parts.wrong)
        checks.surfaces([surface.id for surface in self.target.surfaces])
        checks.cases(self.dataset)
        checks.metrics(self.metrics)
        found = {role: self._model(role) for role in (PROPOSER, *ROLES)}
        named = {role: ref for role, ref in found.items() if ref is not None}
        shared = named.get(PROPOSER) or self._model("reflector")
        if shared is None and any(role not in named for role in ROLES):
            remedy = "name a model: proposer: openai:gpt-4o, or --proposer MODEL"
            self.parts.wrong.add((PROPOSER,), "there is nobody to write patches", remedy)
            return None
        proposers = self.parts.wrong.of(
            (PROPOSER,),
            lambda: proposers_of(named, shared, self.parts.models, self.parts.folder),
            None,
        )
        if proposers is None:
            return None
        return Searching(
            strategy=proposers.strategy(block.settings(repeats=repeats)),
            budget=self._budget(),
            repeats=repeats,
            client=proposers.patcher.client,
        )

    def _block(self) -> CoordinateBlock:
        """The settings of the file after flags."""
        flags, said = self.given.flags, self.file.coordinate
        told = {
            "accept_sigma": flags.accept_sigma,
            "max_cycles": flags.max_cycles,
            "max_trials": flags.textual_max_trials,
            "patience": flags.textual_patience,
        }
        return said.model_copy(update={k: v for k, v in told.items() if v is not None})

    def _refuse_phases(self, *, but: str = "") -> None:
        for name in ("accept_sigma", "max_cycles", "textual_max_trials", "textual_patience"):
            if name != but and getattr(self.given.flags, name) is not None:
                told = "only the strategy 'coordinate' can be told this"
                self.parts.wrong.problems.append(Problem(where=flag_of(name), message=told))

    def _repeats(self, usual: int) -> int:
        in_file = self.file.repeats if "repeats" in self.file.model_fields_set else None
        return self.given.flags.choose("repeats", in_file, self.given.environment, usual)

    def _budget(self) -> Budget:
        return self.file.budget.budget(self.given.flags, self.given.environment)

    def _require_enough(self, budget: Budget, repeats: int) -> None:
        settings = self.file.reflective.settings(repeats=repeats)
        small = too_small(budget, self.dataset, settings, test_repeats=repeats)
        if small is not None and not self.given.flags.baseline_only:
            said = self.given.flags.max_metric_calls is not None
            at = ("budget", "max_metric_calls")
            where = flag_of("max_metric_calls") if said else self.parts.wrong.place(at)
            self.parts.wrong.problems.append(replace(small, where=where))

    def _model(self, role: str) -> ModelRef | None:
        block: ModelBlock | None = getattr(self.file, role)
        told = (self.given.flags, self.given.environment)
        flag, weaker = (getattr(each, role, None) for each in told)
        if flag is None and block is not None:
            return self.parts.wrong.of((role,), block.reference, None)
        said = flag or weaker
        if said is None:
            return None
        return self.parts.wrong.as_told(lambda: ModelRef.parse(said), None)
