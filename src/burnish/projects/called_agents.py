"""Agents of the user's own code as targets: called, recorded, or of a known framework."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import ConfigError, MissingExtra, Problem, in_shell
from burnish.core.surfaces import AGENT_SURFACES, NumberSurface, Surface, Value
from burnish.datasets.splits import divided
from burnish.metrics.files import MetricList, MetricsRead
from burnish.models.references import ModelRef
from burnish.projects.called_blocks import CalledBlock, CommandBlock, HttpBlock, PythonBlock
from burnish.projects.evaluation_setup import (
    User,
    measured_cases,
    metric_blocks,
    read_case_file,
    read_metrics,
    read_splits,
    simulated_user,
    unfit_cases,
)
from burnish.projects.file_kinds import RECORDED_METRICS
from burnish.projects.source_code import SourceHomes
from burnish.runs.directory import Header
from burnish.runs.evaluation import is_closable
from burnish.runs.homes import Homes
from burnish.runs.plugins import (
    COSTS,
    STEPS,
    Ability,
    Building,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
)
from burnish.runs.spec import TargetSpec
from burnish.system import validate_config
from burnish.system.config import near
from burnish.system.extras import install_command
from burnish.system.settings import Access, Door, Text
from burnish.system.user_code import file_fingerprint, load_function, load_object
from burnish.targets.callables import CallableTarget, CallingTarget
from burnish.targets.callables.target import RecordedTarget, notes_for, price_notes
from burnish.targets.callables.texts import UNIT, ScoredText
from burnish.targets.frameworks.adapters import KNOWN, FrameworkTarget, adapter_for


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
    """Builds an agent that is called; nothing in it can be changed."""

    surfaces: ClassVar[tuple[type[Surface], ...]] = ()
    unsearched: ClassVar[str] = (
        f"{TargetPlugin.unsearched}; to rewrite prompts of an agent: kind: prompts"
    )
    replies_only: ClassVar[bool] = True
    """Whether nobody can know which tools the agent used."""

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        del strategy
        cases = measured_cases(building, "cases")
        user = simulated_user(building, cases)
        block: PythonBlock | HttpBlock | CommandBlock = building.spec.target.agent
        target = building.problems.in_block(
            "target.agent", block, lambda: block.made(building.folder, user)
        )
        metrics = read_metrics(building, cases, replies_only=self.replies_only)
        if target is None or building.problems.found:
            return None
        return TargetParts(
            target=target,
            dataset=Dataset(train=cases),
            metrics=metrics,
            notes=(*notes_for(target, cases), *price_notes(target), *metric_blocks(building).notes),
        )


class PythonPlugin(CalledPlugin):
    """A Python function: the steps of supported libraries are visible."""

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
    """Replies that were recorded: the cases of the file contain them."""

    kind: str = "recorded"


class RecordedPlugin(TargetPlugin):
    """Builds recorded cases; nothing is run, and only judges cost money."""

    kind: ClassVar[str] = "recorded"
    Spec: ClassVar[type[TargetSpec]] = RecordedSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = ()

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        del strategy
        path, problems = Path(building.spec.source.file), building.problems
        cases = problems.as_raised(lambda: read_case_file(building, path), ())
        if problems.found:
            return None  # what is wrong with the file comes first
        file = building.path(building.spec.metrics.file or RECORDED_METRICS)
        problems.found += _unfit(building, path, cases, file)
        if problems.found:
            return None
        metrics = read_metrics(building, cases, folder=file.resolve().parent)
        notes = list(metric_blocks(building).notes)
        if building.spec.strategy.settings.repeats > 1:
            same = "recorded replies do not vary"
            notes.append(f"{same}: every repeat gives the same result, without noise")
        return TargetParts(
            target=RecordedTarget(),
            dataset=Dataset(train=cases),
            metrics=metrics,
            notes=tuple(notes),
        )


def _unfit(
    building: Building, path: Path, cases: tuple[Case, ...], metric_file: Path
) -> Iterator[Problem]:
    bare = [case.id for case in cases if case.recorded is None]
    if bare:
        message = f"{len(bare)} of {len(cases)} cases have no recorded reply"
        remedy = "name the agent that should answer them: `burnish eval AGENT --cases FILE`"
        yield Problem(
            where=path.name, message=f"{message} ({', '.join(bare[:3])}, …)", remedy=remedy
        )
    if building.spec.data.cases or building.live.dataset is not None:
        message = f"{path.name} contains recorded cases itself, so --cases has no effect"
        yield Problem(where="--cases", message=message)
    if not metric_file.exists():
        remedy = f"name a metrics file: --metrics FILE, or put {RECORDED_METRICS} beside the cases"
        message = f"there are no metrics: {metric_file} does not exist"
        yield Problem(where=path.name, message=message, remedy=remedy)


_PANEL = "Agents of frameworks"
_REMEDY = f"name an agent as module:name, importable from this folder; {KNOWN}"
_LIBRARIES = {
    "agents": "openai-agents",
    "crewai": "crewai",
    "dspy": "dspy",
    "google": "google-adk",
    "google.adk": "google-adk",
    "google.genai": "google-adk",
    "langchain": "langgraph",
    "langchain_core": "langgraph",
    "langgraph": "langgraph",
}
"""By the module of a framework, the extra that installs it."""
_EQUALITY: list[Json] = [{"type": "standard", "metric": "equality"}]


class FrameworkBlock(CalledBlock):
    """An agent of a framework. `module:name` alone is short for `{call: module:name}`."""

    short: ClassVar[str] = "call"
    call: Text
    """`module:name`, importable from the folder of the file."""
    deps: Text | None = None
    """`module:function` that makes what tools and instructions are given, for each conversation:
    dependencies in pydantic-ai, the context in OpenAI Agents and LangGraph."""

    input: str = ""
    """The key of a graph's state, or the input field of a DSPy program, that gets the query."""
    output: str = ""
    """The key of a graph's state, or the output field of a DSPy program, that is the reply."""
    texts: dict[str, Text] = Field(default_factory=dict[str, str])
    """More texts to rewrite, by name, each as `module:NAME`: those that the agent takes with
    `burnish.prompt(name, default=NAME)`."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
        agent, file = loaded_agent(self.call, folder)
        options: dict[str, Any] = {"input": self.input, "output": self.output}
        if self.deps is not None:
            remedy = "name a function without parameters as module:function"
            loaded = load_function(self.deps, folder, what="deps", remedy=remedy)
            options["make_deps"] = loaded.function
        common: dict[str, Any] = {
            **self._common(user),
            "name": self.call,
            "fingerprint": file_fingerprint(file),
        }
        adapter = adapter_for(agent, **options)
        if adapter is not None:
            texts = {name: _text(each, folder) for name, each in self.texts.items()}
            return FrameworkTarget(adapter=adapter, texts=texts, **common)
        if not callable(agent):
            kind = f"{type(agent).__module__}.{type(agent).__qualname__}"
            raise ConfigError.of(f"agent {self.call}", f"{kind} is no known agent", _REMEDY)
        return CallableTarget(agent=agent, **common)


def target_for(agent: object, user: User | None = None) -> FrameworkTarget | None:
    """The target of an agent that a program has; None if its framework is not known."""
    adapter = adapter_for(agent)
    if adapter is None:
        return None
    module, name = _home_of(agent)
    loaded = sys.modules.get(module)
    return FrameworkTarget(
        adapter=adapter,
        name=f"{module}:{name}" if module else type(agent).__qualname__,
        fingerprint=file_fingerprint(getattr(loaded, "__file__", None)),
        user=user,
    )


def _home_of(agent: object) -> tuple[str, str]:
    """The module that has the agent at its top level, and its name there."""
    for module, loaded in list(sys.modules.items()):
        if type(agent).__module__.partition(".")[0] == module.partition(".")[0]:
            continue  # the framework itself
        for name, value in list(getattr(loaded, "__dict__", {}).items()):
            if value is agent and name.isidentifier() and not name.startswith("_"):
                return module, name
    return "", ""


def _text(reference: str, folder: Path) -> str:
    remedy = "name a text as module:NAME"
    text, _ = load_object(reference, folder, what="text", remedy=remedy)
    if not isinstance(text, str):
        raise ConfigError.of(f"text {reference}", f"it is {type(text).__name__}, not text", remedy)
    return text


def loaded_agent(reference: str, folder: Path) -> tuple[object, str | None]:
    """The object that `module:name` names, and its file; names the extra of a missing library."""
    try:
        agent, file = load_object(reference, folder, what="agent", remedy=_REMEDY)
    except ConfigError as error:
        cause = error.__cause__
        absent = cause.name if isinstance(cause, ModuleNotFoundError) else None
        extra = _extra_of(absent or "")
        if extra is None:
            raise
        raise MissingExtra(
            f"agent {reference}: its library is not installed: there is no module '{absent}'",
            remedy=install_command(extra),
        ) from error
    if agent is None:
        module, _, name = reference.partition(":")
        raise ConfigError.of(f"agent {reference}", f"{module} has no '{name}'", _REMEDY)
    return agent, file


def _extra_of(module: str) -> str | None:
    """The extra that installs a module; not all modules of `google` are of ADK."""
    top = module.partition(".")[0]
    return _LIBRARIES.get(module if top == "google" else top)


class FrameworkSpec(TargetSpec):
    """An agent of a known framework."""

    kind: str = "framework"
    agent: FrameworkBlock
    cases: Annotated[
        Text | None,
        Door(
            flag="*",
            panel="Cases",
            metavar="FILE",
            paths=True,
            environment=False,
            http=Access.DATASET,
            runs="searches",
        ),
    ] = None
    """Cases to divide into train, holdout and test; or name those yourself."""
    tune: Annotated[
        tuple[Text, ...],
        Door(flag="*", panel=_PANEL, metavar="NAME", environment=False, http=Access.CLIENT),
    ] = Field(default=())
    """Only this part of the agent; may be repeated."""


class FrameworkPlugin(TargetPlugin):
    """Builds the target from its description."""

    kind: ClassVar[str] = "framework"
    Spec: ClassVar[type[TargetSpec]] = FrameworkSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        spec: FrameworkSpec = building.spec.target
        dataset, notes = _dataset(building, spec, strategy)
        cases = [] if dataset is None else [case for each in Split for case in dataset.cases(each)]
        target = building.live.target or _target(building, spec, cases)
        described = building.spec.metrics.blocks or building.spec.metrics.file is not None
        usual = MetricsRead(blocks=validate_config(_EQUALITY, MetricList, source="metrics").root)
        metrics = read_metrics(building, cases, own=usual)
        if dataset is None or target is None:
            return None
        assert isinstance(target, CallingTarget)
        if strategy.proposes and not isinstance(target, FrameworkTarget):
            message = "this is a function, and burnish cannot see its texts"
            call = in_shell(spec.agent.call)
            remedy = f"{KNOWN}; for a function: --agent {call} --prompt NAME=FILE"
            building.problems.add("target.agent", message, remedy)
        if not described:
            notes = (*notes, "no metrics were named: a reply must equal the expected answer")
        if not isinstance(target, FrameworkTarget):
            return TargetParts(target=target, dataset=dataset, metrics=metrics, notes=notes)
        ids = [surface.id for surface in target.surfaces]
        problems = [
            Problem(where="--tune", message=f"no part '{name}'", remedy=near(name, ids))
            for name in spec.tune
            if name not in ids
        ]
        building.problems.found += problems
        own_model, no_model = _own_model(target)
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=metrics,
            written="the texts",
            own_model=own_model,
            own_model_at="target.agent",
            no_model=no_model,
            cases_demonstrate=target.adapter.demonstrates,
            noisy=tuple(s.id for s in target.surfaces if isinstance(s, NumberSurface)),
            left_out=tuple(name for name in ids if spec.tune and name not in spec.tune),
            record=_homes(target.name, target.baseline.values, building.folder).record(),
            notes=(
                *notes,
                *_part_notes(target),
                *notes_for(target, cases),
                *price_notes(target),
                *metric_blocks(building).notes,
            ),
        )

    def homes(self, header: Header) -> Homes | None:
        return SourceHomes.of(header)


class FunctionPlugin(TargetPlugin):
    """A function with the texts that a program passes to it, or a target of the program's own."""

    kind: ClassVar[str] = "function"
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS, COSTS)
    unsearched: ClassVar[str] = "measure it: burnish.evaluate(…)"
    runs_elsewhere: ClassVar[bool] = False
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        target, dataset = building.live.target, read_splits(building, strategy)
        if target is None or dataset is None:
            message = "only a program can pass a function: burnish.optimize(function, …)"
            building.problems.add("target.kind", message)
            return None
        start = target.baseline.values.items() if strategy.proposes else ()
        texts = {name: value for name, value in start if isinstance(value, str)}
        called = isinstance(target, CallingTarget)
        cases = [case for split in Split for case in dataset.cases(split)]
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=building.live.metrics,
            written="the texts",
            unit=UNIT if isinstance(target, ScoredText) else "",
            cases_demonstrate=not isinstance(target, ScoredText),
            record=_homes(getattr(target, "call", ""), texts, building.folder).record(),
            notes=notes_for(target, cases) if called else (),
            resources=(target,) if is_closable(target) else (),
        )

    def homes(self, header: Header) -> Homes | None:
        return SourceHomes.of(header)


def _target(building: Building, spec: FrameworkSpec, cases: Sequence[Case]) -> CallingTarget | None:
    user = simulated_user(building, cases)
    block = spec.agent
    return building.problems.in_block(
        "target.agent", block, lambda: block.made(building.folder, user)
    )


def _dataset(
    building: Building, spec: FrameworkSpec, strategy: StrategyPlugin
) -> tuple[Dataset | None, tuple[str, ...]]:
    """The cases: as named, or those of one file divided into splits."""
    data = building.spec.data
    file = spec.cases or (data.cases[0].file if len(data.cases) == 1 else None)
    if not strategy.proposes or building.live.dataset or data.train or data.holdout:
        return read_splits(building, strategy), ()
    if file is None:
        message = "there are no cases"
        remedy = "name a file of cases: --cases FILE, or --train FILE --holdout FILE"
        building.problems.add("target.cases", message, remedy)
        return None, ()

    def splits() -> tuple[Dataset, tuple[str, ...]]:
        cases = read_case_file(building, building.path(file))
        made = divided(cases, seed=building.spec.execution.seed, source=Path(file).name)
        scenarios = building.spec.metrics.user_simulator is not None
        if problems := list(unfit_cases(made.dataset, scenarios=scenarios)):
            raise ConfigError(problems[:3])
        return made.dataset, made.notes

    return building.problems.as_raised(splits, (None, ()))


def _own_model(target: FrameworkTarget) -> tuple[ModelRef | None, str]:
    """The agent's own model, at its own endpoint; None, and why, if burnish cannot call it."""
    why = "burnish does not know the agent's own model"
    try:
        ref = target.adapter.model
    except ConfigError as error:
        ref, why = None, error.message
    except Exception as error:  # noqa: BLE001 - the library's own code, such as for a missing key
        ref, why = None, f"{target.adapter.library} cannot make the agent's own model: {error}"
    return ref, f"there is no model to rewrite texts: {why}"


def _part_notes(target: FrameworkTarget) -> Iterator[str]:
    """What was found in the agent."""
    names = ", ".join(surface.id for surface in target.surfaces)
    yield f"found in this agent of {target.adapter.library}: {names or 'nothing to edit'}"


def _homes(call: str, values: Mapping[str, Value], folder: Path) -> SourceHomes:
    """Where the values are: looked for in the agent's module, and in others beside it.

    `call` is the agent as `module:name`.
    """
    module, _, name = call.partition(":")
    loaded = sys.modules.get(module)
    source = getattr(loaded, "__file__", None)
    main = Path(source) if source else None
    files = dict.fromkeys([main] if main is not None else [])
    home = folder.resolve()
    for other in list(sys.modules.values()):
        file = getattr(other, "__file__", None)
        path = Path(file) if isinstance(file, str) and file.endswith(".py") else None
        if path is not None and _is_own(path, home):
            files[path] = None
    stem = name.partition(".")[0] if module == "__main__" else module.rpartition(".")[2]
    return SourceHomes.find(values, list(files), home / f"{stem or 'texts'}.values.json")


def _is_own(path: Path, home: Path) -> bool:
    """Whether a file belongs to the project: below its folder, and not installed there."""
    try:
        parts = path.resolve().relative_to(home).parts
    except (ValueError, OSError):
        return False
    return "site-packages" not in parts and path.is_file()
