"""File dialects: readers that translate their own words into the one description of a run.

A dialect is a class named in the entry-point group `burnish.projects`. Most of one is a table from
the keys of its files to the fields of the description. It knows no strategy's settings: what stands
under a strategy's name goes to that strategy's own model, and so does the name of a role.
"""

import difflib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import ClassVar, TypeAlias, cast

from pydantic import BaseModel, JsonValue

from burnish.core.errors import ConfigError, Problem
from burnish.models.keys import load_dotenv
from burnish.runs.draft import Draft, FilePlace, Places, Strength, validated
from burnish.runs.plugins import StrategyPlugin, strategy_names, strategy_plugin
from burnish.runs.spec import StrategySpec
from burnish.system import YamlTree, read_tree
from burnish.system.config_errors import nearest, shown
from burnish.system.settings import SchemaPosition, closed_keys
from burnish.system.yaml import TreePath

GROUP = "burnish.projects"
Flags: TypeAlias = Mapping[str, JsonValue]
"""What flags say, by the name of the field; None says nothing."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A file as it stands, on its way to a description."""

    path: Path
    tree: YamlTree

    @classmethod
    def read(cls, path: Path) -> "Document":
        """Read a file; the variables of the `.env` beside it hold from now on."""
        load_dotenv(path.resolve().parent, os.environ)
        return cls(path=path, tree=read_tree(path))

    @classmethod
    def of_flags(cls, folder: Path, data: Mapping[str, JsonValue]) -> "Document":
        """What stands in for a file where flags say everything; they count from a folder."""
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
        """A hash of the file; empty where flags say everything."""
        text = self.tree.text
        return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.tree.path.name

    @property
    def data(self) -> Mapping[str, JsonValue]:
        """The keys at the top level; none where it holds something else."""
        return self.tree.data if isinstance(self.tree.data, dict) else {}

    def at(self, path: TreePath) -> JsonValue:
        """The value at a place; None where there is none."""
        value: JsonValue = self.tree.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(str(step))
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def block(self, path: TreePath) -> Mapping[str, JsonValue]:
        """The keys at a place; none where something else stands there."""
        value = self.at(path)
        return value if isinstance(value, dict) else {}

    def place(self, *path: str | int) -> FilePlace:
        """A place in it."""
        return FilePlace(tree=self.tree, keys=path)


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
    known_by: ClassVar[str] = ""
    """By what such a file is known that does not say its kind, in words."""

    def recognises(self, document: Document) -> bool:
        """Whether a file is of this kind."""
        return document.data.get("kind") == self.kind

    def strategy_named(self, document: Document) -> JsonValue:
        """The strategy that the file names, if any."""
        return document.at(self.strategy_at)

    def with_flags(self, document: Document, flags: Flags) -> tuple[Document, Flags]:
        """File and flags, where a flag changes how such a file is read; else as they are."""
        return document, flags

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """Say in the draft what the file says."""
        translation = Translation(document, draft, strategy)
        translation.block((), {"kind": "", **self.keys})
        translation.settle()


class Translation:
    """Lays the keys of one file into a draft; keys that nobody knows are gathered."""

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
        self._mark_all(path, own, names=names)
        value = self.document.at(path)
        if value is None and path:
            return
        if not isinstance(value, dict):
            self.problems.append(self._not_a_mapping(path))
            return
        inner = self._table(path, keys)
        for key in value:
            if key in inner:
                continue
            if key in own:
                self.put(("strategy", "settings", key), (*path, key))
            elif names and key in strategy_names():
                self._strategy_block(key, (*path, key))
            elif names and (key in role_names(self.strategy) or key in self.role_names()):
                self.put(("roles", key), (*path, key))
            elif settings is None or not _is_setting(key):
                named = (*strategy_names(), *self.role_names()) if names else ()
                self._unknown((*path, key), (*inner, *beside, *own, *named))

    def _mark_all(self, path: TreePath, settings: Collection[str], *, names: bool) -> None:
        """Where settings and roles would stand, so that errors can say it of what is missing."""
        for key in settings:
            self.mark(("strategy", "settings", key), (*path, key))
        for role in role_names(self.strategy) if names else ():
            self.mark(("roles", role), (*path, role))

    def _table(self, path: TreePath, keys: Mapping[str, str]) -> tuple[str, ...]:
        """Lay what a table names over its fields, block by block; the keys that it names here."""
        blocks: dict[str, dict[str, str]] = {}
        for key, field in keys.items():
            name, _, rest = key.partition(".")
            block = blocks.setdefault(name, {})
            if rest:
                block[rest] = field
            elif field:
                self.mark(field, (*path, name))
                self.put(field, (*path, name))
        for name, block in blocks.items():
            self._inner_block((*path, name), block)
        return tuple(blocks)

    def _inner_block(self, path: TreePath, keys: Mapping[str, str]) -> None:
        if not keys:
            return
        names, value = self._table(path, keys), self.document.at(path)
        if value is not None and not isinstance(value, dict):
            self.problems.append(self._not_a_mapping(path))
        for key in self.document.block(path):
            if key not in names:
                self._unknown((*path, key), names)

    def role_names(self) -> tuple[str, ...]:
        """The roles that any strategy asks."""
        own = role_names(self.strategy)
        names = (name for each in strategy_names() for name in role_names(strategy_plugin(each)))
        return tuple(dict.fromkeys((*own, *names)))

    def settle(self) -> None:
        """Raise everything that was found."""
        for name, draft in self._unused.items():
            data, places = draft.assembled()
            try:
                validated(data, strategy_plugin(name).Settings, places)
            except ConfigError as error:
                self.problems += error.problems
        if self.problems:
            raise ConfigError(self.problems)

    def _strategy_block(self, name: str, path: TreePath) -> None:
        """The settings of a strategy; those of one that is not chosen are only checked."""
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
        """Settings of a strategy that is not chosen: they have no effect, and must be sound."""
        place = self.document.place(*path)
        located: dict[TreePath, FilePlace | str] = {(key,): place.below((key,)) for key in settings}
        try:
            places = Places(source=self.document.name, by_path=located)
            validated(settings, strategy.Settings, places)
        except ConfigError as error:
            self.problems += error.problems

    def _unknown(self, path: TreePath, keys: Sequence[str]) -> None:
        key, names = str(path[-1]), tuple(dict.fromkeys(keys))
        likely = nearest(key, names)
        remedy = f"did you mean {likely!r}?" if likely else f"known keys: {', '.join(names)}"
        where = str(self.document.place(*path))
        self.problems.append(Problem(where=where, message=f"unknown key {key!r}", remedy=remedy))

    def _not_a_mapping(self, path: TreePath) -> Problem:
        if not path and self.document.at(path) is None:
            return Problem(where=self.document.name, message="it is empty")
        return Problem(where=str(self.document.place(*path)), message="expected keys with values")


def role_names(strategy: StrategyPlugin) -> tuple[str, ...]:
    """The roles that a strategy asks, and those that stand in for them."""
    return tuple(
        dict.fromkeys(name for need in strategy.roles for name in (need.name, *need.instead))
    )


def dialect_of(document: Document) -> Dialect:
    """The dialect that a file is written in."""
    if not isinstance(document.tree.data, dict):
        data = document.tree.data
        what = "text" if isinstance(data, str) else shown(data)
        message = f"expected keys with values at the top level, found {what}"
        message = "it is empty" if data is None else message
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


def dialect_named(kind: str, *, where: str = "KIND") -> Dialect:
    """A dialect by its kind; `where` is what to name when there is none."""
    points = _points()
    if kind in points:
        return _loaded(points[kind])
    likely = difflib.get_close_matches(kind, list(points), n=1)
    meant = f"did you mean '{likely[0]}'? " if likely else ""
    remedy = f"{meant}known kinds: {', '.join(sorted(points))}"
    raise ConfigError([Problem(where=where, message=f"unknown kind '{kind}'", remedy=remedy)])


def recognised(document: Document) -> Dialect | None:
    """The dialect of a file that does not say its kind, if it is known by its keys."""
    return next((each for each in _unnamed() if each.recognises(document)), None)


def _remedy() -> str:
    named = ", ".join(sorted(_points()))
    ways = "; ".join(f"{each.kind} by {each.known_by}" for each in _unnamed() if each.known_by)
    return f"say what it is, such as `kind: prompts`; known kinds: {named}; known without: {ways}"


def _unnamed() -> Iterator[Dialect]:
    """The dialects whose files need not say their kind."""
    for point in _points().values():
        dialect = _loaded(point)
        if dialect.known_by:
            yield dialect


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(point: EntryPoint) -> Dialect:
    return cast("type[Dialect]", point.load())()


def known_keys(model: type[object]) -> tuple[str, ...]:
    """The keys that a block of settings knows."""
    return SchemaPosition.of(model).keys


def setting_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a strategy's settings that a file may set."""
    closed = {str(path[0]) for path in closed_keys(dict.fromkeys(known_keys(model)), model)}
    return tuple(key for key in known_keys(model) if key not in closed)


def _is_setting(key: str) -> bool:
    """Whether a key is a setting of any strategy that files may name."""
    plugins = map(strategy_plugin, strategy_names())
    return any(key in setting_keys(each.Settings) for each in plugins if not each.over)
