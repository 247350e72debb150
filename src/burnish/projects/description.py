"""Describing a run: a file, the environment and flags or HTTP settings become one RunSpec.

`Doors` are the fields that can be set outside a file, for one target and one strategy. What they
do not include is rejected with the reason.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import JsonValue

from burnish.core.content import from_json
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    JournalTrouble,
    Problem,
    first_problems,
)
from burnish.core.formatting import alternatives
from burnish.models.dotenv import ignored_in, load_dotenv
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
from burnish.system.config import nearest, shown
from burnish.system.removed import way_out
from burnish.system.settings import Access, Door, SettingField, plain_type, setting_fields
from burnish.system.user_code import installed
from burnish.system.yaml import TreePath

STRATEGY = "strategy"
_STRATEGY = "BURNISH_STRATEGY"
SET = "set"
"""Where flags keep what `--set path=value` says."""


@dataclass(frozen=True, kw_only=True)
class Doors:
    """The fields of a run that can be set outside its file."""

    target: TargetPlugin
    strategy: StrategyPlugin

    @classmethod
    def of(cls, target: str, strategy: str) -> "Doors":
        """Those of a kind of target and a strategy."""
        return cls(target=target_plugin(target), strategy=strategy_plugin(strategy))

    @classmethod
    def of_any_run(cls) -> "Doors":
        """The fields that every run has."""
        return cls(target=TargetPlugin(), strategy=StrategyPlugin())

    @property
    def model(self) -> type[RunSpec[Any, Any]]:
        return spec_type(self.target.Spec, self.strategy.Settings)

    def fields(self) -> Iterator[SettingField]:
        """Every field that such a run uses, including the models of roles."""
        useless = "measurements" if self.strategy.proposes else "searches"
        for setting in _setting_fields(self.model):
            is_for_cases = setting.path[0] in ("data", "metrics")
            has_use = not self.strategy.over or setting.path[0] in ("target", "strategy")
            if setting.door.runs == useless or not has_use:
                continue
            if self.target.takes_cases or not is_for_cases:
                yield setting
        yield from role_fields(self.strategy)

    def named(self) -> dict[str, SettingField]:
        """The fields that have a flag, by its name."""
        return {field.name: field for field in self.fields() if field.name}

    def has(self, flag: str) -> bool:
        """Whether there is such a flag, as spelled on the command line."""
        return any(flag in field.flags for field in self.named().values())

    def put_flags(self, draft: Draft, flags: Flags) -> None:
        """Apply flags to the draft."""
        fields = self.named()
        settings = {k: v for k, v in flags.items() if v is not None and k != SET}
        if useless := [name for name in settings if name not in fields]:
            raise ConfigError(first_problems(useless, lambda name: self.useless(_flag(name), name)))
        for name, value in settings.items():
            field = fields[name]
            self.put(draft, field, value, place=field.flag, strength=Strength.FLAG)
        self._put_assignments(draft, cast("Sequence[str]", flags.get(SET) or ()))

    def put(
        self, draft: Draft, field: SettingField, value: JsonValue, *, place: str, strength: Strength
    ) -> None:
        """Apply the value of a flag, or of a client's setting, to the draft."""
        for path, patch in _patches(field, self.target.flag_value(field.name, value)):
            draft.put(path, patch, place=place, strength=strength)
        for other in field.door.replaces:
            draft.silence(".".join((*field.path[:-1], other)), strength=strength)

    def put_environment(self, draft: Draft, environ: Mapping[str, str]) -> None:
        """Apply the environment, which the file overrides."""
        for setting in self.named().values():
            value = environ.get(setting.variable)
            if value and setting.door.environment:
                place = f"${setting.variable}"
                draft.put(setting.path, value, place=place, strength=Strength.ENVIRONMENT)

    def assignable(self) -> dict[str, SettingField]:
        """By path, every field that `--set` may set; a strategy's settings by name too."""
        fields = {".".join(each.path): each for each in self.fields() if _is_assignable(each)}
        own = "strategy.settings."
        short = {n.removeprefix(own): each for n, each in fields.items() if n.startswith(own)}
        return {**short, **fields}

    def _put_assignments(self, draft: Draft, assignments: Sequence[str]) -> None:
        """`--set budget.max_trials=5`: any field that the command line may set."""
        fields = self.assignable()
        for assignment in assignments:
            path, equals, text = assignment.partition("=")
            path = path.strip()
            field = fields.get(path)
            if not equals:
                message = f"{shown(assignment)} does not have the form path=value"
                raise ConfigError([Problem(where="--set", message=message)])
            if field is None:
                likely, gone = nearest(path, list(fields)), way_out(path)
                remedy = f"did you mean {likely!r}?" if likely else "see docs/reference/settings.md"
                message = f"{path!r} no longer exists" if gone else f"there is no setting '{path}'"
                remedy = gone or remedy
                raise ConfigError([Problem(where="--set", message=message, remedy=remedy)])
            value: JsonValue = text
            with suppress(ValueError):
                value = from_json(text)
            place = f"--set {'.'.join(field.path)}"
            draft.put(field.path, value, place=place, strength=Strength.FLAG)

    def useless(self, where: str, name: str) -> Problem:
        """The problem of a setting that such a run does not have."""
        flag = _flag(name)
        searching = replace(self, strategy=StrategyPlugin())
        is_for_searches = not self.strategy.proposes and searching.has(flag)
        owners = ["a run that searches"] if is_for_searches else owners_of(flag)
        about = f"'{self.strategy.name}' over '{self.target.kind}' does not use it"
        remedy = f"remove it: it is for {' or '.join(owners)}" if owners else "remove it"
        return Problem(where=where, message=about, remedy=remedy)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def doors_of(paths: Iterable[Path], strategy: str | None = None) -> Doors | None:
    """The doors of the first of these files that describes a run."""
    for path in paths:
        try:
            document = Document.read(path)
            dialect = dialect_of(document)
            name = strategy or dialect.strategy_named(document) or os.environ.get(_STRATEGY)
            usual = dialect.usual_strategy(document)
            named = str(name) if name in strategy_names() else usual
            return Doors.of(dialect.target, named)
        except BurnishError:
            continue  # what is wrong with it is said when it is described
    return None


def doors_of_run(folder: Path) -> Doors | None:
    """The doors of a resumed run; None if a program described it."""
    spec = Header.read(folder).project.spec
    return stored_doors(spec, source=f"{folder.name}/{HEADER}") if spec else None


def stored_doors(spec: Mapping[str, Any], *, source: str) -> Doors:
    match spec:
        case {"target": {"kind": str(kind)}, "strategy": {"name": str(name)}, "source": {}}:
            return Doors.of(kind, name)
        case _:
            raise _damaged(source)


def _damaged(source: str) -> JournalTrouble:
    remedy = "restore it from a backup, or start a new run"
    return JournalTrouble(f"the description of the run in {source} is damaged", remedy=remedy)


@cache
def _setting_fields(model: type[RunSpec[Any, Any]]) -> tuple[SettingField, ...]:
    return tuple(setting_fields(model))


def all_doors() -> Iterator[Doors]:
    """The doors of every possible search: every strategy, and every target.

    A strategy for one kind of target has its own command, and so has that target.
    """
    anything = Doors.of_any_run()
    yield anything
    apart: set[str] = set()
    for name in strategy_names():
        plugin = strategy_plugin(name)
        apart |= {*plugin.over}
        if plugin.proposes and not plugin.over:
            yield replace(anything, strategy=plugin)
    for point in installed(TARGETS):
        if point.name not in apart:
            yield replace(anything, target=target_plugin(point.name))


def owners_of(flag: str) -> list[str]:
    """The strategies and targets that have a flag, as words."""
    every = list(all_doors())
    if Doors.of_any_run().has(flag) and all(
        doors.has(flag) for doors in every if doors.target.kind
    ):
        return ["a run that searches"]
    strategies, targets = _names_with(flag, every)
    owners = (("the strategy", strategies), ("a target of the kind", targets))
    return [
        f"{words} {alternatives([repr(name) for name in names])}"
        for words, names in owners
        if names
    ]


def only_strategy_with(flag: str, target: TargetPlugin) -> str:
    """The strategy that alone has a flag, if it fits a target; "" if there is no such one."""
    strategies, targets = _names_with(flag, all_doors())
    fits = fitting(target.surfaces, target.abilities)
    return strategies[0] if len(strategies) == 1 and not targets and strategies[0] in fits else ""


def _names_with(flag: str, every: Iterable[Doors]) -> tuple[list[str], list[str]]:
    """The strategies and the kinds of targets that have a flag."""
    strategies, targets = list[str](), list[str]()
    is_shared = Doors.of_any_run().has(flag)
    for doors in every:
        if not doors.has(flag):
            continue
        if doors.target.kind:
            targets.append(doors.target.kind)
        elif not is_shared:
            strategies.append(doors.strategy.name)
    return strategies, targets


def role_fields(strategy: StrategyPlugin) -> Iterator[SettingField]:
    """The models of roles as fields: `--reflector MODEL`."""
    info = RunSpec.model_fields["roles"]
    needs = {need.name: need for need in strategy.roles}
    for name in role_names(strategy):
        need = needs.get(name)
        panel, text = ("The search", "") if need is None else (need.panel, need.help)
        door = Door(flag=name, metavar="MODEL", panel=panel, http=Access.MODEL)
        path = ("roles", name)
        yield SettingField(path=path, owner=RunSpec, info=info, door=door, name=name, text=text)


def _patches(field: SettingField, value: JsonValue) -> Iterator[tuple[TreePath, JsonValue]]:
    """The field values that a flag sets; a mapping adds to that of the file."""
    inner = plain_type(field.info.annotation)
    if isinstance(value, Mapping) and getattr(inner, "__origin__", None) is dict:
        for key, item in value.items():
            yield (*field.path, key), item
    elif field.switches_off:
        yield field.path, not value
    else:
        yield field.path, value


def _is_assignable(field: SettingField) -> bool:
    """Whether `--set` may set it: neither the source of the run nor what decides other fields."""
    decides = ("target", "kind"), ("strategy", "name")
    return field.door.file and field.path[0] != "source" and field.path not in decides


class Request(Protocol):
    """Changes to a file for one run, in another format; flags override them."""

    @property
    def strategy(self) -> str: ...

    def put(self, draft: Draft, document: Document, doors: Doors) -> None:
        """Lay over the draft of file and environment what it says."""
        ...


def describe(
    document: Document,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    dialect: Dialect | None = None,
    request: Request | None = None,
) -> RunDescription:
    """The run of a file; flags override the file, and the file overrides the environment."""
    env = os.environ if environ is None else environ
    chosen = dialect or dialect_of(document)
    # A measurement is no choice: its strategy is named by the command.
    named = [("strategy", "name")] if flags.get(STRATEGY) is not None else []
    document, flags = chosen.with_flags(document, flags)
    strategy = _strategy(document, chosen, flags, env, request)
    doors = Doors(target=target_plugin(chosen.target), strategy=strategy)
    draft = Draft(document.name)
    draft.mark("target", document.place())
    draft.default("target.kind", chosen.target)
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
    if not chosen.confirms:
        draft.default("execution.confirm", False)  # noqa: FBT003 - a value, not a switch
    problems: tuple[Problem, ...] = ()
    try:
        doors.put_environment(draft, env)
        chosen.translate(document, draft, strategy)
        if request is not None:
            request.put(draft, document, doors)
    except ConfigError as error:
        problems = error.problems
    doors.put_flags(draft, flags)
    overridden = [*draft.overridden(), *named]
    # Last: the file may name another one, as it does where it is measured instead of searched.
    draft.put("strategy.name", strategy.name, strength=Strength.FLAG)
    data, places, written = _assembled(draft)
    source = cast("dict[str, JsonValue]", data["source"])
    source["overridden"] = [[*map(str, path)] for path in overridden]
    if environment := draft.from_environment(places):
        source["environment"] = [[*map(str, path)] for path in environment]
    try:
        spec = validated(data, doors.model, places)
    except ConfigError as error:
        every = sorted([*problems, *error.problems], key=_line)
        raise ConfigError(every) from None
    if problems:
        raise ConfigError(problems)
    notes = (*draft.notes(places), *filter(None, [ignored_in(document.folder)]))
    return RunDescription(spec=spec, places=places, notes=notes, written=written)


def _assembled(draft: Draft) -> tuple[dict[str, JsonValue], Places, dict[str, JsonValue]]:
    """The values of a draft, their places, and how they were written if they have variables."""
    data, places = draft.assembled()
    written = draft.written()
    if paths := [*variables_in(written, data)]:
        cast("dict[str, JsonValue]", data["source"])["variables"] = [[*path] for path in paths]
    return data, places, written if paths else {}


def _line(problem: Problem) -> int:
    """Sorts problems by line; those without a line come first."""
    place = re.match(r"[^\s:]+:(\d+)\b", problem.where)
    return int(place[1]) if place else 0


def from_stored(
    stored: Mapping[str, JsonValue],
    flags: Flags,
    *,
    source: str = "the description",
    file: Path | None = None,
) -> RunDescription:
    """A stored description, changed by flags; `file` is its new location."""
    data = cast("dict[str, Any]", with_literals(dict(stored)))
    doors = stored_doors(data, source=source)
    if not isinstance(folder := data["source"].get("folder"), str):
        raise _damaged(source)
    load_dotenv(Path(folder), os.environ)
    if flags.get(STRATEGY) not in (None, doors.strategy.name):
        message = f"the run uses the strategy '{doors.strategy.name}'"
        remedy = "to use another strategy, name the file too: `burnish optimize FILE --fork RUN`"
        raise ConfigError([Problem(where="--strategy", message=message, remedy=remedy)])
    draft = Draft(source)
    paths, written = data["source"].pop("variables", ()), deepcopy(data)
    try:
        _expand(data, paths)
    except (LookupError, TypeError, ValueError) as error:
        raise _damaged(source) from error
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
    from burnish.targets.agent.blocks import expanded  # few runs have any

    for *above, last in paths:
        block = reduce(getitem, above, data)
        block[last] = expanded(block[last], where=".".join((*above, last)))


def _strategy(
    document: Document,
    dialect: Dialect,
    flags: Flags,
    environ: Mapping[str, str],
    request: Request | None,
) -> StrategyPlugin:
    """As named by a flag, a request, the file or the environment; otherwise the usual one."""
    in_file = dialect.strategy_named(document)
    choices = (
        ("--strategy", flags.get(STRATEGY)),
        ("--request", None if request is None else request.strategy),
        (str(document.place(*dialect.strategy_at)), in_file),
        (f"${_STRATEGY}", environ.get(_STRATEGY)),
        ("", dialect.usual_strategy(document)),
    )
    where, name = next((where, value) for where, value in choices if value)
    target = target_plugin(dialect.target)
    message, remedy = f"no strategy '{name}'", ""
    if isinstance(name, str) and name in strategy_names():
        missing = lack(strategy_plugin(name), target.surfaces, target.abilities)
        if not missing:
            return strategy_plugin(name)
        message = f"'{name}' needs {missing}, but a file of kind '{dialect.kind}' has none"
    names = fitting(target.surfaces, target.abilities)
    if likely := nearest(str(name), names):
        remedy = f"did you mean '{likely}'? "
    remedy += f"there are: {', '.join(names)}" if names else target.unsearched
    raise ConfigError([Problem(where=where, message=message, remedy=remedy)])
