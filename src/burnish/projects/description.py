"""Describing a run: a file, the environment and flags or HTTP settings, as one RunSpec.

`Doors` are the fields that may be set beside a file for one kind of target and one strategy. Every
door is a patch on the same fields: what a door may not set is refused with the reason, and so is
what the chosen strategy has no use for.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import JsonValue

from burnish.core.errors import BurnishError, ConfigError, Problem, ResumeRefused
from burnish.core.formatting import alternatives
from burnish.models.keys import load_dotenv
from burnish.projects.dialects import Dialect, Document, Flags, dialect_of, role_names
from burnish.runs.build import RunDescription
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header
from burnish.runs.draft import Draft, Places, Strength, validated, variables_in, with_literals
from burnish.runs.plugins import (
    TARGETS,
    StrategyPlugin,
    TargetPlugin,
    fitting,
    lack,
    strategy_names,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.spec import RunSpec, spec_type
from burnish.system.config_errors import nearest
from burnish.system.settings import Door, SettingField, plain_type, setting_fields
from burnish.system.yaml import TreePath

STRATEGY = "strategy"
_STRATEGY = "BURNISH_STRATEGY"
SET = "set"
"""Where flags keep what `--set path=value` says."""


@dataclass(frozen=True, kw_only=True)
class Doors:
    """The fields of a run that doors beside a file may set."""

    target: TargetPlugin
    strategy: StrategyPlugin

    @classmethod
    def of_any_run(cls) -> "Doors":
        """What may be set of every run, whatever it is about."""
        return cls(target=TargetPlugin(), strategy=StrategyPlugin())

    @property
    def model(self) -> type[RunSpec[Any, Any]]:
        """The whole model of the run."""
        return spec_type(self.target.Spec, self.strategy.Settings)

    def fields(self) -> Iterator[SettingField]:
        """Every field that such a run has a use for, the models of roles included."""
        useless = "measurements" if self.strategy.proposes else "searches"
        for setting in setting_fields(self.model):
            is_for_cases = setting.path[0] in ("data", "metrics")
            has_use = not self.strategy.over or setting.path[0] in ("target", "strategy")
            if setting.door.runs == useless or not has_use:
                continue
            if self.target.takes_cases or not is_for_cases:
                yield setting
        yield from role_fields(self.strategy)

    def named(self) -> dict[str, SettingField]:
        """The fields that have a flag, by the name of it."""
        return {field.name: field for field in self.fields() if field.name}

    def has(self, flag: str) -> bool:
        """Whether a flag is one of them, as it is spelled on the command line."""
        return any(flag in field.flags for field in self.named().values())

    def put_flags(self, draft: Draft, flags: Flags) -> None:
        """Lay over the draft what flags say."""
        fields, problems = self.named(), list[Problem]()
        for name, value in flags.items():
            if value is None or name == SET:
                continue
            field = fields.get(name)
            if field is None:
                problems.append(self._useless(name))
                continue
            for path, patch in _patches(field, self.target.flag_value(name, value)):
                draft.put(path, patch, place=field.flag, strength=Strength.FLAG)
            for other in field.door.replaces:
                draft.silence(".".join((*field.path[:-1], other)), strength=Strength.FLAG)
        if problems:
            raise ConfigError(problems)
        self._put_assignments(draft, cast("Sequence[str]", flags.get(SET) or ()))

    def put_environment(self, draft: Draft, environ: Mapping[str, str]) -> None:
        """Lay under the file what the environment says."""
        for setting in self.named().values():
            value = environ.get(setting.variable)
            if value and setting.door.environment:
                place = f"${setting.variable}"
                draft.put(setting.path, value, place=place, strength=Strength.ENVIRONMENT)

    def _put_assignments(self, draft: Draft, assignments: Sequence[str]) -> None:
        """`--set budget.max_trials=5`: any field that the command line may set."""
        fields = {".".join(each.path): each for each in self.fields() if _is_assignable(each)}
        for assignment in assignments:
            path, equals, text = assignment.partition("=")
            field = fields.get(path.strip()) or fields.get(f"strategy.settings.{path.strip()}")
            if not equals or field is None:
                raise ConfigError([_not_settable(assignment, path, equals, fields)])
            place = f"--set {'.'.join(field.path)}"
            draft.put(field.path, _parsed(text), place=place, strength=Strength.FLAG)

    def _useless(self, name: str) -> Problem:
        """A flag that the chosen target and strategy have no field for."""
        flag = f"--{name.replace('_', '-')}"
        searching = replace(self, strategy=StrategyPlugin())
        is_for_searches = not self.strategy.proposes and searching.has(flag)
        owners = ["a run that searches"] if is_for_searches else owners_of(flag)
        about = f"'{self.strategy.name}' over '{self.target.kind}' has no use for it"
        remedy = f"leave it out: it is for {' or '.join(owners)}" if owners else "leave it out"
        return Problem(where=flag, message=about, remedy=remedy)


def doors_of(paths: Iterable[Path], strategy: str | None = None) -> Doors | None:
    """The doors of the first of these files that is one to describe a run with."""
    for path in paths:
        try:
            document = Document.read(path)
            dialect = dialect_of(document)
            name = strategy or dialect.strategy_named(document) or os.environ.get(_STRATEGY)
            named = str(name) if name in strategy_names() else dialect.strategy
            return Doors(target=target_plugin(dialect.target), strategy=strategy_plugin(named))
        except BurnishError:
            continue  # what is wrong with it is said when it is described
    return None


def doors_of_run(folder: Path) -> Doors | None:
    """The doors of a run that goes on; None where a program has described it."""
    spec = cast("Mapping[str, Any]", Header.read(folder).project.spec)
    if not spec:
        return None
    return Doors(
        target=target_plugin(spec["target"]["kind"]),
        strategy=strategy_plugin(spec["strategy"]["name"]),
    )


def all_doors() -> Iterator[Doors]:
    """The doors of every search that is possible: every strategy, and every target.

    A strategy that was made for one kind of target has a command of its own, and so has the target.
    """
    anything = Doors.of_any_run()
    yield anything
    apart: set[str] = set()
    for name in strategy_names():
        plugin = strategy_plugin(name)
        apart |= {*plugin.over}
        if plugin.proposes and not plugin.over:
            yield replace(anything, strategy=plugin)
    for point in entry_points(group=TARGETS):
        if point.name not in apart:
            yield replace(anything, target=target_plugin(point.name))


def owners_of(flag: str) -> list[str]:
    """The strategies and targets that have a flag, in words."""
    strategies, targets, every = list[str](), list[str](), list(all_doors())
    is_shared = Doors.of_any_run().has(flag)
    if is_shared and all(doors.has(flag) for doors in every if doors.target.kind):
        return ["a run that searches"]
    for doors in every:
        if not doors.has(flag):
            continue
        if doors.target.kind:
            targets.append(f"'{doors.target.kind}'")
        elif not is_shared:
            strategies.append(f"'{doors.strategy.name}'")
    owners = (("the strategy", strategies), ("a target of the kind", targets))
    return [f"{words} {alternatives(names)}" for words, names in owners if names]


def role_fields(strategy: StrategyPlugin) -> Iterator[SettingField]:
    """The models of roles as fields: `--reflector MODEL`."""
    info = RunSpec.model_fields["roles"]
    helps = {need.name: need for need in strategy.roles}
    for name in role_names(strategy):
        need = helps.get(name)
        panel = need.panel if need is not None else "The search"
        yield SettingField(
            path=("roles", name),
            owner=RunSpec,
            info=info,
            door=Door(flag=name, metavar="MODEL", panel=panel, http=True),
            name=name,
            text=need.help if need is not None else "",
        )


def _patches(field: SettingField, value: JsonValue) -> Iterator[tuple[TreePath, JsonValue]]:
    """What a flag says as values of fields; a mapping adds to what the file has."""
    inner = plain_type(field.info.annotation)
    if isinstance(value, Mapping) and getattr(inner, "__origin__", None) is dict:
        for key, item in value.items():
            yield (*field.path, key), item
    elif field.switches_off:
        yield field.path, not value
    else:
        yield field.path, value


def _parsed(text: str) -> JsonValue:
    """JSON where it is JSON, else the text itself."""
    try:
        return cast("JsonValue", json.loads(text))
    except ValueError:
        return text


def _is_assignable(field: SettingField) -> bool:
    """Whether `--set` may say it: not where the run was read, nor what decides its other fields."""
    decides = ("target", "kind"), ("strategy", "name")
    return field.door.file and field.path[0] != "source" and field.path not in decides


def _not_settable(
    assignment: str, path: str, equals: str, fields: Mapping[str, SettingField]
) -> Problem:
    if not equals:
        return Problem(where="--set", message=f"'{assignment}' is not of the form path=value")
    likely = nearest(path.strip(), list(fields))
    remedy = f"did you mean {likely!r}?" if likely else "see docs/reference/settings.md"
    return Problem(where="--set", message=f"there is no setting '{path.strip()}'", remedy=remedy)


class Request(Protocol):
    """What is laid over a file for one run, in words of its own; flags are stronger."""

    @property
    def strategy(self) -> str:
        """The strategy that it is about."""
        ...

    def put(self, draft: Draft, document: Document) -> None:
        """Lay over the draft of a file what it says."""
        ...


def describe(
    document: Document,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    dialect: Dialect | None = None,
    request: Request | None = None,
) -> RunDescription:
    """The run that a file describes, with flags over it and the environment under it."""
    env = os.environ if environ is None else environ
    chosen = dialect or dialect_of(document)
    document, flags = chosen.with_flags(document, flags)
    strategy = _strategy(document, chosen, flags, env, request)
    doors = Doors(target=target_plugin(chosen.target), strategy=strategy)
    draft = Draft(document.name)
    draft.mark("target", document.place())
    draft.default("target.kind", chosen.target)
    draft.default("strategy.name", strategy.name)
    draft.default("strategy.settings", {})
    draft.put(
        "source",
        {
            "kind": chosen.kind,
            "file": str(document.path.resolve()),
            "folder": str(document.folder),
            "digest": document.digest,
        },
        strength=Strength.DEFAULT,
    )
    problems: list[Problem] = []
    try:
        chosen.translate(document, draft, strategy)
        if request is not None:
            request.put(draft, document)
    except ConfigError as error:
        problems += error.problems
    doors.put_environment(draft, env)
    doors.put_flags(draft, flags)
    data, places, written = _assembled(draft)
    try:
        spec = validated(data, doors.model, places)
    except ConfigError as error:
        every = sorted([*problems, *error.problems], key=_line)
        raise ConfigError(every) from None
    if problems:
        raise ConfigError(problems)
    return RunDescription(spec=spec, places=places, notes=draft.notes(places), written=written)


def _assembled(draft: Draft) -> tuple[dict[str, JsonValue], Places, dict[str, JsonValue]]:
    """What a draft says and where, and how it is written; it says which fields are variables."""
    data, places = draft.assembled()
    written = draft.written()
    if paths := [*variables_in(written, data)]:
        cast("dict[str, JsonValue]", data["source"])["variables"] = [[*path] for path in paths]
    return data, places, written if paths else {}


def _line(problem: Problem) -> int:
    """For putting problems in the order of the file; those of no line come first."""
    place = re.match(r"[^\s:]+:(\d+)\b", problem.where)
    return int(place[1]) if place else 0


def described_again(
    folder: Path, flags: Flags, *, file: Path | None = None, as_new: bool = False
) -> RunDescription:
    """The run as run.json describes it, with newer flags over it.

    `file` is where its project file lies now; `as_new` leaves out what was to happen at its end.
    """
    header = Header.read(folder)
    if not header.project.spec and header.project.kind != "python":
        raise ResumeRefused(
            f"run {header.id} was made by an earlier burnish, which kept no description of it",
            remedy="start it anew; it can still be shown and compared",
        )
    if not header.project.spec:
        raise ResumeRefused(
            f"run {header.id} was started from a Python program",
            remedy=f"run that program again with the folder {folder} to go on",
        )
    stored = {k: v for k, v in header.project.spec.items() if not (as_new and k == "output")}
    return from_stored(stored, flags, source=f"{folder.name}/{HEADER}", file=file)


def from_stored(
    stored: Mapping[str, JsonValue],
    flags: Flags,
    *,
    source: str = "the description",
    file: Path | None = None,
) -> RunDescription:
    """A description that was kept, with flags over it; `file` is where it lies now."""
    data = cast("dict[str, Any]", with_literals(dict(stored)))
    load_dotenv(Path(data["source"]["folder"]), os.environ)
    doors = Doors(
        target=target_plugin(data["target"]["kind"]),
        strategy=strategy_plugin(data["strategy"]["name"]),
    )
    if flags.get(STRATEGY) not in (None, doors.strategy.name):
        message = f"the run is searched with '{doors.strategy.name}'"
        remedy = "to search in another way, name the file too: `burnish optimize FILE --fork RUN`"
        raise ConfigError([Problem(where="--strategy", message=message, remedy=remedy)])
    draft = Draft(source)
    paths, written = data["source"].pop("variables", ()), deepcopy(data)
    _expand(data, paths)
    for name, value in data.items():
        draft.put(name, value, strength=Strength.FILE, written=written[name])
    if file is not None:
        moved = {"file": str(file.resolve()), "folder": str(file.resolve().parent)}
        draft.put("source", {**moved}, strength=Strength.REQUEST)
    doors.put_flags(draft, flags)
    values, places, written = _assembled(draft)
    spec = validated(values, doors.model, places, stored=True)
    return RunDescription(spec=spec, places=places, written=written)


def _expand(data: dict[str, Any], paths: Iterable[Sequence[str]]) -> None:
    """Put the values of variables where the description was kept with `${VAR}`."""
    from burnish.targets.agent.blocks import expanded  # few runs have any

    for *above, last in paths:
        block = data
        for key in above:
            block = block[key]
        block[last] = expanded(block[last], where=".".join((*above, last)))


def _strategy(
    document: Document,
    dialect: Dialect,
    flags: Flags,
    environ: Mapping[str, str],
    request: Request | None,
) -> StrategyPlugin:
    """As a flag, a request, the file or the environment names it, else the usual one."""
    in_file = dialect.strategy_named(document)
    choices = (
        ("--strategy", flags.get(STRATEGY)),
        ("--request", None if request is None else request.strategy),
        (str(document.place(*dialect.strategy_at)), in_file),
        (f"${_STRATEGY}", environ.get(_STRATEGY)),
        ("", dialect.strategy),
    )
    where, name = next((where, value) for where, value in choices if value)
    target = target_plugin(dialect.target)
    message, remedy = f"no strategy '{name}'", ""
    if isinstance(name, str) and name in strategy_names():
        missing = lack(strategy_plugin(name), target.surfaces, target.abilities)
        if not missing:
            return strategy_plugin(name)
        message = f"'{name}' needs {missing}, and a file of kind '{dialect.kind}' has none"
    names = fitting(target.surfaces, target.abilities)
    if likely := nearest(str(name), names):
        remedy = f"did you mean '{likely}'? "
    remedy += f"there are: {', '.join(names)}" if names else target.unsearched
    raise ConfigError([Problem(where=where, message=message, remedy=remedy)])
