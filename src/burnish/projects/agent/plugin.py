"""An agent file as a target: its description, its cases, and what is built of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from burnish.core.protocols import Metric
from burnish.core.surfaces import AGENT_SURFACES, Candidate, Surface
from burnish.metrics.computed import ExpectedTools
from burnish.metrics.files import MetricsRead
from burnish.metrics.turns import ROLE as USER_SIMULATOR
from burnish.metrics.turns import user_simulator
from burnish.models.factory import Models
from burnish.models.roles import in_force
from burnish.projects.agent.axes import Axes, AxesBlock, axes_of
from burnish.projects.agent.checks import MODEL, check_model, check_objective, check_prices
from burnish.projects.agent.dialect import NOISY, agent_keys
from burnish.projects.agent.homes import AgentHomes, measured_files
from burnish.projects.measures import User, read_case_sets, read_metrics
from burnish.runs.directory import Header
from burnish.runs.draft import Problems
from burnish.runs.events import CANDIDATES, Exported, Exporter
from burnish.runs.homes import FILES, Homes
from burnish.runs.plugins import (
    STEPS,
    Ability,
    Building,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
)
from burnish.runs.spec import CaseSet, TargetSpec
from burnish.system import YamlTree, read_tree
from burnish.system.yaml import tree_of
from burnish.targets.agent.attachments import check_attachments, pinned
from burnish.targets.agent.blocks import AgentBlock, expanded
from burnish.targets.agent.files import PROMPTS, LoadedAgent, edit, export_agent, sound_agent
from burnish.targets.agent.target import AgentTarget

_SHOWN = 3
"""Cases that are named where many are amiss: they mostly are in the same way."""


def _read_dataset(building: Building, agent: LoadedAgent, notes: list[str]) -> Dataset:
    """The cases of each split, their files in view; what is wrong with them is kept."""
    problems, data = building.problems, building.spec.data
    with_holdout = building.spec.strategy.settings.uses_holdout
    before = len(problems.found)
    if with_holdout:
        _require_files(building)
    if data.train or with_holdout:
        train = _read(building, agent, "data.train", data.train)
    else:
        notes.append("train_cases_file is not given: the test cases of the agent are learned from")
        train = problems.as_raised(lambda: _with_files(agent.cases, agent), ())
    unread = len(problems.found) > before
    dataset = Dataset(
        train=train,
        holdout=_read(building, agent, "data.holdout", data.holdout),
        test=_read(building, agent, "data.test", data.test),
    )
    # That train is empty says nothing new where its file could not be read.
    amiss = [p for p in dataset.problems() if train or not unread or p.where != Split.TRAIN.value]
    problems.found += amiss[:_SHOWN]
    if len(amiss) > _SHOWN:
        problems.add("data", f"{len(amiss) - _SHOWN} more cases are amiss in the same way")
    if with_holdout:
        _require_enough(problems, dataset, building.spec.target.min_holdout_cases)
    return dataset


def _names_cases(building: Building) -> bool:
    """Whether other cases are measured than the test cases of the agent."""
    return building.cases is not None or bool(building.spec.data.cases)


def _read_measured(building: Building, agent: LoadedAgent) -> Dataset:
    """The cases to measure: those that are named for it, else the test cases of the agent."""
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
    missing = [
        name
        for name, sets in (
            ("train_cases_file", data.train),
            ("holdout_cases_file", data.holdout),
        )
        if not sets
    ]
    if missing:
        message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not given: "
        message += "one set is learned from, the other decides, and both are needed"
        without = f"; or {settings.without_holdout}" if settings.without_holdout else ""
        building.problems.add(
            "data", message, f"`burnish data split` makes two files of one{without}"
        )


def _read(
    building: Building, agent: LoadedAgent, at: str, sets: Sequence[CaseSet]
) -> tuple[Case, ...]:
    """The cases of some files, in the order in which they are named."""

    read = read_case_sets(building, at, sets)
    return building.problems.attempt(at, lambda: _with_files(read, agent), read)


def _with_files(cases: Sequence[Case], agent: LoadedAgent) -> tuple[Case, ...]:
    """The cases with the content of the files that go with them."""
    if problems := check_attachments(cases, agent.folder):
        raise ConfigError(problems)
    return pinned(cases, agent.folder)


def _require_enough(problems: Problems, dataset: Dataset, least: int) -> None:
    count = len(dataset.holdout)
    if 0 < count < least:
        message = (
            f"{Split.HOLDOUT.value} has {count} cases, and {least} are needed at least: "
            "fewer cannot tell a gain from chance"
        )
        problems.add("data.holdout", message, "add cases, or lower min_holdout_cases")


# -- Candidates of an agent file under the names that HoloDeck gives them -------------------------


_BEST_PROMPT = "best-instructions.md"


def named_exports(agent: LoadedAgent) -> Exporter:
    """How the candidates of this agent lie in a run's folder."""
    suffix = agent.path.suffix

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        edited = edit(agent, candidate.values)
        prompt = _prompt(agent, name)
        made = export_agent(agent, edited, folder / CANDIDATES, prompt=f"../{prompt}")
        yaml = made.pop(agent.path.name)
        files = {f"{CANDIDATES}/{name}{suffix}": yaml}
        links = {f"best{suffix}": f"{CANDIDATES}/{name}{suffix}"}
        for content in made.values():
            files[prompt] = content
            links[_BEST_PROMPT] = prompt
        return Exported(files=files, links=links)

    return export


def _prompt(agent: LoadedAgent, name: str) -> str:
    own = PurePosixPath(agent.block.instructions.file or "system-prompt.md")
    return f"{PROMPTS}/{own.stem}.{name}{own.suffix}"


# -- An agent file as a target --------------------------------------------------------------------


_DOCUMENT = "target.document"


class AgentDocument(AgentBlock):
    """An agent as its file has it: variables count by their values, and are kept by their names."""

    _written: dict[str, JsonValue] = PrivateAttr(default_factory=dict[str, JsonValue])

    @model_validator(mode="wrap")
    @classmethod
    def _expanded(cls, value: Any, handler: ModelWrapValidatorHandler["AgentDocument"]) -> Any:
        document = handler(expanded(value, where="the agent"))
        document._written = value
        return document

    @model_serializer
    def written(self) -> dict[str, JsonValue]:
        """As the file has it, `${VAR}` included."""
        return self._written


class AgentSpec(TargetSpec):
    """An agent, and what of it is tuned."""

    kind: str = "agent"
    document: AgentDocument
    """The agent file without its optimizer block."""
    axes: AxesBlock | None = None
    """What is tuned; None where the file does not say how it is to be tuned."""
    min_holdout_cases: NoneOrMore = 5
    """The fewest cases that may decide."""
    min_delta: NotNegative | None = None
    """HoloDeck's bar. Here the bar is the noise that was measured."""


class AgentPlugin(TargetPlugin):
    """Builds the target from its description."""

    kind: ClassVar[str] = "agent"
    Spec: ClassVar[type[TargetSpec]] = AgentSpec
    document: ClassVar[type[BaseModel] | None] = AgentBlock
    surfaces: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The agent with its axes, cases and metrics."""
        spec: AgentSpec = building.spec.target
        problems = building.problems
        own_cases = not strategy.proposes and not _names_cases(building)
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
        metrics = _metrics(building, agent, cases)
        if metrics:
            check_objective(building, metrics, dataset)
        target = problems.attempt(_DOCUMENT, lambda: _target(building, agent, axes, cases), None)
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
            no_model="the agent's own model is a local one, and writing texts takes a stronger one",
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
        """Whose price is unknown."""
        assert isinstance(parts.target, AgentTarget)
        return check_prices(building, parts.target, parts, search.strategy.roles)

    def homes(self, header: Header) -> Homes | None:
        """The agent file, and that of its instructions."""
        return AgentHomes.of(header)


def agent_of(file: str, spec: AgentSpec, *, with_cases: bool = False) -> LoadedAgent:
    """The agent of a description, with what it names; everything that is wrong is said at once.

    Its test cases are looked at only where they count.
    """
    path = Path(file)
    tree = _tree(path, spec.document.written())
    return sound_agent(path, tree, spec.document, with_cases=with_cases)


def _tree(path: Path, document: Mapping[str, JsonValue]) -> YamlTree:
    """The file itself where it still says the same: it has comments, which exports keep."""
    try:
        tree = read_tree(path)
    except BurnishError:
        return tree_of(path, document)
    data = cast("Mapping[str, JsonValue]", tree.data if isinstance(tree.data, dict) else {})
    return tree if agent_keys(data) == document else tree_of(path, document)


def _not_tuned(agent: LoadedAgent, models: Models) -> ConfigError:
    from burnish.projects.agent.axes import starter

    problem = Problem(
        where=f"{agent.path.name} evaluations.optimizer",
        message="the file does not say how it is to be tuned",
        remedy="a block to start with, made for this agent:",
    )
    return ConfigError([problem], remedy=f"\n{starter(agent, models)}")


def _notes(building: Building, strategy: StrategyPlugin) -> Iterator[str]:
    if strategy.proposes and not building.spec.strategy.settings.uses_holdout:
        yield (
            "no holdout — NOTHING GUARDS AGAINST OVERFITTING: candidates are accepted on the cases "
            "they were made from, and the result is a training score"
        )
    if building.spec.target.min_delta is not None:
        yield "min_delta has no effect: the bar is the noise that was measured (accept_sigma)"


def _refuse_outputs(building: Building) -> None:
    """A tuned agent is put into its file when a person has seen what changes."""
    for name in ("in_place", "update_source"):
        if getattr(building.spec.output, name):
            message = "an agent file is not written by a run"
            remedy = "leave it out, and use `burnish adopt` when the run is over"
            building.problems.add(f"output.{name}", message, remedy)


def _metrics(building: Building, agent: LoadedAgent, cases: Sequence[Case]) -> tuple[Metric, ...]:
    """Those of the description, else of the file; and whether expected tools were used."""
    evaluations, spec = agent.block.evaluations, building.spec.metrics
    if evaluations is None and spec.file is None and not spec.blocks:
        remedy = (
            "add evaluations with at least one metric, such as {type: standard, metric: equality}"
        )
        building.problems.add(_DOCUMENT, "it does not say how it is measured", remedy)
        return ()
    own = MetricsRead(
        blocks=evaluations.metrics if evaluations else (),
        judge=evaluations.model.reference()
        if evaluations and evaluations.model
        else agent.own_model,
    )
    made = read_metrics(building, cases, own=own, own_at=f"{_DOCUMENT}.evaluations.metrics")
    if spec.names:
        return made
    uses_tools = any(turn.expected_tools is not None for case in cases for turn in case.turns)
    return (*made, ExpectedTools()) if uses_tools else made


def _target(
    building: Building, agent: LoadedAgent, axes: Axes, cases: Sequence[Case]
) -> AgentTarget:
    user = _user(building, agent) if any(case.scenario for case in cases) else None
    return AgentTarget(agent, building.models, surfaces=axes.surfaces, user=user)


def _user(building: Building, agent: LoadedAgent) -> User:
    """Who plays the user in scenarios."""
    block = building.spec.metrics.user_simulator or agent.block.user_simulator
    prompt = in_force(USER_SIMULATOR, agent.folder)
    ref = block.reference() if block else agent.own_model
    return user_simulator(building.models.client(ref, prompt.settings), prompt)
