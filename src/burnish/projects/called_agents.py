"""Agents that are only measured, as targets: those that are called, and those once recorded."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from burnish.core.cases import Case, Dataset
from burnish.core.errors import Problem
from burnish.core.surfaces import Surface
from burnish.datasets.formats import read_labelled, read_some_cases
from burnish.projects.agent_blocks import CommandBlock, HttpBlock, PythonBlock, User
from burnish.projects.file_kinds import RECORDED_METRICS
from burnish.projects.measures import measured_cases, metric_blocks, read_metrics, simulated_user
from burnish.runs.plugins import Building, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.targets.callables import CallingTarget
from burnish.targets.callables.target import notes_for, price_notes
from burnish.targets.recorded import RecordedTarget


class PythonSpec(TargetSpec):
    """An agent that is a Python function."""

    kind: str = "python"
    agent: PythonBlock


class HttpSpec(TargetSpec):
    """An agent behind an HTTP endpoint."""

    kind: str = "http"
    agent: HttpBlock


class CommandSpec(TargetSpec):
    """An agent that is a command."""

    kind: str = "command"
    agent: CommandBlock


class CalledPlugin(TargetPlugin):
    """Builds an agent that is called; there is nothing in it to change."""

    surfaces: ClassVar[tuple[type[Surface], ...]] = ()
    unsearched: ClassVar[str] = (
        f"{TargetPlugin.unsearched}; to rewrite prompts of an agent: kind: prompts"
    )
    replies_only: ClassVar[bool] = True
    """Whether nobody can know which tools the agent used."""

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The agent with its cases and metrics."""
        del strategy
        cases = measured_cases(building, "cases")
        target = _called(building, simulated_user(building, cases))
        metrics = read_metrics(building, cases, replies_only=self.replies_only)
        if target is None or building.problems.found:
            return None
        return TargetParts(
            target=target,
            dataset=Dataset(train=cases),
            metrics=metrics,
            notes=(
                *notes_for(target, cases),
                *price_notes(target),
                *metric_blocks(building).notes,
            ),
        )


class PythonPlugin(CalledPlugin):
    """A Python function: the steps of a library that it uses can be seen."""

    kind: ClassVar[str] = "python"
    Spec: ClassVar[type[TargetSpec]] = PythonSpec
    replies_only: ClassVar[bool] = False


class HttpPlugin(CalledPlugin):
    """An HTTP endpoint."""

    kind: ClassVar[str] = "http"
    Spec: ClassVar[type[TargetSpec]] = HttpSpec


class CommandPlugin(CalledPlugin):
    """A command."""

    kind: ClassVar[str] = "command"
    Spec: ClassVar[type[TargetSpec]] = CommandSpec


class RecordedSpec(TargetSpec):
    """What an agent once said: the cases of the file, which carry their recorded replies."""

    kind: str = "recorded"
    labelled: bool = False
    """Whether they carry labels too, to check judges with."""


class RecordedPlugin(TargetPlugin):
    """Builds recorded cases; nothing is run, and only judges cost anything."""

    kind: ClassVar[str] = "recorded"
    Spec: ClassVar[type[TargetSpec]] = RecordedSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = ()

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The recorded cases with their metrics; everything that is wrong is said at once."""
        del strategy
        path, problems = Path(building.spec.source.file), building.problems
        spec: RecordedSpec = building.spec.target
        read = _labelled_cases if spec.labelled else read_some_cases
        cases = problems.as_raised(lambda: read(path), ())
        if problems.found:
            return None  # what is wrong with the file comes first
        file = building.path(building.spec.metrics.file or RECORDED_METRICS)
        problems.found += _unfit(building, path, cases, file)
        if problems.found:
            return None
        metrics = read_metrics(building, cases, replies_only=False, folder=file.resolve().parent)
        return TargetParts(
            target=RecordedTarget(),
            dataset=Dataset(train=cases),
            metrics=metrics,
            notes=(*metric_blocks(building).notes, *_repeated(building)),
        )


def _called(building: Building, user: User | None) -> CallingTarget | None:
    block: PythonBlock | HttpBlock | CommandBlock = building.spec.target.agent
    return building.problems.in_block(
        "target.agent", block, lambda: block.made(building.folder, user)
    )


def _labelled_cases(path: Path) -> tuple[Case, ...]:
    return tuple(reply.case for reply in read_labelled(path))


def _unfit(
    building: Building, path: Path, cases: tuple[Case, ...], metric_file: Path
) -> Iterator[Problem]:
    """Everything that keeps these cases from being measured."""
    bare = [case.id for case in cases if case.recorded is None]
    if bare:
        message = f"{len(bare)} of {len(cases)} cases carry no recorded reply"
        remedy = "name the agent that should answer them: burnish eval AGENT --cases FILE"
        yield Problem(
            where=path.name, message=f"{message} ({', '.join(bare[:3])}, …)", remedy=remedy
        )
    if building.spec.data.cases or building.cases is not None:
        message = f"{path.name} holds recorded cases itself, so --cases has no meaning"
        yield Problem(where="--cases", message=message)
    if not metric_file.exists():
        remedy = (
            f"name a file that has them: --metrics FILE, or put {RECORDED_METRICS} beside the cases"
        )
        message = f"there are no metrics: {metric_file} does not exist"
        yield Problem(where=path.name, message=message, remedy=remedy)


def _repeated(building: Building) -> Iterator[str]:
    if building.spec.strategy.settings.repeats > 1:
        yield "what was recorded does not vary: every repeat gives the same, and there is no noise"
