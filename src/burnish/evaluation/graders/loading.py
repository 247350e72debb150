"""Finding a grader: `module:callable`, from the folder of the file that names it."""

from pathlib import Path

from burnish.evaluation.graders.known_paths import make_importable
from burnish.system.user_functions import UserFunction, load_function

_REMEDY = "a grader is module.path:callable, importable from the folder of the agent file"
_UPWARDS = 6


def load_grader(reference: str, folder: Path) -> UserFunction:
    """The function that `module:callable` names, with the imports that such graders have.

    A candidate of an agent lies some folders below it: its graders are looked for upwards.
    """
    make_importable()
    home = _home_of(reference.partition(".")[0].partition(":")[0], folder.resolve())
    return load_function(reference, home, what="grader", remedy=_REMEDY)


def _home_of(module: str, folder: Path) -> Path:
    """The nearest folder that has the module; the folder itself where none has."""
    places = (folder, *folder.parents[:_UPWARDS])
    return next((p for p in places if module and _has(p, module)), folder)


def _has(folder: Path, module: str) -> bool:
    return (folder / f"{module}.py").is_file() or (folder / module).is_dir()
