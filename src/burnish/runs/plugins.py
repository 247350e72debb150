"""Plug-ins: what a strategy and a target bring beside their work, found through entry points.

A strategy is named in the group `burnish.strategies`, a target in `burnish.targets` by the kind of
its description. The class that an entry point names derives from the base class here, and is
imported when a run needs it and not before. A name without a plug-in gets the base class: a run
whose strategy is not installed any more can still be listed, shown and reported.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, JsonValue

from burnish.core.errors import BurnishError
from burnish.core.sections import Section
from burnish.core.stopping import FINISHED
from burnish.core.surfaces import SURFACES, Surface, TextSurface
from burnish.core.trials import Trial, TrialRow
from burnish.core.words import alternatives, number
from burnish.runs.events import Listener
from burnish.runs.header import Header
from burnish.runs.homes import FileHomes, Homes
from burnish.runs.parts import Ability, Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.plans import budget_limits, plain_plan
from burnish.runs.progress import ProgressLines, ended_words
from burnish.runs.record import RunRecord, loss_of
from burnish.runs.report_sections import SPLITS, baseline_table, plain_report
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings, TargetSpec

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
