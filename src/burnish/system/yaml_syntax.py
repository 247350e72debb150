"""Between YAML or JSON text and trees, with every complaint as a place and a remedy."""

import io
import json
import re
import warnings
from collections import Counter
from itertools import pairwise
from typing import Any, cast

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from burnish.core.errors import ConfigError, Problem

_TWICE = re.compile(r'found duplicate key "(.*?)" with value')
_LINE = re.compile(r"^( *)((?:- +)*)([^\s#].*)$", re.M)

_PLACED, _PLACED_LEVELS = 20_000, 100
"""Characters and levels up to which a fault in JSON is looked for by line, which is slow."""


def parse_yaml(text: str, *, source: str) -> object:
    """ruamel's tree of the text, comments kept."""
    # A carriage return would become part of a comment.
    text = text.replace("\r\n", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            return cast("object", cast("Any", _yaml(text)).load(text))
    except MarkedYAMLError as error:
        raise ConfigError([_marked_problem(error, source)]) from None
    except (YAMLError, ValueError) as error:
        message = f"not valid YAML: {str(error).splitlines()[0]}"
        raise ConfigError([Problem(message=message, where=source)]) from None
    except (AttributeError, LookupError, TypeError):
        # ruamel stumbles so over a tag that does not fit its value, such as `!!bool maybe`.
        problem = Problem(message="not valid YAML: a value does not fit its tag", where=source)
        raise ConfigError([problem], remedy="Remove the tag.") from None


def is_modest(text: str, *, levels: int, aliases: int) -> bool:
    """Whether a YAML text nests and repeats no more than this; what is no YAML is modest.

    Parsing one that does can take hours: merged mappings cost the cube of their number.
    """
    depth = count = 0
    try:
        for event in cast("Any", YAML(typ="safe", pure=True)).parse(text):
            depth += isinstance(event, CollectionStartEvent)
            depth -= isinstance(event, CollectionEndEvent)
            count += isinstance(event, AliasEvent)
            if depth > levels or count > aliases:
                return False
    except (YAMLError, ValueError, AttributeError, LookupError, TypeError):
        pass  # for the parser to say
    return True


def parse_json(text: str, *, source: str) -> JsonValue:
    """The JSON value of the text; a key that appears twice is refused."""
    try:
        return cast("JsonValue", json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        problem = Problem(message=f"not valid JSON: {error.msg}", where=where)
        raise ConfigError([problem]) from None
    except ValueError as error:
        if len(text) <= _PLACED and is_modest(text, levels=_PLACED_LEVELS, aliases=0):
            parse_json_places(text, source=source)
        raise ConfigError([Problem(message=str(error), where=source)]) from None


def parse_json_places(text: str, *, source: str) -> object:
    """ruamel's tree of a JSON text, for its lines."""
    # JSON allows tabs between values and YAML does not; within its strings there are none.
    return parse_yaml(text.replace("\t", " "), source=source)


def write_yaml(root: object, *, like: str) -> str:
    """The tree as text, indented and with line ends as in the text it came from."""
    stream = io.StringIO()
    cast("Any", _yaml(like)).dump(root, stream)
    return stream.getvalue().replace("\n", "\r\n" if "\r\n" in like else "\n")


def write_json(data: JsonValue, *, like: str) -> str:
    """The value as text, indented as the text it came from."""
    indent = re.search(r"\n([ \t]+)\S", like)
    return json.dumps(data, indent=indent[1] if indent else None, ensure_ascii=False) + "\n"


def _yaml(text: str) -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    # Long lines stay as they are.
    yaml.width = 2**20
    yaml.explicit_start = text.startswith("---")
    mapping, offset = _indentation(text)
    yaml.indent(mapping=mapping, sequence=offset + 2, offset=offset)
    return yaml


def _indentation(text: str) -> tuple[int, int]:
    """How far the text indents a mapping, and a dash, below the key they belong to."""
    mapping = offset = None
    lines = [(len(found[1]), found[2], found[3].rstrip()) for found in _LINE.finditer(text)]
    for (margin, dashes, content), (below, dash_below, _) in pairwise(lines):
        deeper = below - margin - len(dashes)
        if not content.endswith(":") or deeper < 0:
            continue
        if dash_below:
            offset = deeper if offset is None else offset
        elif deeper:
            mapping = mapping or deeper
    return mapping or 2, offset or 0


def _marked_problem(error: MarkedYAMLError, source: str) -> Problem:
    details = cast("Any", error)
    mark = details.problem_mark or details.context_mark
    where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    text = str(details.problem or details.context)
    if isinstance(error, DuplicateKeyError) and (key := _TWICE.search(text)):
        return Problem(message=f"key {key[1]!r} appears twice", where=where, remedy="remove one")
    remedy = "indent with spaces, not tabs" if r"'\t'" in text else ""
    return Problem(message=f"not valid YAML: {text}", where=where, remedy=remedy)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {twice!r} appears twice")
    return unique
