"""Plug-ins of strategies and targets, what they build, and which fit each other."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, JsonValue

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError
from burnish.core.evaluations import Objective
from burnish.core.formatting import Drawing, Section, alternatives, number
from burnish.core.protocols import Metric, Target
from burnish.core.surfaces import (
    SURFACES,
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import FINISHED, Trial, TrialRow
from burnish.datasets.agent_cases import CaseColumns
from burnish.journal.limits import Budget, Limits
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import RolePrompt, in_force
from burnish.runs.directory import Header, RunRecord, loss_of
from burnish.runs.draft import Problems
from burnish.runs.evaluation import Closable, WorkerPool
from burnish.runs.events import Exporter, Listener
from burnish.runs.first_round import FirstRound
from burnish.runs.homes import FileHomes, Homes
from burnish.runs.progress import ProgressLines, budget_limits, ended_words, plain_plan
from burnish.runs.report_sections import SPLITS, baseline_table, plain_report
from burnish.runs.run import Run
from burnish.runs.setup import ProposerOffer, Setup, Strategy
from burnish.runs.spec import AnySpec, ExecutionSpec, StrategySettings, TargetSpec
from burnish.system.user_code import installed
from burnish.system.yaml import TreePath


@dataclass(frozen=True, kw_only=True)
class RoleNeed:
    """A role of a strategy that needs a model."""

    name: str
    help: str
    """The help of its flag."""
    instead: tuple[str, ...] = ()
    """Roles whose model is used if this one has none; the first that has one."""
    panel: str = "The search"
    prompt: str = ""
    """The name of its prompt, if that is not the name of the role."""


@dataclass(frozen=True, kw_only=True)
class Ability:
    """Something besides surfaces that a target may have and a strategy may need."""

    name: str
    """In the plural, for messages about what is missing."""


STEPS = Ability(name="runs that leave steps")
"""Its runs have traces whose steps have inputs, outputs and the surfaces that were used."""
COSTS = Ability(name="runs that report what they cost")
"""Its runs have a price, or at least count tokens."""
DELEGATIONS = Ability(name="tasks that are delegated")
"""Its cases are tasks for a manager and workers, graded as a whole."""
ONE_TASK = Ability(name="a task to do")
"""It is one task with its workers, without anything to search over."""


@dataclass(frozen=True, kw_only=True)
class TargetParts:
    """What a target contributes to a run."""

    target: Target
    dataset: Dataset
    metrics: tuple[Metric, ...]
    objective: Objective | None = None
    """None weighs every metric equally."""
    primary: str = "score"
    """The number that strategies compare if they compare one number in its unit."""
    unit: str = ""
    """The number of each run in whose unit a winner is judged, if that is not the score."""
    purpose: str = ""
    """What the target is for, in the user's words."""
    written: str = "the prompts"
    """What a strategy's model writes, for messages."""
    own_model: ModelRef | None = None
    """The model that writes texts if the description names none."""
    own_model_at: str = "target"
    """The path of that model in the description."""
    no_model: str = "there is no model to write texts"
    """Why there is no such model."""
    places: Mapping[str, TreePath] = field(default_factory=dict[str, TreePath])
    """By surface, its path in the description."""
    noisy: tuple[str, ...] = ()
    """Surfaces whose values make answers vary."""
    steady: bool = False
    """Whether scores hardly vary between runs, so that one run is enough."""
    left_out: tuple[str, ...] = ()
    """Surfaces that may not be tuned."""
    short_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Short names of surfaces and nodes in settings, and their ids."""
    cases_demonstrate: bool = True
    """Whether a training case can be a demonstration. It cannot if a surface belongs to a part of
    the target, which sees neither the question nor the answer."""
    exporter: Exporter | None = None
    settled: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Fields of the target's description as they were at the start; a resume begins with them."""
    record: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What run.json stores for adopting the result: original files and their hashes."""
    notes: tuple[str, ...] = ()
    resources: tuple[Closable, ...] = ()

    @property
    def cases(self) -> list[Case]:
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
    """What a strategy contributes to a run."""

    strategy: Strategy
    budget: Budget | None = None
    """The limits, if the strategy adds one."""
    client: ModelClient | None = None
    """The model that writes."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LiveParts:
    """Parts of a run that a program passes as objects, in place of those in the description."""

    target: Target | None = None
    dataset: Dataset | None = None
    metrics: tuple[Metric, ...] = ()
    reflector: ModelRef | None = None
    """The model that rewrites texts."""

    @property
    def any(self) -> bool:
        """Whether the description alone is not enough to build the run."""
        return self != LiveParts()


@dataclass(kw_only=True)
class Building:
    """A description that is being built; collects what is wrong."""

    spec: AnySpec
    problems: Problems
    models: Models
    given_models: Models | None = None
    """Models that replace the real ones, if any."""
    run_folder: Path | None = None
    """The folder of the run that is resumed; None for a new one."""
    live: LiveParts = field(default_factory=LiveParts)
    columns: dict[CaseColumns, str] = field(default_factory=dict[CaseColumns, str], init=False)
    """Which columns were taken where they have names of their own, and a note with samples."""
    _models_at: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """By role, the path of its model in the description."""

    @property
    def folder(self) -> Path:
        """The folder that relative paths start from."""
        return Path(self.spec.source.folder)

    def path(self, name: str) -> Path:
        """The path of a file in the description."""
        return self.folder / name

    def writer(self, need: RoleNeed, parts: TargetParts) -> ModelRef | None:
        """The model of a role; None, with a problem, if there is none."""
        ref = self.named(need)
        if ref is not None:
            return ref
        if parts.own_model is None and not self.problems.found:
            remedy = f"name one: {need.name}: openai:gpt-4o, or --{need.name} MODEL"
            self.problems.add(f"roles.{need.name}", parts.no_model, remedy)
        self._models_at[need.name] = parts.own_model_at
        return parts.own_model

    def named(self, need: RoleNeed) -> ModelRef | None:
        """The model in the description for a role, or for one that replaces it."""
        names = (need.name, *need.instead)
        if self.live.reflector is not None and "reflector" in names:
            return self.live.reflector
        for name in names:
            block = self.spec.roles.get(name)
            if block is not None:
                self._models_at[need.name] = f"roles.{name}"
                return self.problems.attempt(f"roles.{name}", block.reference, None)
        return None

    def asked(
        self, prompt_name: str, ref: ModelRef, *, role: str = ""
    ) -> tuple[ModelClient, RolePrompt] | None:
        """A role's model, checked, and its prompt.

        `role` is its name in the description, if that is not the name of the prompt.
        """

        def made() -> tuple[ModelClient, RolePrompt]:
            prompt = in_force(prompt_name, self.folder)
            return reached(self.models, ref, prompt, role=name), prompt

        name = role or prompt_name
        return self.problems.attempt(self._models_at.get(name, f"roles.{name}"), made, None)


def reached(
    models: Models, ref: ModelRef, prompt: RolePrompt, *, role: str = "", tools: bool = False
) -> ModelClient:
    """A role's model, checked; without the prompt's settings if the model refuses them.

    `role` is what plans and messages call it, if that is not the name of the prompt; `tools` says
    that it is offered some.
    """
    name = role or prompt.name
    client = models.client(ref, prompt.settings, role=name, tools=tools)
    try:
        client.check()
    except ModelRefused:
        client = models.client(ref, role=name, tools=tools)
        client.check()
    return client


STRATEGIES = "burnish.strategies"
PROPOSERS = "burnish.proposers"
"""The strategies that offer proposers to others, so that no other one is loaded for them."""
_EXECUTORS = "burnish.executors"
TARGETS = "burnish.targets"


class ResultFiles(Listener, Protocol):
    """Writes files in the format of an original system during a run."""

    def finish(self) -> object:
        """Write everything once the run has ended."""
        ...


class StrategyPlugin:
    """How a strategy is set up, planned, shown and reported."""

    name: ClassVar[str] = ""
    """Its name on the command line and in run.json."""
    ends: ClassVar[Mapping[str, str]] = {}
    """By code, why a search or a phase ends, in words."""
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By role, the fields of an answer that give reasons, which `-v` prints."""
    proposes: ClassVar[bool] = True
    """Whether it searches instead of only measuring the baseline."""
    resume_command: ClassVar[str] = ""
    """The command that resumes its runs with `FILE --resume RUN`; empty for `runs resume`."""
    offers_fork: ClassVar[bool] = True
    """Whether to print the command that searches on from a measured baseline."""
    compares_scores: ClassVar[bool] = True
    """Whether it compares scores from 0 to 1 instead of numbers in any unit."""
    needs: ClassVar[tuple[type[Surface], ...]] = (TextSurface,)
    """The kinds of surfaces of which a target must have one."""
    requires: ClassVar[tuple[Ability, ...]] = ()
    """The abilities that a target must have."""

    Settings: ClassVar[type[StrategySettings]] = StrategySettings
    """Its settings: each field is a key of a file, a flag, a variable and an HTTP setting."""
    roles: ClassVar[tuple[RoleNeed, ...]] = ()
    """The models that it asks."""
    over: ClassVar[tuple[str, ...]] = ()
    """The only kinds of targets that it works with, if it is made for some. Its runs then have a
    separate command with the settings of the target and the strategy only."""
    grace_seconds: ClassVar[float] = 30.0
    """How long the current trial of a stopping run may continue without a call that ends."""
    needs_holdout: ClassVar[bool] = False
    """Whether it needs cases to decide on that it did not learn from."""

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The strategy for a target; None, with problems, if it cannot be built."""
        if self.name:
            kind = parts.target.description.kind
            message = f"the strategy '{self.name}' cannot search over '{kind}'"
            building.problems.add("strategy.name", message, "choose another strategy")
            return None
        raise BurnishError(
            f"the strategy '{building.spec.strategy.name}' is not installed",
            remedy="install the package that it came with",
        )

    def proposers(self, building: Building, parts: TargetParts) -> Iterable[ProposerOffer]:
        """What it offers to the strategy `auto` for a target; nothing by default."""
        del building, parts
        return ()

    def first_round(self, setup: Setup) -> FirstRound | None:
        """What it takes to finish one round: a new run with smaller limits is refused.

        None, the default, refuses nothing.
        """
        del setup
        return None

    def plan(self, setup: Setup) -> Iterable[str]:
        """The lines of `--dry-run`: what would run and what it may cost."""
        return plain_plan(setup)

    def search_cost(self, setup: Setup) -> str:
        """What a search may cost, in a few words for the start of a run; empty if nobody knows."""
        del setup
        return ""

    def plan_title(self, setup: Setup) -> str:
        """The name of the strategy in a target's plan."""
        return f"{setup.strategy.name}, seed {setup.seed}"

    def plan_decision(self, setup: Setup) -> Iterable[str]:
        """What is accepted, in a target's plan; empty leaves that to the target."""
        del setup
        return ()

    def plan_bounds(self, setup: Setup) -> Iterable[str]:
        """What one proposal may change, in a target's plan."""
        del setup
        return ()

    def limits(self, setup: Setup) -> list[str]:
        """The limits that end a search."""
        return budget_limits(setup.budget)

    def repeats(self, setup: Setup) -> int:
        """How often a trial runs each case."""
        del setup
        return 1

    def progress(self) -> ProgressLines:
        """Turns the events of one run into lines."""
        return ProgressLines(self.ends)

    def result_files(self, run: Run) -> ResultFiles | None:
        """Writes the files of the original system that the strategy comes from, if any."""
        del run
        return None

    def reason(self, run: RunRecord) -> str:
        """Why a run ended, with its code."""
        if run.ending is None:
            return ""
        code, words = run.ending.code, run.ending.reason
        if code == FINISHED.code and run.search_end:
            return self.ended_words(run.search_end)
        return f"{code}: {words}" if code and code != run.status else words

    def ended_words(self, code: str) -> str:
        """`patience: too long without an accept`."""
        return ended_words(code, self.ends)

    def result_words(self, run: RunRecord) -> str:
        """The line with the result and its label."""
        rows = (run.baseline, run.best)
        measured = [s for s in SPLITS if any(loss_of(row, s) is not None for row in rows)]
        losses = (
            f"{split} {' → '.join(number(loss_of(row, split)) for row in rows)}"
            for split in measured or ("holdout",)
        )
        return f"loss     {', '.join(losses)}"

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        """What `--print-baseline` shows; empty if the baseline was not measured.

        A run that was not `quiet` has already printed its lines.
        """
        del quiet
        table = baseline_table(run)
        return () if table is None else (table,)

    def report(self, run: RunRecord) -> Iterable[Section]:
        """The sections of report.md."""
        return plain_report(run, self.reason(run))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        """What pages in the browser draw of a run, besides scores, candidates and cases."""
        del run
        return ()

    def turn(self, trial: Trial) -> str:
        """The strategy's word for `Trial.cycle`."""
        del trial
        return "cycle"

    def trial_lines(self, row: TrialRow) -> Iterable[str]:
        """Lines of `runs show --trial` besides proposals, changes and scores."""
        del row
        return ()


class ExecutorPlugin:
    """Makes the workers that run cases."""

    def pool(
        self,
        execution: ExecutionSpec,
        spec: Mapping[str, JsonValue],
        *,
        target: str,
        limits: Limits,
    ) -> WorkerPool:
        """Workers for the run that `spec` describes, as run.json has it.

        `target` is the fingerprint that they must find; `limits` are those of the endpoints, for
        all workers together.
        """
        del spec, target, limits
        raise BurnishError(
            f"the executor '{execution.executor}' is not installed",
            remedy="install the package that it came with",
        )


MODEL_AXIS = "model"
"""The axis of a grid that changes every model of a target."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What one column of a grid changes in a description."""

    model: str = ""
    """The model instead of every other; empty keeps them."""
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """By surface."""
    file: Path | None = None
    """A file of the same kind that stands in for that of the description."""


class TargetPlugin:
    """How a target is described, built, planned and adopted."""

    kind: ClassVar[str] = ""
    Spec: ClassVar[type[TargetSpec]] = TargetSpec
    """The model of its description."""
    document: ClassVar[type[BaseModel] | None] = None
    """The model of its files besides the keys of a dialect, if the target reads them itself."""
    surfaces: ClassVar[tuple[type[Surface], ...]] = SURFACES
    """The kinds of surfaces that it may have; a strategy that needs others is refused."""
    abilities: ClassVar[tuple[Ability, ...]] = ()
    """What else strategies may require."""
    unsearched: ClassVar[str] = "measure it: burnish eval FILE"
    """What to do with it if no strategy can search over it."""
    runs_elsewhere: ClassVar[bool] = True
    """Whether a worker can build it from the description alone and run its cases."""
    takes_cases: ClassVar[bool] = True
    """Whether flags may name files of cases and metrics for it; otherwise it has its own."""

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The target, its cases and metrics; None, with problems, if they cannot be built.

        `strategy` is the one that will search.
        """
        del strategy
        raise BurnishError(
            f"targets of the kind '{building.spec.target.kind}' are not installed",
            remedy="install the package that they came with",
        )

    def review(
        self, building: Building, parts: TargetParts, search: StrategyParts
    ) -> Iterable[str]:
        """Notes about the whole setup before the start; collects problems."""
        del building, parts, search
        return ()

    def flag_value(self, name: str, value: JsonValue) -> JsonValue:
        """The value that a flag stands for."""
        del name
        return value

    def axes(self, target: Target) -> Sequence[str]:
        """What a grid may vary: surfaces, and `model` where one name can stand for all models."""
        return [surface.id for surface in target.surfaces]

    def varied(self, spec: AnySpec, variant: Variant) -> AnySpec:
        """The description of a measurement with a variant in it."""
        settings = spec.strategy.settings
        values: JsonValue = codec(dict[str, Value]).encode({**variant.values})
        settings = settings.model_copy(update={"values": values})
        return spec.model_copy(
            update={"strategy": spec.strategy.model_copy(update={"settings": settings})}
        )

    def plan(self, setup: Setup, strategy: StrategyPlugin) -> Iterable[str]:
        """The lines of `--dry-run`."""
        return strategy.plan(setup)

    def baseline(
        self, run: RunRecord, strategy: StrategyPlugin, *, quiet: bool
    ) -> Sequence[Section]:
        """What `--print-baseline` shows."""
        return strategy.baseline(run, quiet=quiet)

    def offers_fork(self, strategy: StrategyPlugin) -> bool:
        """Whether to print the command that searches on from a measured baseline."""
        return strategy.offers_fork

    def result_files(self, run: Run) -> ResultFiles | None:
        """Writes files besides those of the run, if any."""
        del run
        return None

    def last_words(self, run: RunRecord) -> Iterable[str]:
        """Lines after the result of a run that has ended."""
        del run
        return ()

    def homes(self, header: Header) -> Homes | None:
        """The user's files that hold the values of a candidate, for `burnish adopt`; None if none.

        A target whose values are whole files, or places in YAML and JSON files, does not override
        this but puts `FileHomes(...).record()` into `TargetParts.record`.
        """
        return FileHomes.of(header)


def lack(
    strategy: StrategyPlugin,
    surfaces: Collection[type[Surface]],
    abilities: Collection[Ability],
) -> str:
    """What a strategy needs and a target does not have, in words; empty if they fit."""
    if not strategy.proposes:
        return ""
    if strategy.needs and not set(strategy.needs).intersection(surfaces):
        return alternatives(kind.plural for kind in strategy.needs)
    return " and ".join(each.name for each in strategy.requires if each not in abilities)


def fitting(surfaces: Collection[type[Surface]], abilities: Collection[Ability]) -> list[str]:
    """The names of the installed strategies that can search over such a target."""
    offered = [each for each in map(strategy_plugin, strategy_names()) if each.proposes]
    return sorted(each.name for each in offered if not lack(each, surfaces, abilities))


@cache
def strategy_names() -> tuple[str, ...]:
    """The names of the installed strategies, without loading them."""
    return tuple(point.name for point in installed(STRATEGIES))


def proposing_plugins() -> list[StrategyPlugin]:
    """The plug-ins that offer proposers."""
    return [_loaded(PROPOSERS, point.name, StrategyPlugin) for point in installed(PROPOSERS)]


@cache
def strategy_plugin(name: str) -> StrategyPlugin:
    """The plug-in of a strategy."""
    return _loaded(STRATEGIES, name, StrategyPlugin)


@cache
def target_plugin(kind: str) -> TargetPlugin:
    """The plug-in of a target, by the kind of its description."""
    return _loaded(TARGETS, kind, TargetPlugin)


def executor_plugin(name: str) -> ExecutorPlugin:
    """The plug-in of an executor."""
    return _loaded(_EXECUTORS, name, ExecutorPlugin)


def _loaded(group: str, name: str, base: type[Any]) -> Any:
    plugin = next((each for each in installed(group) if each.name == name), None)
    return base() if plugin is None else plugin.load()()
