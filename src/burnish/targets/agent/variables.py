"""`${VAR}` in agent files: expanded where a value is used, kept where it is a secret."""

import os
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.system import expand_variables

SECRET_KEYS = ("api_key", "env", "headers")
"""What stands under these keys is expanded by whoever sends it, and never kept."""
IGNORED_KEYS = ("database", "keyword_index", "claude", "openai", "observability", "deployment")
"""What has no effect here need not be set here either."""
WORD_FOR_WORD = ("demonstrations",)
"""What a tool or a user said may have a `${` of its own in it."""


def expanded(data: Json, *, environ: Mapping[str, str] | None = None, where: str = "") -> Json:
    """The data with every variable's value, secrets left as they are.

    A value that is nothing but `${VAR}` becomes what YAML would make of it: a number, a flag.
    """
    env = os.environ if environ is None else environ
    problems: list[Problem] = []
    found = _expanded(data, env, where, problems)
    if problems:
        raise ConfigError(problems)
    return found


def _expanded(data: Json, env: Mapping[str, str], where: str, problems: list[Problem]) -> Json:
    if isinstance(data, list):
        return [_expanded(v, env, f"{where}[{n}]", problems) for n, v in enumerate(data)]
    if isinstance(data, dict):
        return {
            key: value
            if key in SECRET_KEYS + IGNORED_KEYS + WORD_FOR_WORD
            else _expanded(value, env, f"{where}.{key}" if where else key, problems)
            for key, value in data.items()
        }
    if not isinstance(data, str) or "${" not in data:
        return data
    try:
        text = expand_variables(data, env)
    except ConfigError as error:
        problems += [
            Problem(where=where, message=p.message, remedy=p.remedy) for p in error.problems
        ]
        return data
    return _scalar(text) if _is_one(data) else text


def _is_one(text: str) -> bool:
    return text.startswith("${") and text.endswith("}") and text.count("$") == 1


def _scalar(text: str) -> Json:
    reader: Any = YAML(typ="safe", pure=True)
    try:
        value: object = reader.load(text)
    except YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text
