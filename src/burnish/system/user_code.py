"""What users write to be run: functions by `module:function`, and regular expressions.

Python's own `re` cannot be interrupted: `(a+)+$` on a line of 50 letters takes longer than anyone
waits. So a pattern must be valid for `re`, and the library `regex` (its VERSION0, which follows
`re`) searches with it.
"""

import hashlib
import importlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

from burnish.core.errors import ConfigError

# -- Functions by `module:function`, relative to the file that names them --------------------------


_REFERENCE = re.compile(r"[\w.]+:\w+")
_IMPORTING = threading.Lock()
"""Held while the import path is that of one folder."""


class _ProjectFolder(str):
    """A folder on the import path that a file's functions were loaded from."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class UserFunction:
    """A user's function, and a hash of its file."""

    reference: str
    function: Callable[..., Any]
    fingerprint: str

    @property
    def name(self) -> str:
        return self.reference.partition(":")[2]


def is_reference(text: str) -> bool:
    """Whether a text has the form `module.path:function`."""
    return _REFERENCE.fullmatch(text) is not None


def load_function(reference: str, folder: Path, *, what: str, remedy: str) -> UserFunction:
    """The function that `module:function` names; the folder remains on the import path.

    `what` and `remedy` are for the error: what the function is used for, and how to name it.
    """
    function, file = load_object(reference, folder, what=what, remedy=remedy)
    if not callable(function):
        module_name, _, name = reference.partition(":")
        message = f"{module_name} has no function '{name}'"
        raise ConfigError.of(f"{what} {reference}", message, remedy)
    return UserFunction(reference=reference, function=function, fingerprint=file_fingerprint(file))


def load_object(
    reference: str, folder: Path, *, what: str, remedy: str
) -> tuple[object, str | None]:
    """What `module:name` names, None if there is no such name, and the file of its module."""

    def wrong(message: str, other_remedy: str = "") -> ConfigError:
        return ConfigError.of(f"{what} {reference}", message, other_remedy or remedy)

    if not is_reference(reference):
        raise wrong("not of the form module.path:callable")
    module_name, _, name = reference.partition(":")
    home = str(folder.resolve())
    if _is_program(reference, home):
        raise wrong("this is a program or an internal function of Python, not a function to call")
    try:
        with _only_folder(home), leaving_no_bytecode():
            _forget_namesakes(module_name, home)
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        message = f"importing it raised {type(error).__name__}: {error}"
        raise wrong(message, _installing(error, module_name)) from error
    return getattr(module, name, None), module.__file__


def _installing(error: BaseException, module_name: str) -> str:
    """What to do if a module imports a package that is not installed; empty for another error."""
    absent = error.name if isinstance(error, ModuleNotFoundError) else None
    root = (absent or "").partition(".")[0]
    if not root or root == module_name.partition(".")[0]:
        return ""
    return f"install the package that has the module '{root}' in the environment of burnish"


def function_name(function: Any) -> str:
    """The name of a function, of what a partial one calls, or of an object's class."""
    while isinstance(function, partial):
        function = cast("Any", function).func
    return str(getattr(function, "__name__", type(function).__name__))


def is_standard(reference: str) -> bool:
    """Whether a reference names a module of the standard library."""
    return reference.partition(":")[0].partition(".")[0] in sys.stdlib_module_names


def _is_program(reference: str, home: str) -> bool:
    """Whether a reference names what ends this process: a `__main__`, or internals of Python."""
    module, _, function = reference.partition(":")
    top, *inner = module.split(".")
    own = PathFinder.find_spec(top, [home]) is not None
    return "__main__" in inner or (is_standard(reference) and not own and function.startswith("_"))


def file_fingerprint(file: str | None) -> str:
    """A hash of a source file; empty if there is none."""
    if not file or not Path(file).is_file():
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


@contextmanager
def _only_folder(home: str) -> Generator[None, None, None]:
    """Import from a folder and from what is installed, but not from the folders of other files.

    The folder remains on the import path, as the first of them. The list is replaced and not
    changed: another thread that imports goes through the one it began with, and skips nothing.
    """
    with _IMPORTING:
        others = [each for each in sys.path if isinstance(each, _ProjectFolder) and each != home]
        # Another part of the program may have added the folder itself.
        usual = [each for each in sys.path if each not in (home, *others)]
        sys.path = [_ProjectFolder(home), *usual]
        try:
            yield
        finally:
            sys.path = [*sys.path[:1], *others, *sys.path[1:]]


def _forget_namesakes(module: str, home: str) -> None:
    """Unload what only has the same name: a module of another folder, or of a file that is gone."""
    importlib.invalidate_caches()
    top = module.partition(".")[0]
    spec, loaded = PathFinder.find_spec(top, [home]), sys.modules.get(top)
    is_other = loaded is not None and (
        _is_gone(loaded) if spec is None else _places(loaded.__spec__) != _places(spec)
    )
    stale = top if is_other else module
    if is_other or _is_gone(sys.modules.get(module)):
        for name in [n for n in sys.modules if n == stale or n.startswith(f"{stale}.")]:
            del sys.modules[name]


def _is_gone(module: ModuleType | None) -> bool:
    """Whether a loaded module could not be imported again: no file, or that of another project."""
    spec = None if module is None else module.__spec__
    if spec is None or not (spec.has_location or spec.submodule_search_locations):
        return False
    top = spec.name.partition(".")[0]
    is_importable = any(finder.find_spec(top, None) for finder in sys.meta_path)
    return not (is_importable and any(map(os.path.exists, _places(spec))))


def _places(spec: Any) -> list[str]:
    if spec is None:
        return []
    return [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())


@contextmanager
def leaving_no_bytecode() -> Generator[None, None, None]:
    """Import a user's module without leaving a `__pycache__` in the user's folder."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


# -- What the installed distributions offer --------------------------------------------------------


def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group."""
    return _scan(tuple((place, _changed(place)) for place in sys.path)).get(group, ())


def _changed(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _scan(places: tuple[tuple[str, int], ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Reads the metadata of every distribution, so once per installation, for all our groups."""
    del places  # they tell installations apart
    points = entry_points()
    ours = (group for group in points.groups if group.startswith("burnish."))
    return {group: tuple(points.select(group=group)) for group in ours}


# -- Regular expressions, with limits on their time and size ---------------------------------------


_SECONDS = 1.0
"""Of the processor, for one search."""
_LONGEST = 10_000
"""Characters of a pattern."""
_MOST_REPEATS = 10_000
"""Of a count such as `{3,10}`, and of all copies that nested ones make: the library writes them
out in memory."""
_TOKEN = re.compile(
    r"(?P<escape>\\N\{[^}]*\}|\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|\{(?P<least>\d*),?(?P<most>\d*)\}|(?P<other>.)",
    re.DOTALL,
)
_BRACE = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!\d*,?\d*\})", re.DOTALL)

_Compiled: TypeAlias = Any


class BadPattern(ValueError):
    """A text is not a regular expression, or one that is too large."""


class SlowPattern(Exception):
    """A search took too long; the fault of the pattern, not of the text."""


def search(pattern: str, text: str, *, fold: bool = False, lines: bool = False) -> bool:
    """Whether the pattern is somewhere in the text; `lines` lets ^ and $ match at each line.

    Raises BadPattern and SlowPattern.
    """
    return _within_time(_compiled(pattern, fold, lines).search, pattern, text) is not None


def matches_whole(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text. Raises BadPattern and SlowPattern."""
    matched = _within_time(_compiled(pattern, False, False).fullmatch, pattern, text)  # noqa: FBT003
    return matched is not None


def replace_all(pattern: str, by: str, text: str) -> tuple[str, int]:
    """The text with every match replaced, and their number. Raises BadPattern and SlowPattern."""
    found = 0

    def replaced(match: _Compiled) -> str:
        nonlocal found
        found += bool(match[0])
        return by if match[0] else ""

    compiled = _compiled(pattern, False, False)  # noqa: FBT003
    clean = _within_time(partial(compiled.sub, replaced), pattern, text)
    return clean, found


def require_pattern(pattern: str) -> str:
    """The pattern if it can be used; raises BadPattern."""
    _compiled(pattern, False, False)  # noqa: FBT003
    return pattern


def _within_time(look: _Compiled, pattern: str, text: str) -> Any:
    try:
        return look(text, timeout=_SECONDS)
    except TimeoutError:
        shown = pattern if len(pattern) <= 60 else f"{pattern[:60]}…"
        raise SlowPattern(
            f"the pattern {shown!r} took more than {_SECONDS:g} s on a text of {len(text):,} "
            "characters: rewrite it without repeats inside repeats, such as (a+)+"
        ) from None


@lru_cache(maxsize=256)
def _compiled(pattern: str, fold: bool, lines: bool) -> _Compiled:  # noqa: FBT001
    import regex

    if len(pattern) > _LONGEST:
        raise BadPattern(f"it has more than {_LONGEST:,} characters")
    try:
        with warnings.catch_warnings():
            # What `re` will read differently one day is no news to a user.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
        if _copies(pattern) > _MOST_REPEATS:
            raise BadPattern(f"its counts repeat something more than {_MOST_REPEATS:,} times")
        flags = regex.VERSION0 | (regex.IGNORECASE if fold else 0) | (regex.M if lines else 0)
        return cast("_Compiled", regex.compile(_as_re_reads(pattern), flags))
    except RecursionError:
        raise BadPattern("it is nested too deeply") from None
    except (re.error, regex.error, OverflowError) as error:
        raise BadPattern(str(error)) from None


def _as_re_reads(pattern: str) -> str:
    """The pattern without what only `regex` knows: `{e<=1}` would let it match with mistakes."""
    return _BRACE.sub(lambda match: r"\{" if match[0] == "{" else match[0], pattern)


def _copies(pattern: str) -> int:
    """How many single matches the counts of a pattern stand for, or the largest count."""
    open_groups, last, largest = [0], 0, 0
    for token in _TOKEN.finditer(pattern):
        if token["other"] == "(":
            open_groups.append(0)
            last = 0
        elif token["other"] == ")" and len(open_groups) > 1:
            last = max(1, open_groups.pop())
            open_groups[-1] += last
        elif token["least"] is not None and (token["least"] or token["most"]):
            least = int(token["least"] or 0)
            largest = max(largest, least, int(token["most"] or 0))
            open_groups[-1] += last * max(0, least - 1)
            last *= max(1, least)
        else:
            open_groups[-1] += 1
            last = 1
    return max(largest, sum(open_groups) if largest else 0)
