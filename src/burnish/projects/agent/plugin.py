"""An agent file as a target: its description, its cases, and how it is built."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, cast

from pydantic import (
    BaseModel,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_serializer,
    model_validator,
)

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import NoneOrMore, NotNegative
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric, Target
from burnish.core.surfaces import AGENT_SURFACES, Candidate, Surface
from burnish.metrics.computed import Answered, ExpectedTools
from burnish.metrics.files import MetricsRead, has_own_metrics
from burnish.metrics.turns import ROLE as USER_SIMULATOR
from burnish.metrics.turns import user_simulator
from burnish.models.factory import Models, spelled_out, with_model
from burnish.models.roles import in_force
from burnish.projects.agent.axes import (
    MODEL,
    Axes,
    AxesBlock,
    axes_of,
    check_model,
    check_objective,
    check_prices,
)
from burnish.projects.agent.dialect import NOISY, agent_keys, tunable
from burnish.projects.agent.homes import AgentHomes, measured_files
from burnish.projects.measures import User, read_case_sets, read_metrics
from burnish.runs.directory import Header
from burnish.runs.events import CANDIDATES, Exported, Exporter
from burnish.runs.homes import FILES, Homes
from burnish.runs.plugins import (
    COSTS,
    MODEL_AXIS,
    STEPS,
    Ability,
    Building,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
    Variant,
)
from burnish.runs.spec import AnySpec, CaseSet, TargetSpec
from burnish.system import read_tree
from burnish.system.yaml import parse_tree, tree_of
from burnish.targets.agent.attachments import check_attachments, pinned
from burnish.targets.agent.blocks import AgentBlock, expanded
from burnish.targets.agent.files import (
    PROMPTS,
    LoadedAgent,
    edit,
    export_agent,
    load_agent,
    sound_agent,
)
from burnish.targets.agent.paths import (
    DEMONSTRATIONS,
    INSTRUCTIONS,
    AddedValue,
    added_values,
    put_at,
    with_added,
    written,
)
from burnish.targets.agent.target import AgentTarget


def _read_dataset(building: Building, agent: LoadedAgent, notes: list[str]) -> Dataset:
    problems, data = building.problems, building.spec.data
    with_holdout = building.spec.strategy.settings.uses_holdout
    before = len(problems.found)
    if with_holdout:
        _require_files(building)
    if data.train or with_holdout:
        train = _read(building, agent, "data.train", data.train)
    else:
        notes.append("train_cases_file is not set: the search learns from the agent's test cases")
        train = problems.as_raised(lambda: _with_files(agent.cases, agent), ())
    unread = len(problems.found) > before
    dataset = Dataset(
        train=train,
        holdout=_read(building, agent, "data.holdout", data.holdout),
        test=_read(building, agent, "data.test", data.test),
    )
    # That train is empty says nothing new where its file could not be read.
    amiss = [p for p in dataset.problems() if train or not unread or p.where != Split.TRAIN.value]
    # Where many cases have a problem, they mostly have the same one.
    problems.found += amiss[:3]
    if len(amiss) > 3:
        problems.add("data", f"{len(amiss) - 3} more cases have problems of the same kind")
    count, least = len(dataset.holdout), building.spec.target.min_holdout_cases
    if with_holdout and 0 < count < least:
        message = (
            f"{Split.HOLDOUT.value} has {count} cases but needs at least {least}: "
            "with fewer, a gain cannot be told from chance"
        )
        problems.add("data.holdout", message, "add cases, or lower min_holdout_cases")
    return dataset


def _read_measured(building: Building, agent: LoadedAgent) -> Dataset:
    problems, data = building.problems, building.spec.data
    before = len(problems.found)
    if building.cases is not None:
        cases = building.cases
    elif data.cases:
        cases = read_case_sets(building, "data.cases", data.cases)
    else:
        cases = agent.cases
    if not cases and len(problems.found) == before:
        file = agent.block.test_cases_file
        where = f"{agent.path.name} test_cases_file: {file}" if file else agent.path.name
        add = "some" if file else "test_cases or test_cases_file"
        remedy = f"add {add}, or give --cases FILE"
        problems.found.append(Problem(where=where, message="there are no cases", remedy=remedy))
    return Dataset(train=problems.as_raised(lambda: _with_files(cases, agent), ()))


def _require_files(building: Building) -> None:
    data, settings = building.spec.data, building.spec.strategy.settings
    files = {"train_cases_file": data.train, "holdout_cases_file": data.holdout}
    missing = [name for name, sets in files.items() if not sets]
    if missing:
        message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: "
        message += "train cases are learned from and holdout cases decide, so both are needed"
        without = f"; or {settings.without_holdout}" if settings.without_holdout else ""
        remedy = f"`burnish data split` splits one file into two{without}"
        building.problems.add("data", message, remedy)


def _read(
    building: Building, agent: LoadedAgent, at: str, sets: Sequence[CaseSet]
) -> tuple[Case, ...]:
    read = read_case_sets(building, at, sets)
    return building.problems.attempt(at, lambda: _with_files(read, agent), read)


def _with_files(cases: Sequence[Case], agent: LoadedAgent) -> tuple[Case, ...]:
    """The cases with the content of their attached files."""
    if problems := check_attachments(cases, agent.folder):
        raise ConfigError(problems)
    return pinned(cases, agent.folder)


def named_exports(agent: LoadedAgent) -> Exporter:
    """How the candidates of this agent are stored in a run's folder."""
    suffix = agent.path.suffix
    own = PurePosixPath(agent.block.instructions.file or "system-prompt.md")

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        edited = edit(agent, candidate.values)
        prompt = f"{PROMPTS}/{own.stem}.{name}{own.suffix}"
        made = export_agent(agent, edited, folder / CANDIDATES, prompt=f"../{prompt}")
        yaml = made.pop(agent.path.name)
        files = {f"{CANDIDATES}/{name}{suffix}": yaml}
        links = {f"best{suffix}": f"{CANDIDATES}/{name}{suffix}"}
        for content in made.values():
            files[prompt] = content
            links["best-instructions.md"] = prompt
        return Exported(files=files, links=links)

    return export


_DOCUMENT = "target.document"


class AgentDocument(AgentBlock):
    """An agent as in its file: variables are used by value and stored by name."""

    _written: dict[str, JsonValue] = PrivateAttr(default_factory=dict[str, JsonValue])

    @model_validator(mode="wrap")
    @classmethod
    def _expanded(cls, value: Any, handler: ModelWrapValidatorHandler["AgentDocument"]) -> Any:
        document = handler(expanded(value, where="the agent"))
        document._written = value
        return document

    @model_serializer
    def written(self) -> dict[str, JsonValue]:
        return self._written


class AgentSpec(TargetSpec):
    """An agent, and what of it is tuned."""

    kind: str = "agent"
    document: AgentDocument
    """The agent file without its optimizer block."""
    axes: AxesBlock | None = None
    """What is tuned; None if the file has no optimizer block."""
    min_holdout_cases: NoneOrMore = 5
    """The minimum number of holdout cases."""
    min_delta: NotNegative | None = None
    """HoloDeck's bar; burnish uses the measured noise instead."""


class AgentPlugin(TargetPlugin):
    """Builds the target from its description."""

    kind: ClassVar[str] = "agent"
    Spec: ClassVar[type[TargetSpec]] = AgentSpec
    document: ClassVar[type[BaseModel] | None] = AgentBlock
    surfaces: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS, COSTS)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        spec: AgentSpec = building.spec.target
        problems = building.problems
        named = building.cases is not None or bool(building.spec.data.cases)
        own_cases = not strategy.proposes and not named
        agent = problems.as_raised(
            lambda: agent_of(building.spec.source.file, spec, with_cases=own_cases), None
        )
        if agent is None:
            return None
        if spec.axes is None and strategy.proposes:
            raise _not_tuned(agent, building.models)
        _refuse_outputs(building)
        notes = list(_notes(building, strategy))
        axes = Axes() if spec.axes is None else axes_of(agent, spec.axes, problems)
        dataset = (
            _read_dataset(building, agent, notes)
            if strategy.proposes
            else _read_measured(building, agent)
        )
        cases = [*dataset.train, *dataset.holdout, *dataset.test]
        metrics = _metrics(building, agent, cases, strategy)
        if metrics:
            check_objective(building, metrics, dataset)

        def made() -> AgentTarget:
            user = _user(building, agent) if any(case.scenario for case in cases) else None
            return AgentTarget(agent, building.models, surfaces=axes.surfaces, user=user)

        target = problems.attempt(_DOCUMENT, made, None)
        if target is None:
            return None
        check_model(building, target)
        local = agent.block.model.provider == "local"
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=metrics,
            objective=building.spec.objective.objective({metric.name: 1.0 for metric in metrics}),
            own_model=None if local else agent.own_model,
            own_model_at=MODEL,
            no_model="the agent's own model is a local one, which is too weak to write texts",
            places=axes.places,
            noisy=NOISY,
            exporter=named_exports(agent),
            record={FILES: measured_files(agent)},
            notes=(*notes, *target.notes),
            resources=(target,),
        )

    def review(
        self, building: Building, parts: TargetParts, search: StrategyParts
    ) -> Iterable[str]:
        assert isinstance(parts.target, AgentTarget)
        return check_prices(building, parts.target, parts, search.strategy.roles)

    def homes(self, header: Header) -> Homes | None:
        return AgentHomes.of(header)

    def axes(self, target: Target) -> Sequence[str]:
        assert isinstance(target, AgentTarget)
        own = (surface.id for surface in target.surfaces)
        names = (MODEL_AXIS, *tunable(target.agent.block), *own, DEMONSTRATIONS)
        return list(dict.fromkeys(names))

    def varied(self, spec: AnySpec, variant: Variant) -> AnySpec:
        """The agent file with other values in it; its own axes and their bounds do not matter."""
        document = varied_document(spec.source.file, spec.target, variant)
        made = {"document": AgentDocument.model_validate(document), "axes": None}
        return spec.model_copy(update={"target": spec.target.model_copy(update=made)})


def agent_of(file: str, spec: AgentSpec, *, with_cases: bool = False) -> LoadedAgent:
    """The agent of a description; all problems are reported at once.

    Its test cases are only read if they are needed.
    """
    path, document = Path(file), spec.document.written()
    tree, added = tree_of(path, document), tuple[AddedValue, ...]()
    with suppress(BurnishError):
        # The file itself where it still says the same: it has comments, which exports keep.
        now = read_tree(path)
        if isinstance(now.data, dict):
            more = added_values(now.data, path.resolve().parent)
            if with_added(agent_keys(now.data), more) == document:
                tree, added = now, more
    return sound_agent(path, tree, spec.document, with_cases=with_cases, added=added)


_MEASURING = ("name", "evaluations", "test_cases", "test_cases_file", "execution", "user_simulator")
"""The keys of a file that say how an agent is measured, not what it does."""


def varied_document(file: str, spec: AgentSpec, variant: Variant) -> dict[str, JsonValue]:
    """The keys of an agent file with a variant in them."""
    document = deepcopy(spec.document.written())
    if variant.file is not None:
        measuring = {key: document[key] for key in _MEASURING if key in document}
        brought = _brought(variant.file, Path(file).parent)
        own = {key: value for key, value in brought.items() if key not in _MEASURING}
        document = {**own, **measuring}
    if variant.model:
        document["model"] = with_model(document.get("model"), variant.model)
    _keep_judges(document, spec.document.written().get("model"))
    if not variant.values:
        return document
    changed = spec.model_copy(update={"document": AgentDocument.model_validate(document)})
    agent = agent_of(file, changed)
    edited = edit(agent, variant.values)
    for path, value in edited.changes.items():
        put_at(document, path, value)
    if edited.demonstrations is not None:
        document[DEMONSTRATIONS] = [written(demo) for demo in edited.demonstrations]
    if edited.instructions != agent.instructions.text:
        document[INSTRUCTIONS[0]] = {"inline": edited.instructions}
    return document


def _keep_judges(document: dict[str, JsonValue], model: JsonValue) -> None:
    """Let those who are the agent's model by default stay the one they were: judge and user."""
    own = cast("Mapping[str, JsonValue]", spelled_out(model))
    kept = {key: value for key, value in own.items() if key not in ("temperature", "max_tokens")}
    evaluations = document.get("evaluations")
    if isinstance(evaluations, dict):
        document["evaluations"] = {"model": kept, **evaluations}
    document.setdefault("user_simulator", kept)


def _brought(path: Path, home: Path) -> dict[str, JsonValue]:
    """The keys of another agent file, with paths that are valid from `home`."""
    agent = load_agent(path, with_cases=False)
    text = export_agent(agent, edit(agent, {}), home)[agent.path.name].decode()
    data = parse_tree(agent.path, text).data
    assert isinstance(data, dict)
    return agent_keys(data)


def _not_tuned(agent: LoadedAgent, models: Models) -> ConfigError:
    from burnish.projects.agent.axes import starter

    problem = Problem(
        where=f"{agent.path.name} evaluations.optimizer",
        message="the file does not say what to tune",
        remedy="here is a block to start with, made for this agent:",
    )
    return ConfigError([problem], remedy=f"\n{starter(agent, models)}")


def _notes(building: Building, strategy: StrategyPlugin) -> Iterator[str]:
    if strategy.proposes and not building.spec.strategy.settings.uses_holdout:
        yield (
            "no holdout — NOTHING GUARDS AGAINST OVERFITTING: candidates are accepted on the cases "
            "they were made from, and the result is a training score"
        )
    if building.spec.target.min_delta is not None:
        yield "min_delta has no effect: burnish uses the measured noise as the bar (accept_sigma)"


def _refuse_outputs(building: Building) -> None:
    """A tuned agent is only written to its file after a person has seen the changes."""
    for name in ("in_place", "update_source"):
        if getattr(building.spec.output, name):
            message = "runs do not write agent files"
            remedy = "remove it, and use `burnish adopt` when the run is over"
            building.problems.add(f"output.{name}", message, remedy)


def _metrics(
    building: Building, agent: LoadedAgent, cases: Sequence[Case], strategy: StrategyPlugin
) -> tuple[Metric, ...]:
    """Those of the description, the file or its cases; plus whether expected tools were used.

    An agent without any is measured by whether it answers.
    """
    evaluations, spec = agent.block.evaluations, building.spec.metrics
    uses_tools = any(turn.expected_tools is not None for case in cases for turn in case.turns)
    tools = (ExpectedTools(),) if uses_tools and not spec.names else ()
    bare = evaluations is None and spec.file is None and not spec.blocks
    if bare and not any(has_own_metrics(case) for case in cases):
        if tools:
            return tools
        if not strategy.proposes and not spec.names:
            return (Answered(),)
        remedy = (
            "add evaluations with at least one metric, such as {type: standard, metric: equality}"
        )
        building.problems.add(_DOCUMENT, "the file has no metrics", remedy)
        return ()
    model = evaluations.model if evaluations else None
    own = MetricsRead(
        blocks=evaluations.metrics if evaluations else (),
        judge=model.reference() if model else agent.own_model,
    )
    made = read_metrics(building, cases, own=own, own_at=f"{_DOCUMENT}.evaluations.metrics")
    return (*made, *tools)


def _user(building: Building, agent: LoadedAgent) -> User:
    block = building.spec.metrics.user_simulator or agent.block.user_simulator
    prompt = in_force(USER_SIMULATOR, agent.folder)
    ref = block.reference() if block else agent.own_model
    return user_simulator(building.models.client(ref, prompt.settings), prompt)
