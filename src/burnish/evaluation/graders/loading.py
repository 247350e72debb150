"""Finding a grader: `module:callable`, from the folder of the file that names it."""

import hashlib
import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.graders.known_paths import make_importable

_REFERENCE = re.compile(r"[\w.]+:\w+")


@dataclass(frozen=True, kw_only=True)
class Grader:
    """A user's function, and a hash of the file it stands in."""

    reference: str
    function: Callable[..., Any]
    fingerprint: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.reference.partition(":")[2]


def load_grader(reference: str, folder: Path) -> Grader:
    """The function that `module:callable` names. The folder goes on the import path for good."""
    if not _REFERENCE.fullmatch(reference):
        raise _wrong(reference, "not of the form module.path:callable")
    module_name, _, function_name = reference.partition(":")
    make_importable()
    home = str(folder.resolve())
    if home not in sys.path:
        sys.path.insert(0, home)
    _forget_namesakes(module_name.partition(".")[0], home)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise _wrong(reference, f"importing it raised {type(error).__name__}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        message = f"{module_name} has no function '{function_name}'"
        raise _wrong(reference, message)
    return Grader(reference=reference, function=function, fingerprint=_fingerprint(module.__file__))


def _forget_namesakes(top: str, home: str) -> None:
    """Two projects may each have a module `graders`: the one in this folder is meant."""
    importlib.invalidate_caches()
    found, known = PathFinder.find_spec(top, [home]), sys.modules.get(top)
    if found is None or known is None or _origin(known) == _places(found):
        return
    for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
        del sys.modules[name]


def _origin(module: Any) -> list[str]:
    return _places(module.__spec__) if module.__spec__ is not None else []


def _places(spec: Any) -> list[str]:
    return [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())


def _fingerprint(file: str | None) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else ""


def _wrong(reference: str, message: str) -> ConfigError:
    remedy = "a grader is module.path:callable, importable from the folder of the agent file"
    return ConfigError([Problem(where=f"grader {reference}", message=message, remedy=remedy)])
