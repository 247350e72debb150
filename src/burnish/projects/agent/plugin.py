"""An agent file as a target: its description, its cases, how it is built and checked."""

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
from burnish.core.protocols import Metric, Role, Target
from burnish.core.surfaces import AGENT_SURFACES, Candidate, ChoiceSurface, NumberSurface, Surface
from burnish.metrics.computed import Answered, ExpectedTools
from burnish.metrics.files import MetricsRead, has_own_metrics
from burnish.metrics.judged import judged_parts
from burnish.metrics.turns import ROLE as USER_SIMULATOR
from burnish.metrics.turns import Layered, TurnMetric, user_simulator
from burnish.models.chat import ModelClient, nearest_model
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models, spelled_out, with_model
from burnish.models.roles import in_force
from burnish.projects.agent.axes import AXES, Axes, AxesBlock, NumericSurface, axes_of, probes
from burnish.projects.agent.dialect import NOISY, AgentHomes, agent_keys, measured_files, tunable
from burnish.projects.dialects import likely_of
from burnish.projects.evaluation_setup import User, note_columns, read_case_sets, read_metrics
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
from burnish.runs.progress import role_label
from burnish.runs.spec import AnySpec, CaseSet, TargetSpec
from burnish.system import read_tree
from burnish.system.yaml import parse_tree, tree_of
from burnish.targets.agent.attachments import check_attachments, pinned
from burnish.targets.agent.blocks import (
    DEMONSTRATIONS,
    AddedValue,
    AgentBlock,
    added_values,
    expanded,
    with_added,
    written,
)
from burnish.targets.agent.files import (
    INSTRUCTIONS,
    PROMPTS,
    LoadedAgent,
    edit,
    export_agent,
    load_agent,
    put_at,
    sound_agent,
)
from burnish.targets.agent.runner import client_for
from burnish.targets.agent.target import AgentTarget

_MODEL = "target.document.model"
"""Where the agent's model stands in a description."""
_AGENT = "the agent"
_NUMBERS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases")
"""What a constraint may speak of beside metrics."""


def _read_dataset(building: Building, agent: LoadedAgent, notes: list[str]) -> Dataset:
    problems, data = building.problems, building.spec.data
    if building.live.dataset is not None:
        return building.live.dataset
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
    if building.live.dataset is not None:
        cases = building.live.dataset.train
    elif data.cases:
        cases = read_case_sets(building, "data.cases", data.cases)
    else:
        cases = agent.cases
        note_columns(building, agent.case_file, Path(agent.block.test_cases_file or "").name)
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
        named = building.live.dataset is not None or bool(building.spec.data.cases)
        own_cases = not strategy.proposes and not named
        agent = problems.as_raised(
            lambda: agent_of(
                building.spec.source.file,
                spec,
                with_cases=own_cases,
                columns=building.spec.data.columns,
            ),
            None,
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
            _check_objective(building, metrics, dataset)

        def made() -> AgentTarget:
            user = _user(building, agent) if any(case.scenario for case in cases) else None
            return AgentTarget(agent, building.models, surfaces=axes.surfaces, user=user)

        target = problems.attempt(_DOCUMENT, made, None)
        if target is None:
            return None
        _check_model(building, target)
        local = agent.block.model.provider == "local"
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=metrics,
            objective=building.spec.objective.objective({metric.name: 1.0 for metric in metrics}),
            own_model=None if local else agent.own_model,
            own_model_at=_MODEL,
            no_model="the agent's own model is a local one, which is too weak to write texts",
            places=axes.places,
            noisy=NOISY,
            steady=_is_steady(agent, axes, cases, metrics),
            exporter=named_exports(agent),
            record={FILES: measured_files(agent)},
            notes=(*notes, *target.notes),
            resources=(target,),
        )

    def review(
        self, building: Building, parts: TargetParts, search: StrategyParts
    ) -> Iterable[str]:
        assert isinstance(parts.target, AgentTarget)
        return _check_prices(building, parts.target, parts, search.strategy.roles)

    def homes(self, header: Header) -> Homes | None:
        return AgentHomes.of(header)

    def axes(self, target: Target) -> Sequence[str]:
        assert isinstance(target, AgentTarget)
        own = (surface.id for surface in target.surfaces)
        names = (MODEL_AXIS, *tunable(target.agent.block), *own, DEMONSTRATIONS)
        return list(dict.fromkeys(names))

    def varied(self, spec: AnySpec, variant: Variant) -> AnySpec:
        """The agent file with other values in it; its own axes and their bounds do not matter."""
        document = _varied_document(spec.source.file, spec.target, variant)
        made = {"document": AgentDocument.model_validate(document), "axes": None}
        return spec.model_copy(update={"target": spec.target.model_copy(update=made)})


def _is_steady(
    agent: LoadedAgent, axes: Axes, cases: Sequence[Case], metrics: Sequence[Metric]
) -> bool:
    """Whether the engine that runs here answers every case, and scores it, the same each time."""
    block = agent.block
    exact = block.model.provider == "local" and block.model.temperature == 0 and not block.tools
    judged = any(True for metric in metrics for _ in judged_parts(metric))
    simulated = any(case.scenario for case in cases)
    return exact and not (axes.numbers or judged or simulated)


def agent_of(
    file: str,
    spec: AgentSpec,
    *,
    with_cases: bool = False,
    columns: Mapping[str, str] | None = None,
) -> LoadedAgent:
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
    return sound_agent(
        path, tree, spec.document, with_cases=with_cases, added=added, columns=columns
    )


_MEASURING = ("name", "evaluations", "test_cases", "test_cases_file", "execution", "user_simulator")
"""The keys of a file that say how an agent is measured, not what it does."""


def _varied_document(file: str, spec: AgentSpec, variant: Variant) -> dict[str, JsonValue]:
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
    client = building.models.client(ref, prompt.settings, role=USER_SIMULATOR)
    return user_simulator(client, prompt)


def _check_model(building: Building, target: AgentTarget) -> None:
    """Whether the agent's model can be called, with every value of its axes too."""
    problems = building.problems
    try:
        target.client.check()
    except ModelRefused as error:
        problems.add(_MODEL, error.message, error.remedy)
        return
    for surface in _model_axes(target):
        for value, client in _variants(target, surface, building.models):
            try:
                client.check()
            except ModelRefused as error:
                message = f"{surface.id} {value}: {error.message}"
                problems.add((*AXES, "numeric"), message, error.remedy)
                break


def _check_objective(building: Building, metrics: Sequence[Metric], dataset: Dataset) -> None:
    """Whether the metrics of loss and constraints exist in every split."""
    problems, objective = building.problems, building.spec.objective
    by_name = {metric.name: metric for metric in metrics}
    for name in objective.weights:
        at = ("objective", "weights", name)
        if name not in by_name:
            problems.add(at, f"there is no metric '{name}'", likely_of(name, sorted(by_name)))
            continue
        for split in Split:
            cases = dataset.cases(split)
            if cases and not any(_looks_at(by_name[name], case) for case in cases):
                message = f"no case of {split.value} has the metric '{name}'"
                problems.add(at, message, "every split needs all metrics of the loss")
    for index, constraint in enumerate(objective.constraints):
        if constraint.metric not in (*by_name, *_NUMBERS):
            message = f"there is no metric or number '{constraint.metric}'"
            remedy = likely_of(constraint.metric, sorted((*by_name, *_NUMBERS)))
            problems.add(("objective", "constraints", index, "metric"), message, remedy)


def _check_prices(
    building: Building, target: AgentTarget, parts: TargetParts, roles: Iterable[Role[Any, Any]]
) -> Iterator[str]:
    """Report unknown prices, and reject settings that need them."""
    unpriced = _unpriced(building.models, target, parts, roles)
    if not unpriced:
        return
    problems, objective = building.problems, building.spec.objective
    listed = ", ".join(f"{job} ({model})" for job, model in unpriced.items())
    how = "set `prices` in the block of a model to count it"
    yield f"unknown prices: {listed}; amounts in US dollars do not include them; {how}"
    if likely := "" if target.client.priced else nearest_model(target.client.ref):
        yield f"burnish does not know the model {target.client.ref.label}: did you mean {likely}?"
    if building.spec.budget.max_usd is not None:
        message = f"US dollars cannot be limited, because these prices are unknown: {listed}"
        remedy = "limit max_calls, max_tokens or max_minutes instead"
        problems.add("budget.max_usd", message, remedy)
    if _AGENT not in unpriced:
        return
    if objective.penalties.cost_per_usd:
        message = "the cost of a trial is unknown, because the agent's model has no known price"
        problems.add("objective.penalties.cost_per_usd", message, "set it to 0")
    for index, constraint in enumerate(objective.constraints):
        if constraint.metric == "cost_usd":
            message = "cost_usd is unknown, because the agent's model has no known price"
            at = ("objective", "constraints", index)
            problems.add(at, message, "remove it, or limit latency_sec")


def _unpriced(
    models: Models, target: AgentTarget, parts: TargetParts, roles: Iterable[Role[Any, Any]]
) -> dict[str, str]:
    """The models without a known price, by role: the agent, a metric's judge, a writer of texts."""
    axes = _model_axes(target)
    variants = [client for axis in axes for _, client in _variants(target, axis, models)]
    unpriced: dict[str, str] = {}
    for client in (target.client, *variants):
        if not client.priced:
            unpriced.setdefault(_AGENT, client.ref.label)
    for metric in parts.metrics:
        if any(metric.estimate(case).unpriced for case in parts.cases):
            unpriced[f"the judge of {metric.name}"] = "its model"
    for role in roles:
        if not role.priced:
            unpriced[f"the {role.name}"] = role_label(role) or "its model"
    return unpriced


def _model_axes(target: AgentTarget) -> list[NumericSurface]:
    numeric = [s for s in target.surfaces if isinstance(s, NumberSurface | ChoiceSurface)]
    return [surface for surface in numeric if surface.id.startswith("model.")]


def _variants(
    target: AgentTarget, surface: NumericSurface, models: Models
) -> Iterator[tuple[object, ModelClient]]:
    for value in probes(surface):
        try:
            edited = edit(target.agent, {surface.id: value})
        except ConfigError:
            continue
        yield value, client_for(models, edited.block)


def _looks_at(metric: Metric, case: Case) -> bool:
    """Whether the metric applies to any turn of the case."""
    turns: Iterable[TurnMetric | None]
    if isinstance(metric, Layered):
        turns = metric.places.get(case.id, (metric.default,) * len(case.turns))
    elif isinstance(metric, TurnMetric):
        turns = (metric,) * len(case.turns)
    else:
        return True
    return any(
        each.name in turn.metrics or not (turn.metrics or each.explicit)
        for turn, each in zip(case.turns, turns, strict=False)
        if each is not None
    )
