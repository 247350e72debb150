"""Finding a user's function: `module:function`, from the folder of the file that names it."""

import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError, Problem

_REFERENCE = re.compile(r"[\w.]+:\w+")


@dataclass(frozen=True, kw_only=True)
class UserFunction:
    """A user's function, and a hash of the file it stands in."""

    reference: str
    function: Callable[..., Any]
    fingerprint: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.reference.partition(":")[2]


def is_reference(text: str) -> bool:
    """Whether a text has the form `module.path:function`."""
    return _REFERENCE.fullmatch(text) is not None


def load_function(reference: str, folder: Path, *, what: str, remedy: str) -> UserFunction:
    """The function that `module:function` names. The folder goes on the import path for good.

    `what` and `remedy` are for the error: what such a function is here, and how it is named.
    """

    def wrong(message: str) -> ConfigError:
        return ConfigError([Problem(where=f"{what} {reference}", message=message, remedy=remedy)])

    if not is_reference(reference):
        raise wrong("not of the form module.path:callable")
    module_name, _, function_name = reference.partition(":")
    home = str(folder.resolve())
    if home not in sys.path:
        sys.path.insert(0, home)
    _forget_namesakes(module_name.partition(".")[0], home)
    try:
        with leaving_no_bytecode():
            module = importlib.import_module(module_name)
    except Exception as error:
        raise wrong(f"importing it raised {type(error).__name__}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise wrong(f"{module_name} has no function '{function_name}'")
    return UserFunction(
        reference=reference, function=function, fingerprint=file_fingerprint(module.__file__)
    )


def file_fingerprint(file: str | None) -> str:
    """A hash of a source file; empty where there is none."""
    if not file or not Path(file).is_file():
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def _forget_namesakes(top: str, home: str) -> None:
    """Two projects may each have a module `graders`: the one in this folder is meant."""
    importlib.invalidate_caches()
    spec, loaded = PathFinder.find_spec(top, [home]), sys.modules.get(top)
    if spec is None or loaded is None or _origin(loaded) == _places(spec):
        return
    for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
        del sys.modules[name]


def _origin(module: Any) -> list[str]:
    return _places(module.__spec__) if module.__spec__ is not None else []


def _places(spec: Any) -> list[str]:
    return [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())


@contextmanager
def leaving_no_bytecode() -> Generator[None, None, None]:
    """Import a user's module without leaving a `__pycache__` in the user's folder."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
