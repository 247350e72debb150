"""The tags of a run: words by which people find it again."""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from burnish.core.errors import ConfigError
from burnish.runs.directory import Header
from burnish.runs.spec import OutputSpec, checked_tag
from burnish.system import read_text, write_atomic

TAGS = "tags.json"
"""The file of a run whose tags were changed since its start."""
_STORED = TypeAdapter(tuple[str, ...])
_MOST = 50


def tags_of(folder: Path, header: Header | None = None) -> tuple[str, ...]:
    """The tags of a run, in the order of the alphabet; none if they cannot be read."""
    try:
        if (folder / TAGS).is_file():
            return _STORED.validate_json(read_text(folder / TAGS))
        stored = (header or Header.read(folder)).project.spec.get("output", {})
        return tuple(sorted(set(OutputSpec.model_validate(stored).tags)))
    except ValidationError:
        return ()


def change_tags(
    folder: Path, *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> tuple[str, ...]:
    """Add and remove tags; returns those that the run has then."""
    before = tags_of(folder)
    unknown = sorted({*remove} - {*before})
    if unknown:
        there = ", ".join(before) or "none"
        raise ConfigError.of("tag", f"the run has no tag '{unknown[0]}'", f"it has: {there}")
    return set_tags(folder, {*before, *add} - {*remove})


def set_tags(folder: Path, tags: Iterable[str]) -> tuple[str, ...]:
    """Replace the tags of a run; returns them in order."""
    try:
        changed = tuple(sorted(set(map(checked_tag, tags))))
    except ValueError as error:
        raise ConfigError.of("tag", str(error), "name another one") from None
    if len(changed) > _MOST:
        raise ConfigError.of("tag", f"a run has {_MOST} tags at most", "remove some")
    write_atomic(folder / TAGS, json.dumps(changed, ensure_ascii=False) + "\n")
    return changed
