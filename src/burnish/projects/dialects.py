"""File dialects: readers that translate files into the description of a run.

A dialect is a class named in the entry-point group `burnish.projects`. It is mostly a table from
keys to fields of the description. It knows no settings of strategies: blocks named after a
strategy or a role are validated by their own models.
"""

import difflib
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint
from itertools import chain
from pathlib import Path
from typing import ClassVar, TypeAlias, cast

from pydantic import BaseModel, JsonValue

from burnish.core.errors import MOST_PROBLEMS, ConfigError, MoreProblems, Problem
from burnish.models.dotenv import load_dotenv
from burnish.runs.draft import Draft, FilePlace, Places, Strength, validated
from burnish.runs.plugins import StrategyPlugin, strategy_names, strategy_plugin
from burnish.runs.spec import StrategySpec
from burnish.system import YamlTree, read_tree
from burnish.system.config import shown, unknown_key
from burnish.system.settings import SchemaPosition, closed_keys, too_many_keys
from burnish.system.user_code import installed, is_reference
from burnish.system.yaml import TreePath

GROUP = "burnish.projects"
Flags: TypeAlias = Mapping[str, JsonValue]
"""What flags say, by the name of the field; None says nothing."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A file that is being translated into a description."""

    path: Path
    tree: YamlTree

    @classmethod
    def read(cls, path: Path) -> "Document":
        """Read a file, and load the variables of the `.env` next to it.

        `module:name` stands for a file that names this agent and nothing else.
        """
        load_dotenv(path.resolve().parent, os.environ)
        if names_agent(path):
            name = path.name
            data: JsonValue = {"kind": "framework", "name": name, "target": name}
            return cls(path=path, tree=YamlTree(path=Path(name), data=data, text=""))
        return cls(path=path, tree=read_tree(path))

    @classmethod
    def of_flags(cls, folder: Path, data: Mapping[str, JsonValue]) -> "Document":
        """Stands in for a file if flags say everything; paths are relative to a folder."""
        load_dotenv(folder.resolve(), os.environ)
        tree = YamlTree(path=Path("the command line"), data=dict(data), text="")
        return cls(path=folder, tree=tree)

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        path = self.path.resolve()
        return path if path.is_dir() else path.parent

    @property
    def digest(self) -> str:
        text = self.tree.text
        return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""

    @property
    def name(self) -> str:
        return self.tree.path.name

    @property
    def data(self) -> Mapping[str, JsonValue]:
        """The top-level keys; empty if the file contains something else."""
        return self.tree.data if isinstance(self.tree.data, dict) else {}

    def at(self, path: TreePath) -> JsonValue:
        """The value at a place; None where there is none."""
        return value_under(self.tree.data, path)

    def block(self, path: TreePath) -> Mapping[str, JsonValue]:
        """The keys at a place; none where something else stands there."""
        value = self.at(path)
        return value if isinstance(value, dict) else {}

    def place(self, *path: str | int) -> FilePlace:
        return FilePlace(tree=self.tree, keys=path)


def names_agent(path: Path) -> bool:
    """Whether a path is no file but the `module:name` of an agent."""
    return is_reference(path.name) and not path.exists()


def value_under(value: JsonValue, path: TreePath) -> JsonValue:
    """The value at a path in plain data; None where there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


class Dialect:
    """One kind of file."""

    kind: ClassVar[str]
    """What `kind:` says in such a file, and run.json."""
    target: ClassVar[str]
    """The kind of target that such a file is about."""
    strategy: ClassVar[str]
    """How it is searched where nobody says."""
    strategy_at: ClassVar[TreePath] = ("strategy",)
    """Where such a file names its strategy."""
    keys: ClassVar[Mapping[str, str]] = {}
    """The keys of such a file, and the fields of the description that they set. `budget.max_usd` is
    a key in a block; the field `strategy.edits.max_files` is a setting of that strategy, and is
    checked but not used where another one searches."""
    evaluates: ClassVar[bool] = True
    """Whether `burnish eval` measures what such a file is about; else only a search does."""
    confirms: ClassVar[bool] = True
    """Whether a run measures its winner again where nobody says; not in the files of other
    systems, whose budgets mean the search alone."""
    document: ClassVar[type[BaseModel] | None] = None
    """The model of the whole file, if it is more than a table of keys, for its schema."""
    known_by: ClassVar[str] = ""
    """By what such a file is known that does not say its kind, in words."""

    def recognises(self, document: Document) -> bool:
        """Whether a file is of this kind."""
        return document.data.get("kind") == self.kind

    def strategy_named(self, document: Document) -> JsonValue:
        """The strategy that the file names, if any."""
        return document.at(self.strategy_at)

    def usual_strategy(self, document: Document) -> str:
        """How the file is searched where nobody names a strategy."""
        del document
        return self.strategy

    def with_flags(self, document: Document, flags: Flags) -> tuple[Document, Flags]:
        """File and flags, if a flag changes how such a file is read; by default unchanged."""
        return document, flags

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """Say in the draft what the file says."""
        translation = Translation(document, draft, strategy)
        translation.block((), {"kind": "", **self.keys})
        translation.settle()


class Translation:
    """Applies the keys of one file to a draft, and collects unknown keys."""

    def __init__(
        self,
        document: Document,
        draft: Draft,
        strategy: StrategyPlugin,
        *,
        written: Document | None = None,
    ) -> None:
        self.document = document
        self.written = written or document
        """The same with `${VAR}` as written, where variables were expanded."""
        self.draft = draft
        self.strategy = strategy
        self.problems: list[Problem] = []
        self._unused: dict[str, Draft] = {}
        """The settings of strategies that are not chosen."""

    def put(self, field: str | TreePath, path: TreePath) -> None:
        """Lay the value at a place of the file over a field."""
        place, value = self.document.place(*path), self.document.at(path)
        draft, steps = self._home(field)
        written = self.written.at(path)
        draft.put(steps, value, place=place, strength=Strength.FILE, written=written)

    def mark(self, field: str | TreePath, path: TreePath) -> None:
        """Say where in the file a field would stand."""
        draft, steps = self._home(field)
        draft.mark(steps, self.document.place(*path))

    def _home(self, field: str | TreePath) -> tuple[Draft, TreePath]:
        """Where a field belongs: `strategy.NAME.…` are settings of the strategy with that name."""
        steps: TreePath = tuple(field.split(".")) if isinstance(field, str) else field
        if steps[:1] != ("strategy",) or steps[1] in StrategySpec.model_fields:
            return self.draft, steps
        name = str(steps[1])
        if name == self.strategy.name:
            return self.draft, ("strategy", "settings", *steps[2:])
        return self._unused.setdefault(name, Draft(self.document.name)), steps[2:]

    def block(
        self,
        path: TreePath,
        keys: Mapping[str, str],
        *,
        settings: Collection[str] | None = None,
        beside: Sequence[str] = (),
        names: bool = True,
    ) -> None:
        """Lay a mapping of the file over the fields that its keys stand for.

        An empty field is for keys that are read elsewhere. `settings` are further keys that belong
        to the chosen strategy's settings, right in the block: those of another strategy have no
        effect. `known` are keys to name beside; `names` are those of strategies and roles.
        """
        own = settings or ()
        # Errors about what is missing say where it would stand.
        roles = role_names(self.strategy) if names else ()
        fields = [*(("strategy", "settings", key) for key in own), *(("roles", r) for r in roles)]
        for field in fields:
            self.mark(field, (*path, field[-1]))
        value = self.document.at(path)
        if value is None and path:
            return
        if not isinstance(value, dict):
            self.problems.append(self._not_a_mapping(path))
            return
        inner = self._table(path, keys)
        for key in self._keys(path):
            if key in inner:
                continue
            if key in own:
                self.put(("strategy", "settings", key), (*path, key))
            elif names and key in strategy_names():
                self._strategy_block(key, (*path, key))
            elif names and (key in role_names(self.strategy) or key in self._role_names):
                self.put(("roles", key), (*path, key))
            elif settings is None or key not in self._setting_keys:
                named = (*strategy_names(), *self._role_names) if names else ()
                self._unknown((*path, key), (*inner, *beside, *own, *named))

    def _table(self, path: TreePath, keys: Mapping[str, str]) -> tuple[str, ...]:
        """Apply a table of keys, block by block; returns the keys that it names here."""
        blocks: dict[str, dict[str, str]] = {}
        for key, field in keys.items():
            name, _, rest = key.partition(".")
            block = blocks.setdefault(name, {})
            if rest:
                block[rest] = field
            elif field:
                self.mark(field, (*path, name))
                self.put(field, (*path, name))
        for at, block in (((*path, name), block) for name, block in blocks.items() if block):
            names, value = self._table(at, block), self.document.at(at)
            if value is not None and not isinstance(value, dict):
                self.problems.append(self._not_a_mapping(at))
            for key in self._keys(at):
                if key not in names:
                    self._unknown((*at, key), names)
        return tuple(blocks)

    def _keys(self, path: TreePath) -> Iterable[str]:
        """The keys of a block; if it has more than any block, that is the problem with it."""
        block = self.document.block(path)
        if message := too_many_keys(block):
            self.problems.append(Problem(where=str(self.document.place(*path)), message=message))
            return ()
        return block

    @cached_property
    def _role_names(self) -> tuple[str, ...]:
        """The roles that any strategy asks."""
        own = role_names(self.strategy)
        names = (name for each in strategy_names() for name in role_names(strategy_plugin(each)))
        return tuple(dict.fromkeys((*own, *names)))

    @cached_property
    def _setting_keys(self) -> frozenset[str]:
        """The keys of the settings of every strategy that fits several targets."""
        plugins = map(strategy_plugin, strategy_names())
        every = (setting_keys(each.Settings) for each in plugins if not each.over)
        return frozenset(chain.from_iterable(every))

    def settle(self) -> None:
        """Raise all collected problems."""
        for name, draft in self._unused.items():
            self._check(strategy_plugin(name), *draft.assembled())
        if self.problems:
            raise ConfigError(self.problems)

    def _strategy_block(self, name: str, path: TreePath) -> None:
        """The settings of a strategy; those of other strategies are only checked."""
        if name == self.strategy.name:
            self.put("strategy.settings", path)
            return
        value = self.document.at(path)
        if value is not None and not isinstance(value, dict):
            self.problems.append(self._not_a_mapping(path))
        self.mark(("strategy", name), path)
        for key in self.document.block(path):
            self.put(("strategy", name, key), (*path, key))

    def check_settings(
        self, strategy: StrategyPlugin, path: TreePath, settings: Mapping[str, JsonValue]
    ) -> None:
        """Check settings of a strategy that is not chosen; they have no effect."""
        place = self.document.place(*path)
        located: dict[TreePath, FilePlace | str] = {(key,): place.below((key,)) for key in settings}
        self._check(strategy, settings, Places(source=self.document.name, by_path=located))

    def _check(
        self, strategy: StrategyPlugin, settings: Mapping[str, JsonValue], places: Places
    ) -> None:
        try:
            validated(settings, strategy.Settings, places)
        except ConfigError as error:
            self.problems += error.problems

    def _unknown(self, path: TreePath, keys: Sequence[str]) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            self.problems.append(MoreProblems.of(1))
            return
        message, remedy = unknown_key(str(path[-1]), tuple(dict.fromkeys(keys)))
        where = str(self.document.place(*path))
        self.problems.append(Problem(where=where, message=message, remedy=remedy))

    def _not_a_mapping(self, path: TreePath) -> Problem:
        if not path and self.document.at(path) is None:
            return Problem(where=self.document.name, message="the file is empty")
        return Problem(where=str(self.document.place(*path)), message="expected keys with values")


def role_names(strategy: StrategyPlugin) -> tuple[str, ...]:
    """The roles that a strategy uses, and their substitutes."""
    return tuple(
        dict.fromkeys(name for need in strategy.roles for name in (need.name, *need.instead))
    )


def dialect_of(document: Document) -> Dialect:
    """The dialect that a file is written in."""
    if not isinstance(document.tree.data, dict):
        data = document.tree.data
        what = "text" if isinstance(data, str) else shown(data)
        message = f"expected keys with values at the top level, found {what}"
        message = "the file is empty" if data is None else message
        raise ConfigError([Problem(where=document.name, message=message)], remedy=_remedy())
    kind = document.data.get("kind")
    if kind is None:
        dialect = recognised(document)
        if dialect is not None:
            return dialect
        problem = Problem(where=f"{document.name} kind", message="required, but missing")
        raise ConfigError([problem], remedy=_remedy())
    if not isinstance(kind, str):
        message = f"expected text, found {shown(kind)}"
        raise ConfigError([Problem(where=str(document.place("kind")), message=message)])
    return dialect_named(kind, where=str(document.place("kind")))


def dialect_names() -> list[str]:
    """The kinds of files that are installed."""
    return sorted(_points())


def dialect_named(kind: str, *, where: str = "KIND") -> Dialect:
    """A dialect by its kind; errors name `where`."""
    points = _points()
    if kind in points:
        return _loaded(points[kind])
    remedy = likely_of(kind, dialect_names(), all_of="known kinds")
    raise ConfigError([Problem(where=where, message=f"unknown kind '{kind}'", remedy=remedy)])


def likely_of(name: str, names: Collection[str], *, all_of: str = "there are") -> str:
    """The name that was probably meant, and all names."""
    likely = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean '{likely[0]}'? " if likely else ""
    return f"{meant}{all_of}: {', '.join(names) or 'none'}"


def recognised(document: Document) -> Dialect | None:
    """The dialect of a file without a kind, recognised by its keys."""
    return next((each for each in _unnamed() if each.recognises(document)), None)


def _remedy() -> str:
    named = ", ".join(dialect_names())
    ways = "; ".join(f"{each.kind} by {each.known_by}" for each in _unnamed())
    kinds = f"known kinds: {named}; recognised without a kind: {ways}"
    return f"add its kind, such as `kind: prompts`; {kinds}"


def _unnamed() -> Iterator[Dialect]:
    # One after the other: a dialect is loaded only if none before it recognises the file.
    return (each for each in map(_loaded, _points().values()) if each.known_by)


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in installed(GROUP)}


def _loaded(point: EntryPoint) -> Dialect:
    return cast("type[Dialect]", point.load())()


def known_keys(model: type[object]) -> tuple[str, ...]:
    """The keys of a block of settings."""
    return SchemaPosition.of(model).keys


def setting_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a strategy's settings that a file may set."""
    closed = {str(path[0]) for path in closed_keys(dict.fromkeys(known_keys(model)), model)}
    return tuple(key for key in known_keys(model) if key not in closed)
