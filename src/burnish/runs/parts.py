"""What a run is built of: what a target and a strategy bring, and what they build with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric, Target
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface, Surface, TextSurface
from burnish.effects.budget import Budget
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import RolePrompt, in_force
from burnish.runs.conditions import Closable
from burnish.runs.draft import Problems
from burnish.runs.exporting import Exporter
from burnish.runs.spec import AnySpec
from burnish.runs.strategy import Strategy
from burnish.system.yaml import TreePath


@dataclass(frozen=True, kw_only=True)
class RoleNeed:
    """A model that a strategy asks."""

    name: str
    help: str
    """Who that is, in a few words: the help of its flag."""
    instead: tuple[str, ...] = ()
    """The roles whose model is asked where none is named for this one, the first that is there."""
    panel: str = "The search"
    prompt: str = ""
    """The prompt that it is asked with, where that goes by another name than the role."""


@dataclass(frozen=True, kw_only=True)
class Ability:
    """Something other than surfaces that a target may have and a strategy may need."""

    name: str
    """In the plural, as a sentence about what is missing says it."""


STEPS = Ability(name="runs that leave steps")
"""A run of it has a trace: a step says what went in, what came out, and which surfaces it used."""
DELEGATIONS = Ability(name="tasks that are delegated")
"""A case of it is a task, done by a manager and workers and graded as a whole."""
ONE_TASK = Ability(name="a task to do")
"""It is one task with those who do it: nothing to search over, something to do well."""


@dataclass(frozen=True, kw_only=True)
class TargetParts:
    """What a target brings to a run."""

    target: Target
    dataset: Dataset
    metrics: tuple[Metric, ...]
    objective: Objective | None = None
    """Every metric alike where it is not given."""
    primary: str = "score"
    """The one number that counts, for strategies that compare one number in its own unit."""
    purpose: str = ""
    """What the target is for, in the user's words."""
    written: str = "the prompts"
    """What a strategy's model writes, in words."""
    own_model: ModelRef | None = None
    """Who writes texts where the description names nobody."""
    own_model_at: str = "target"
    """Where that model stands in the description."""
    no_model: str = "there is nobody to write texts"
    """Why there is no such model."""
    places: Mapping[str, TreePath] = field(default_factory=dict[str, TreePath])
    """By surface, where it stands in the description."""
    noisy: tuple[str, ...] = ()
    """Surfaces whose values make answers vary."""
    steady: bool = False
    """Whether a candidate is expected to score alike each time, so that one run shows enough."""
    left_out: tuple[str, ...] = ()
    """Surfaces that are there and that nothing may tune."""
    short_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """What settings may call surfaces and nodes, and their whole ids."""
    cases_demonstrate: bool = True
    """Whether a case of train can stand as a demonstration: not where a surface belongs to a part
    of the target, which sees neither the question nor the answer of the whole."""
    exporter: Exporter | None = None
    settled: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Fields of the target's description as they were found: a run that goes on starts from them,
    whatever it has changed since."""
    record: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What run.json keeps for those who adopt the result: originals and their hashes."""
    notes: tuple[str, ...] = ()
    resources: tuple[Closable, ...] = ()

    @property
    def cases(self) -> list[Case]:
        """The cases of all splits."""
        return [case for split in Split for case in self.dataset.cases(split)]

    def texts(self) -> tuple[str, ...]:
        """The texts that may be tuned."""
        return self._ids(TextSurface)

    def numbers(self) -> tuple[str, ...]:
        """The numbers and choices that may be tuned."""
        return self._ids(NumberSurface, ChoiceSurface)

    def demonstrations(self) -> tuple[str, ...]:
        """The demonstrations that may be tuned."""
        return self._ids(DemosSurface)

    def _ids(self, *kinds: type[Surface]) -> tuple[str, ...]:
        surfaces = [each for each in self.target.surfaces if isinstance(each, kinds)]
        return tuple(each.id for each in surfaces if each.id not in self.left_out)


@dataclass(frozen=True, kw_only=True)
class StrategyParts:
    """What a strategy brings to a run."""

    strategy: Strategy
    budget: Budget | None = None
    """The limits, where the strategy adds one that would otherwise be missing."""
    client: ModelClient | None = None
    """The model that writes."""
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Building:
    """A description on its way to a Setup; what is wrong is gathered and said at once."""

    spec: AnySpec
    problems: Problems
    models: Models
    cases: tuple[Case, ...] | None = None
    """What a program measures in place of the cases that the description names."""
    given_models: Models | None = None
    """Models that stand in for the real ones, if any."""
    run_folder: Path | None = None
    """The folder of the run that goes on; None for a new one."""
    live: Target | None = None
    """The target itself, where a program has it; the description says the rest."""
    _models_at: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """For each role, where its model stands in the description."""

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        return Path(self.spec.source.folder)

    def path(self, name: str) -> Path:
        """A file that the description names."""
        return self.folder / name

    def writer(self, need: RoleNeed, parts: TargetParts) -> ModelRef | None:
        """The model of a role; None, with the problem kept, where there is nobody."""
        ref = self.named(need)
        if ref is not None:
            return ref
        if parts.own_model is None and not self.problems.found:
            remedy = f"name one: {need.name}: openai:gpt-4o, or --{need.name} MODEL"
            self.problems.add(f"roles.{need.name}", parts.no_model, remedy)
        self._models_at[need.name] = parts.own_model_at
        return parts.own_model

    def named(self, need: RoleNeed) -> ModelRef | None:
        """The model that the description names for a role, or for one that stands in for it."""
        for name in (need.name, *need.instead):
            block = self.spec.roles.get(name)
            if block is not None:
                self._models_at[need.name] = f"roles.{name}"
                return self.problems.attempt(f"roles.{name}", block.reference, None)
        return None

    def asked(
        self, prompt_name: str, ref: ModelRef, *, role: str = ""
    ) -> tuple[ModelClient, RolePrompt] | None:
        """A role's model, seen to be within reach, and the prompt in force.

        `role` is what the description calls the one who is asked, where that is another name.
        """

        def made() -> tuple[ModelClient, RolePrompt]:
            prompt = in_force(prompt_name, self.folder)
            return reached(self.models, ref, prompt), prompt

        name = role or prompt_name
        return self.problems.attempt(self._models_at.get(name, f"roles.{name}"), made, None)


def reached(models: Models, ref: ModelRef, prompt: RolePrompt) -> ModelClient:
    """A role's model, seen to be within reach; its prompt's temperature gives way if need be."""
    client = models.client(ref, prompt.settings)
    try:
        client.check()
    except ModelRefused:
        client = models.client(ref)
        client.check()
    return client
