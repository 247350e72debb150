"""Sections of a report as Markdown: report.md."""

import re
from collections.abc import Iterable, Iterator, Sequence

from burnish.core.sections import (
    Code,
    Diff,
    Facts,
    Heading,
    Listing,
    Page,
    Section,
    Series,
    Space,
    Table,
    Text,
)
from burnish.core.words import visible


def to_markdown(sections: Iterable[Section]) -> str:
    """The whole page, with a blank line between sections."""
    lines: list[str] = []
    for section in sections:
        shown = [*_lines(section)]
        lines += ["", *shown] if lines and shown else shown
        if isinstance(section, Space):
            lines.append("")
    return "\n".join(lines) + "\n"


def _lines(section: Section) -> Iterator[str]:
    match section:
        case Heading():
            yield f"{'#' * section.level} {section.text}"
        case Text() | Page():
            yield from section.lines
        case Listing():
            yield from [section.lead] if section.lead else []
            yield from (f"- {item.replace(chr(10), f'{chr(10)}  ')}" for item in section.items)
        case Facts():
            yield from _table(("", ""), section.rows)
        case Table():
            yield from _table(section.head, section.rows)
        case Diff():
            yield from _fenced(section.lines, "diff")
        case Code():
            yield from _fenced(section.lines, section.language)
        case Series():
            yield from _fenced(section.drawing)
        case Space():
            pass


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"|{'|'.join(f' {name} ' if name else ' ' for name in head)}|"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _fenced(lines: Sequence[str], language: str = "") -> Iterator[str]:
    """Lines in a fence that no line can close."""
    shown = [visible(line) for line in lines]
    longest = max((len(ticks) for line in shown for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from shown
    yield fence
