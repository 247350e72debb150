"""Contract tests of plug-ins: strategies, targets, metrics and file dialects.

Call them from your own tests, with your distribution installed; each raises AssertionError with a
message that says what is broken. burnish runs them on its own plug-ins.
"""

import json
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from burnish.core.cases import Case, Outcome
from burnish.core.errors import BurnishError, ConfigError
from burnish.core.trials import TrialRow
from burnish.metrics.files import METRICS, MetricBlock, MetricList, MetricPlugin
from burnish.metrics.judges import MetricMaking
from burnish.metrics.turns import TurnMetric
from burnish.models.factory import Models
from burnish.projects.adopt import (
    adopt,
    adopting,
    changes_of,
    homes_of,
    plan_adoption,
    plan_undo,
    same_value,
    undo,
)
from burnish.projects.description import Doors, describe, from_stored
from burnish.projects.dialects import GROUP as DIALECTS
from burnish.projects.dialects import Dialect, Document, Flags, role_names
from burnish.projects.resuming import described_again
from burnish.reports.rendering import to_markdown
from burnish.runs.build import RunDescription, build, kept_spec
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.homes import Homes
from burnish.runs.plugins import (
    STRATEGIES,
    TARGETS,
    StrategyPlugin,
    TargetPlugin,
    strategy_names,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.setup import Setup, start
from burnish.runs.spec import StrategySettings, StrategySpec, TargetSpec, spec_type
from burnish.system import validate_config
from burnish.system.settings import Access, SettingField, plain_type, setting_fields
from burnish.testing.doubles import check_metric, check_target

_NONSENSE: JsonValue = {"no such key": [{"of": "any plug-in"}]}
"""A value that hardly any field accepts."""


@dataclass(frozen=True, kw_only=True)
class PluginProject:
    """A project file that uses a plug-in."""

    file: Path
    flags: Flags = field(default_factory=dict[str, JsonValue])
    models: Callable[[], Models] | None = None
    """Makes new models for each run that replace the real ones."""

    def described(self) -> RunDescription:
        """The run that the file describes, without the environment."""
        return describe(Document.read(self.file), self.flags, environ={})

    @asynccontextmanager
    async def built(self, description: RunDescription) -> AsyncGenerator[Setup, None]:
        """The run, set up; its resources are closed afterwards."""
        setup = build(description, models=None if self.models is None else self.models())
        try:
            yield setup
        finally:
            for resource in setup.resources:
                await resource.close()


async def check_strategy_plugin(name: str, project: PluginProject, folder: Path) -> None:
    """Check that a strategy works from files, flags and HTTP, plans, reports and resumes.

    `project` uses the strategy; its run is written to `folder`.
    """
    check_strategy_settings(name)
    plugin, described = strategy_plugin(name), project.described()
    assert described.spec.strategy.name == name, f"{project.file.name} uses another strategy"
    async with project.built(described) as setup, project.built(described) as again:
        strategy = setup.strategy
        assert strategy.name == name, f"the strategy that it builds is called '{strategy.name}'"
        assert strategy.fingerprint == again.strategy.fingerprint, (
            "its fingerprint differs when it is built again: no run of it could be resumed"
        )
        declared = {*role_names(plugin), *(need.prompt for need in plugin.roles)}
        undeclared = {role.name for role in strategy.roles} - declared
        assert not undeclared, f"it uses {sorted(undeclared)}, which are not in `roles`"
    await _check_project(project, folder)


def check_strategy_settings(name: str) -> None:
    """Check the part of a strategy's contract that needs no run."""
    plugin = _plugin(STRATEGIES, name, StrategyPlugin)
    assert issubclass(plugin.Settings, StrategySettings), "Settings is not a StrategySettings"
    at = ("strategy", "settings")
    # A strategy for one kind of target does not have the flags of every run.
    shared = () if plugin.over else Doors.of_any_run().named().values()
    _check_fields([*setting_fields(plugin.Settings, at)], name, shared)
    for need in plugin.roles:
        assert need.help, f"the role '{need.name}' has no help"


async def check_target_plugin(kind: str, project: PluginProject, folder: Path) -> None:
    """Check that a target is described by its file, builds the same twice, and passes check_target.

    `project` uses the target; its run is written to `folder`.
    """
    check_target_spec(kind)
    described = project.described()
    assert described.spec.target.kind == kind, f"{project.file.name} uses another target"
    async with project.built(described) as setup, project.built(described) as again:
        description = setup.target.description
        built = description.kind
        assert built == kind, f"the target that it builds has the kind '{built}'"
        assert description.fingerprint == again.target.description.fingerprint, (
            "its fingerprint differs when it is built again: no run over it could be resumed"
        )
        declared = target_plugin(kind).surfaces
        others = [each.id for each in setup.target.surfaces if not isinstance(each, declared)]
        assert not others, f"{others} are of kinds that it does not declare in `surfaces`"
        await check_target(setup.target, ())
    await _check_project(project, folder)


def check_target_spec(kind: str) -> None:
    """Check the part of a target's contract that needs no run."""
    plugin = _plugin(TARGETS, kind, TargetPlugin)
    assert issubclass(plugin.Spec, TargetSpec), "Spec does not derive from TargetSpec"
    fields = setting_fields(plugin.Spec, ("target",))
    own = [each for each in fields if each.path != ("target", "kind")]
    # A target that has its cases itself does not have the flags that name them.
    every = Doors.of_any_run().named().values()
    shared = [f for f in every if plugin.takes_cases or f.path[0] not in ("data", "metrics")]
    _check_fields(own, kind, shared)


async def _check_project(project: PluginProject, folder: Path) -> None:
    """Check that a file can be planned, run, reported, adopted and described again."""
    described = project.described()
    document = json.loads(json.dumps(kept_spec(described)))
    assert from_stored(document, {}).spec == described.spec, (
        "the description in run.json does not read back the same"
    )
    target = target_plugin(described.spec.target.kind)
    strategy = strategy_plugin(described.spec.strategy.name)
    async with project.built(described) as setup:
        _check_lines(target.plan(setup, strategy), "the plan")
        before = _fingerprints(setup)
        run = start(setup, folder=folder)
        try:
            await drive(run)
        finally:
            await run.close()
    record = RunRecord.read(folder)
    _check_reports(record, target, strategy)
    _check_adoption(record)
    again = described_again(folder, {})
    assert again.spec.strategy == described.spec.strategy, "a resumed run has other settings"
    async with project.built(again) as setup:
        assert _fingerprints(setup) == before, "what is built from run.json is not the same"


def _fingerprints(setup: Setup) -> dict[str, str]:
    return {
        "target": setup.target.description.fingerprint,
        "strategy": setup.strategy.fingerprint,
        "baseline": setup.target.baseline.id,
        **{f"metric {each.name}": each.fingerprint for each in setup.metrics},
    }


def _check_reports(run: RunRecord, target: TargetPlugin, strategy: StrategyPlugin) -> None:
    """Check that reports of a finished run do not fail."""
    assert run.status == "finished", f"the run is {run.status}: {strategy.reason(run)}"
    with _not_failing("the report"):
        to_markdown(strategy.report(run))
    with _not_failing("the baseline"):
        for quiet in (True, False):
            to_markdown(target.baseline(run, strategy, quiet=quiet))
    with _not_failing("the progress"):
        for width in (40, 80, 200):
            lines = strategy.progress()
            for event in run.events:
                _check_lines(lines.lines(event, width), f"the progress of {event.kind}")
    with _not_failing("what it says of trials"):
        for row in run.rows:
            _check_lines(strategy.trial_lines(row), "what it says of a trial")
            _check_lines([strategy.turn(row.trial)], "what it calls a turn")
    words = [strategy.reason(run), strategy.result_words(run), *target.last_words(run)]
    _check_lines(words, "what it says at the end")


@contextmanager
def _not_failing(what: str) -> Generator[None, None, None]:
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:  # the plug-in under test may raise anything
        raise AssertionError(f"{what} fails on a finished run: {error}") from error


def _check_adoption(run: RunRecord) -> None:
    """Check that the best candidate can be adopted into the user's files, and undone.

    Skipped if no candidate was accepted or the values are not in files.
    """
    homes = homes_of(run.header)
    if homes is None or not run.accepted:
        return
    with _not_refused("an adoption"):
        plan = plan_adoption(run)
    if plan.row is None:
        return
    assert plan.files, f"the best cannot be adopted: {plan.nothing}"
    before = {path: path.read_bytes() for path in (*homes.files, *(f.path for f in plan.files))}
    with adopting(run):
        adopt(plan)
        _check_values(run, plan.row, homes)
        with _not_refused("its undoing"):
            undoing = plan_undo(run)
        undo(undoing)
    changed = [path.name for path, content in before.items() if path.read_bytes() != content]
    assert not changed, f"{', '.join(changed)} is not what it was before the adoption"


@contextmanager
def _not_refused(what: str) -> Generator[None, None, None]:
    try:
        yield
    except BurnishError as error:
        raise AssertionError(f"{what} of a finished run is refused: {error}") from error


def _check_values(run: RunRecord, row: TrialRow, homes: Homes) -> None:
    homes.load()
    for change in changes_of(run, row):
        if change.before is None or change.after is None:
            continue
        value = homes.value(change.surface)
        assert same_value(value, change.after), (
            f"{change.surface} is {value!r} in the files after an adoption, not {change.after!r}"
        )


def _check_lines(lines: object, what: str) -> None:
    texts = list(cast("Sequence[object]", lines))
    assert all(isinstance(line, str) for line in texts), f"{what} is not a list of text lines"


def _plugin(group: str, name: str, base: type[Any]) -> Any:
    points = [*entry_points(group=group, name=name)]
    assert points, f"no entry point '{name}' in the group {group}: is it installed?"
    assert len({point.value for point in points}) == 1, f"two plug-ins of {group} are '{name}'"
    kind = points[0].load()
    assert isinstance(kind, type), f"{points[0].value} is not a class"
    assert issubclass(kind, base), f"{points[0].value} does not derive from {base.__name__}"
    plugin = kind()
    own = plugin.name if group == STRATEGIES else plugin.kind
    assert own == name, f"it is installed as '{name}' and calls itself '{own}'"
    return plugin


def _check_fields(
    fields: Sequence[SettingField], owner: str, others: Iterable[SettingField]
) -> None:
    shared = {spelled: each for each in others for spelled in each.flags if each.name}
    seen: dict[str, SettingField] = {}
    for each in fields:
        name = ".".join(each.path)
        _check_field(each, name)
        for flag in each.flags if each.name else ():
            other = shared.get(flag)
            assert other is None or other.path == each.path, (
                f"{name}: every run has a flag {flag} already, for {'.'.join(other.path)}"
            )
            assert flag not in _own_options(), f"{name}: the command itself has a flag {flag}"
            assert flag not in seen, f"{name}: {flag} is also the flag of another field of {owner}"
            seen[flag] = each


def _own_options() -> set[str]:
    """The flags of `burnish optimize` that are not fields of a run."""
    from burnish.cli.program import program

    options = program().commands["optimize"].params
    return {spelled for option in options for spelled in option.opts}


def _check_field(each: SettingField, name: str) -> None:
    if each.door.file:
        assert each.help, f"{name} has no help: write a docstring under the field"
    if not each.info.is_required():
        default = each.info.get_default(call_default_factory=True)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
        try:
            TypeAdapter(Any).dump_json(default)
        except ValueError as error:
            raise AssertionError(f"{name}: its default cannot be stored in run.json") from error
    if each.http_name:
        _check_open(each, name)


def _check_open(each: SettingField, name: str) -> None:
    is_path = each.door.paths and each.door.http is not Access.DATASET
    assert not is_path, f"{name} names files, but clients of the service may set it"
    kind: Any = each.info.annotation
    for part in each.info.metadata:
        kind = Annotated[kind, part]
    adapter = TypeAdapter[Any](kind)
    try:
        adapter.validate_python(_NONSENSE, strict=True)
    except ValidationError:
        return
    raise AssertionError(f"{name} is open to HTTP clients, but accepts any value: give it a type")


async def check_metric_plugin(
    kind: str,
    block: Mapping[str, JsonValue],
    case: Case,
    outcomes: Sequence[Outcome] = (),
    *,
    folder: Path | None = None,
    making: MetricMaking | None = None,
) -> None:
    """Check that a metric is read from its block, made the same twice, and scores under its name.

    `block` is its block in a file; `making` has the models that replace real judges.
    """
    plugin = _plugin(METRICS, kind, MetricPlugin)
    assert issubclass(plugin.Block, MetricBlock), "Block does not derive from MetricBlock"
    for each in setting_fields(plugin.Block):
        _check_field(each, ".".join(each.path))
    read = _read_block({**block, "type": kind})
    assert type(read) is plugin.Block, f"a block of the type '{kind}' is read by another model"
    document = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert _read_block(json.loads(json.dumps(document))) == read, (
        "a stored block does not read back the same"
    )
    _check_unknown_key({**block, "type": kind})
    bench = making or MetricMaking(models=Models(), folder=folder or Path.cwd())
    metric, again = plugin.make(read, bench), plugin.make(read, bench)
    assert isinstance(metric, TurnMetric), "make does not return a TurnMetric"
    name = plugin.name(read)
    assert metric.name == name, f"the plug-in calls it '{name}', the metric '{metric.name}'"
    assert metric.fingerprint == again.fingerprint, (
        "its fingerprint differs when it is made again: no score could be reused"
    )
    await check_metric(metric, case, outcomes)


def _read_block(block: Mapping[str, JsonValue]) -> MetricBlock:
    read = validate_config([dict(block)], MetricList, source="metrics").root[0]
    return cast("MetricBlock", read)


def _check_unknown_key(block: Mapping[str, JsonValue]) -> None:
    try:
        _read_block({**block, "no_such_key": 1})
    except ConfigError as error:
        places = [problem.where for problem in error.problems]
        assert any("no_such_key" in place for place in places), "an unknown key has no location"
    else:
        raise AssertionError("it accepts unknown keys: forbid extra keys in Block")


def check_dialect(kind: str, project: PluginProject, folder: Path) -> None:
    """Check that a dialect sets fields that exist, and that errors in its files have a location.

    `project` is a valid file of the kind; copies with one wrong value are written to `folder`.
    """
    dialect = check_dialect_table(kind)
    project.described()
    document = Document.read(project.file)
    for key in dialect.keys:
        _check_place(document, tuple(key.split(".")), project, folder)


def check_dialect_table(kind: str) -> Dialect:
    """Check the part of a dialect's contract that needs no file."""
    dialect: Dialect = _plugin(DIALECTS, kind, Dialect)
    _plugin(TARGETS, dialect.target, TargetPlugin)
    _plugin(STRATEGIES, dialect.strategy, StrategyPlugin)
    spec = target_plugin(dialect.target).Spec
    for key, path in dialect.keys.items():
        steps = path.split(".")
        if steps[0] == "strategy" and steps[1] not in StrategySpec.model_fields:
            _plugin(STRATEGIES, steps[1], StrategyPlugin)
            owners: list[type[BaseModel]] = [strategy_plugin(steps[1]).Settings]
            steps = steps[2:]
        else:
            plugins = map(strategy_plugin, strategy_names())
            owners = [spec_type(spec, plugin.Settings) for plugin in plugins]
        exists = not path or any(_has_field(owner, steps) for owner in owners)
        assert exists, f"the key '{key}' sets '{path}', which no strategy or target has"
    return dialect


def _has_field(kind: object, steps: Sequence[str]) -> bool:
    if not steps:
        return True
    plain = plain_type(kind)
    if get_origin(plain) in (Union, UnionType):
        return any(_has_field(each, steps) for each in get_args(plain))
    if get_origin(plain) is dict:
        return _has_field(get_args(plain)[1], steps[1:])
    if not (isinstance(plain, type) and issubclass(plain, BaseModel)):
        return plain is Any
    info = plain.model_fields.get(steps[0])
    return info is not None and _has_field(info.annotation, steps[1:])


def _check_place(
    document: Document, key: tuple[str, ...], project: PluginProject, folder: Path
) -> None:
    """Check that the error of a wrong value names its key and line."""
    data = json.loads(json.dumps(document.tree.data))
    block = data
    for step in key[:-1]:
        inner = block.get(step)
        block[step] = inner if isinstance(inner, dict) else {}
        block = block[step]
    block[key[-1]] = _NONSENSE
    file = folder / f"wrong-{project.file.stem}.json"
    file.write_text(json.dumps(data, indent=1), encoding="utf-8")
    name, dotted = file.name, ".".join(key)
    try:
        describe(Document.read(file), project.flags, environ={})
    except ConfigError as error:
        places = [problem.where for problem in error.problems]
        exact = [each for each in places if each.startswith(f"{name}:") and dotted in each]
        assert exact, f"a wrong value of '{dotted}' is reported at {places}, not at its key"
    except BurnishError as error:
        raise AssertionError(f"a wrong value of '{dotted}' has no location: {error}") from error
    finally:
        file.unlink()
