"""Plug-ins: what strategies and targets bring, what they build, and which fit each other."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, JsonValue

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.evaluations import Objective
from burnish.core.formatting import Section, alternatives, number
from burnish.core.protocols import Metric, Target
from burnish.core.surfaces import (
    SURFACES,
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
)
from burnish.core.trials import FINISHED, Trial, TrialRow
from burnish.journal.limits import Budget
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import RolePrompt, in_force
from burnish.runs.directory import Header, RunRecord, loss_of
from burnish.runs.draft import Problems
from burnish.runs.evaluation import Closable
from burnish.runs.events import Exporter, Listener
from burnish.runs.homes import FileHomes, Homes
from burnish.runs.progress import ProgressLines, budget_limits, ended_words, plain_plan
from burnish.runs.report_sections import SPLITS, baseline_table, plain_report
from burnish.runs.run import Run
from burnish.runs.setup import Setup, Strategy
from burnish.runs.spec import AnySpec, StrategySettings, TargetSpec
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


# -- Plug-ins -------------------------------------------------------------------------------------


STRATEGIES = "burnish.strategies"
TARGETS = "burnish.targets"


class ResultFiles(Listener, Protocol):
    """Writes files of an original system while a run goes on."""

    def finish(self) -> object:
        """Write everything, once nobody drives the run any more."""
        ...


class StrategyPlugin:
    """What a strategy says of itself: its plan, its lines, its report, its files."""

    name: ClassVar[str] = ""
    """What the command line and run.json call the strategy."""
    ends: ClassVar[Mapping[str, str]] = {}
    """Why a search or a phase of it ends: words for each code."""
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By role, the parts of an answer that give reasons: what `-v` prints."""
    proposes: ClassVar[bool] = True
    """Whether it searches; else it only measures what is there."""
    resume_command: ClassVar[str] = ""
    """The command that resumes its runs with `FILE --resume RUN`; `runs resume` where empty."""
    offers_fork: ClassVar[bool] = True
    """Whether the measured baseline comes with the command that searches from there."""
    compares_scores: ClassVar[bool] = True
    """Whether it compares scores from 0 to 1; else numbers in their own unit are fine."""
    needs: ClassVar[tuple[type[Surface], ...]] = (TextSurface,)
    """The kinds of surfaces of which a target must have one."""
    requires: ClassVar[tuple[Ability, ...]] = ()
    """What else a target must have, all of it."""

    # -- how it is set up ------------------------------------------------------------------

    Settings: ClassVar[type[StrategySettings]] = StrategySettings
    """How it searches: one field is a key of a file, a flag, a variable, an HTTP setting."""
    roles: ClassVar[tuple[RoleNeed, ...]] = ()
    """The models that it asks."""
    over: ClassVar[tuple[str, ...]] = ()
    """The kinds of targets that it was made for, where it is of no use to others. Its runs have a
    command of their own, and only the settings of the target and the strategy."""
    grace_seconds: ClassVar[float] = 30.0
    """How long the trial under way may go on without a call that ends, once a run is to stop."""
    needs_holdout: ClassVar[bool] = False
    """Whether it can only decide on cases that it never learned from."""

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The strategy over a target; None, with what is wrong kept, where it cannot be."""
        if self.name:
            kind = parts.target.description.kind
            message = f"the strategy '{self.name}' cannot search over '{kind}'"
            building.problems.add("strategy.name", message, "take another strategy")
            return None
        raise BurnishError(
            f"the strategy '{building.spec.strategy.name}' is not installed",
            remedy="install the package that it came with",
        )

    # -- before a run ----------------------------------------------------------------------

    def plan(self, setup: Setup) -> Iterable[str]:
        """The lines of `--dry-run`: what would run, and what it may cost."""
        return plain_plan(setup)

    def plan_title(self, setup: Setup) -> str:
        """The strategy in a plan that a target makes."""
        return f"{setup.strategy.name}, seed {setup.seed}"

    def plan_decision(self, setup: Setup) -> Iterable[str]:
        """What is accepted, in a plan that a target makes; nothing leaves that to the target."""
        del setup
        return ()

    def plan_bounds(self, setup: Setup) -> Iterable[str]:
        """What one proposal may change, in a plan that a target makes."""
        del setup
        return ()

    def limits(self, setup: Setup) -> list[str]:
        """What ends a search."""
        return budget_limits(setup.budget)

    def repeats(self, setup: Setup) -> int:
        """How often a trial runs each case."""
        del setup
        return 1

    # -- while it runs ---------------------------------------------------------------------

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return ProgressLines(self.ends)

    def result_files(self, run: Run) -> ResultFiles | None:
        """What writes the files of the original system, where the strategy comes from one."""
        del run
        return None

    # -- after it --------------------------------------------------------------------------

    def reason(self, run: RunRecord) -> str:
        """Why a run ended, with the code that programs look at."""
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
        """The line with the result, its label included."""
        rows = (run.baseline, run.best)
        measured = [s for s in SPLITS if any(loss_of(row, s) is not None for row in rows)]
        losses = (
            f"{split} {' → '.join(number(loss_of(row, split)) for row in rows)}"
            for split in measured or ("holdout",)
        )
        return f"loss     {', '.join(losses)}"

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        """What `--print-baseline` shows; nothing where the baseline was not measured.

        A run that was not `quiet` has printed its lines already.
        """
        del quiet
        table = baseline_table(run)
        return () if table is None else (table,)

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says."""
        return plain_report(run, self.reason(run))

    def turn(self, trial: Trial) -> str:
        """What the strategy calls the number that `Trial.cycle` counts."""
        del trial
        return "cycle"

    def trial_lines(self, row: TrialRow) -> Iterable[str]:
        """What `runs show --trial` says of a trial beside proposals, changes and scores."""
        del row
        return ()


class TargetPlugin:
    """What a target brings: how it is described and built, its say in plans, and where its values
    live in the user's files."""

    kind: ClassVar[str] = ""
    Spec: ClassVar[type[TargetSpec]] = TargetSpec
    """How it is described."""
    document: ClassVar[type[BaseModel] | None] = None
    """What its files hold beside the keys of a dialect, where the target reads them itself."""
    surfaces: ClassVar[tuple[type[Surface], ...]] = SURFACES
    """The kinds of surfaces that it may have; a strategy that needs others is refused."""
    abilities: ClassVar[tuple[Ability, ...]] = ()
    """What else strategies may require of it."""
    unsearched: ClassVar[str] = "measure it: burnish eval FILE"
    """What to do with it where no strategy can search over it."""
    takes_cases: ClassVar[bool] = True
    """Whether files of cases and metrics may be named for it; else it brings its own, and a flag
    that names one is refused."""

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The target, its cases and metrics; None, with what is wrong kept, where they cannot be.

        `strategy` is the one that will search, as far as that matters to the target.
        """
        del strategy
        raise BurnishError(
            f"targets of the kind '{building.spec.target.kind}' are not installed",
            remedy="install the package that they came with",
        )

    def review(
        self, building: Building, parts: TargetParts, search: StrategyParts
    ) -> Iterable[str]:
        """What is to be said of the whole before the start; what is wrong with it is kept."""
        del building, parts, search
        return ()

    def flag_value(self, name: str, value: JsonValue) -> JsonValue:
        """What a flag means, where that takes more than the description can tell."""
        del name
        return value

    def plan(self, setup: Setup, strategy: StrategyPlugin) -> Iterable[str]:
        """The lines of `--dry-run`."""
        return strategy.plan(setup)

    def baseline(
        self, run: RunRecord, strategy: StrategyPlugin, *, quiet: bool
    ) -> Sequence[Section]:
        """What `--print-baseline` shows."""
        return strategy.baseline(run, quiet=quiet)

    def offers_fork(self, strategy: StrategyPlugin) -> bool:
        """Whether the measured baseline comes with the command that searches from there."""
        return strategy.offers_fork

    def result_files(self, run: Run) -> ResultFiles | None:
        """What writes files beside those of the run."""
        del run
        return None

    def last_words(self, run: RunRecord) -> Iterable[str]:
        """What is said once a run is over, after its result."""
        del run
        return ()

    def homes(self, header: Header) -> Homes | None:
        """Where the values of a candidate live in the user's files; None where they do not.

        `burnish adopt` writes them there. A target whose values are whole files, or stand at
        places in YAML and JSON files, leaves this as it is and keeps `FileHomes(...).record()`
        in `TargetParts.record`.
        """
        return FileHomes.of(header)


def lack(
    strategy: StrategyPlugin,
    surfaces: Collection[type[Surface]],
    abilities: Collection[Ability],
) -> str:
    """What a strategy needs and a target does not have, in words; empty where they fit."""
    if not strategy.proposes:
        return ""
    if strategy.needs and not set(strategy.needs).intersection(surfaces):
        return alternatives(kind.plural for kind in strategy.needs)
    return " and ".join(each.name for each in strategy.requires if each not in abilities)


def fitting(surfaces: Collection[type[Surface]], abilities: Collection[Ability]) -> list[str]:
    """The strategies that a file can name and that can search over such a target."""
    offered = [each for each in map(strategy_plugin, strategy_names()) if each.proposes]
    return sorted(each.name for each in offered if not lack(each, surfaces, abilities))


@cache
def strategy_names() -> tuple[str, ...]:
    """The strategies that are installed, by name; none of them is loaded for that."""
    return tuple(point.name for point in entry_points(group=STRATEGIES))


@cache
def strategy_plugin(name: str) -> StrategyPlugin:
    """The plug-in of a strategy."""
    return _loaded(STRATEGIES, name, StrategyPlugin)


@cache
def target_plugin(kind: str) -> TargetPlugin:
    """The plug-in of a target, by the kind of its description."""
    return _loaded(TARGETS, kind, TargetPlugin)


def _loaded(group: str, name: str, base: type[Any]) -> Any:
    plugin = next(iter(entry_points(group=group, name=name)), None)
    return base() if plugin is None else plugin.load()()
