"""Configuration files as pydantic models, with everything that is wrong said at once."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel, RootModel, ValidationError

from burnish.core.errors import ConfigError, Problem
from burnish.system.config_errors import faults_in, problems_of, shown
from burnish.system.settings import SchemaPosition
from burnish.system.yaml import YamlTree, read_tree

M = TypeVar("M", bound=BaseModel)

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def load_config(path: Path, model: type[M]) -> M:
    """Read a YAML or JSON file into `model`, or raise one ConfigError with every problem."""
    tree = read_tree(path)
    return validate_config(tree.data, model, source=path.name, tree=tree)


def validate_config(
    data: object, model: type[M], *, source: str, tree: YamlTree | None = None
) -> M:
    """Make `data` a `model`; `source` and `tree` tell where each problem stands."""
    if not isinstance(data, Mapping) and not _is_root_model(model):
        raise ConfigError([_not_a_mapping(data, model, source)])
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = faults_in(error, cast("object", data), model)
    # Raised out here, since pydantic's error would bring the input along, secrets included.
    raise ConfigError(problems_of(faults, source=source, tree=tree))


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """The text with each `${NAME}` replaced by that variable's value."""
    names = dict.fromkeys(variables_in(text))
    missing = [name for name in names if name not in environ]
    if missing:
        raise ConfigError([_not_set(name) for name in missing])
    return _VARIABLE.sub(lambda match: environ[match[1]], text)


def variables_in(text: str) -> list[str]:
    """The names that `expand_variables` would replace in a text."""
    return _VARIABLE.findall(text)


def _is_root_model(model: type[BaseModel]) -> bool:
    return issubclass(model, RootModel)


def _not_set(name: str) -> Problem:
    remedy = f"set it before you start: export {name}=…"
    return Problem(message=f"the environment variable {name} is not set", remedy=remedy)


def _not_a_mapping(data: object, model: type[BaseModel], source: str) -> Problem:
    remedy = f"known keys: {', '.join(SchemaPosition.of(model).keys)}"
    if data is None:
        return Problem(message="it is empty", where=source, remedy=remedy)
    kind = "text" if isinstance(data, str) else shown(data)
    message = f"expected keys with values at the top level, found {kind}"
    return Problem(message=message, where=source, remedy=remedy)
