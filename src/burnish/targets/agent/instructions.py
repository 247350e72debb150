"""The instructions of an agent: the text that is sent, without the frontmatter of its file."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from burnish.core.errors import ConfigError, Problem
from burnish.system import read_text

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KNOWN = ("version", "author", "description", "tags")


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The text that the model is sent, and what stands before it in its file."""

    text: str
    front: str = ""
    """The frontmatter as it stands, dashes included; kept when the file is written again."""
    version: str = ""
    name: str = ""
    """What the frontmatter calls it."""

    def with_text(self, text: str) -> str:
        """The whole file with another text."""
        return f"{self.front}{text}"


def read_instructions(path: Path) -> Instructions:
    """The instructions of a file."""
    return parse_instructions(read_text(path).removeprefix("\ufeff"), source=path.name)


def parse_instructions(whole: str, *, source: str) -> Instructions:
    """Take the frontmatter off, if there is one."""
    found = _FRONT.match(whole)
    text = whole[found.end() :].lstrip("\n") if found else whole
    front = whole[: len(whole) - len(text)]
    facts = _facts(found[1] if found else "", source)
    version = str(facts.get("version") or f"auto-{hashlib.sha256(text.encode()).hexdigest()[:8]}")
    name = str(facts.get("name") or "")
    return Instructions(text=text, front=front, version=version, name=name)


def _facts(front: str, source: str) -> Mapping[str, Any]:
    reader: Any = YAML(typ="safe", pure=True)
    try:
        facts: object = reader.load(front) or {}
    except YAMLError as error:
        told = " ".join(str(error).split())
        raise ConfigError([Problem(where=source, message=f"its frontmatter: {told}")]) from None
    if not isinstance(facts, Mapping):
        message = f"its frontmatter has no keys; known: {', '.join(_KNOWN)}"
        raise ConfigError([Problem(where=source, message=message)])
    return cast("Mapping[str, Any]", facts)
