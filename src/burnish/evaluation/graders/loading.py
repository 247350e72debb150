"""Finding a grader: `module:callable`, from the folder of the file that names it."""

from pathlib import Path

from burnish.evaluation.graders.known_paths import make_importable
from burnish.system.importing import UserFunction, load_function

_REMEDY = "a grader is module.path:callable, importable from the folder of the agent file"


def load_grader(reference: str, folder: Path) -> UserFunction:
    """The function that `module:callable` names, with the imports that such graders have."""
    make_importable()
    return load_function(reference, folder, what="grader", remedy=_REMEDY)
