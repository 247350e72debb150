"""The surfaces of prompt fields: what must stay in each text, and how long it may be."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import TextSurface, placeholders_in

MaxChars: TypeAlias = int | Mapping[str, int] | None
Frozen: TypeAlias = Mapping[str, Sequence[str]]


def surfaces_of(
    values: Mapping[str, str], *, max_chars: MaxChars, frozen: Frozen
) -> tuple[TextSurface, ...]:
    """One surface a field, or a ConfigError with all that is wrong with the texts as they are."""
    limits = max_chars if isinstance(max_chars, Mapping) else dict.fromkeys(values, max_chars)
    surfaces = tuple(
        TextSurface(
            id=name,
            placeholders=placeholders_in(text),
            max_chars=limits.get(name),
            frozen=tuple(frozen.get(name, ())),
        )
        for name, text in values.items()
    )
    found = [*_unknown("max_chars", limits, values), *_unknown("frozen", frozen, values)]
    found += [problem for each in surfaces for problem in each.problems(values[each.id])]
    if found:
        raise ConfigError(found)
    return surfaces


def _unknown(
    setting: str, named: Mapping[str, object], values: Mapping[str, str]
) -> Iterator[Problem]:
    for name in named:
        if name not in values:
            known = f"there are: {', '.join(values)}"
            yield Problem(where=f"{setting}.{name}", message="no such prompt field", remedy=known)
