"""What a stand-in for a model is shown: the text to rewrite with its cases, or a reply to judge."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from burnish.testing.servers import Asked

_FIELD = re.compile(r"^The text to rewrite is: (.+) \(at most (\d+) characters\)$", re.MULTILINE)
_OTHER = re.compile(r"^#### (.+)$", re.MULTILINE)
_CASE = re.compile(r"^### case (.+) \(score .+\)$", re.MULTILINE)
_PART = re.compile(
    r"^(\*\*User\*\*|\*\*Expected\*\*|\*\*Agent Response\*\*|The agent failed): ", re.MULTILINE
)
_END = re.compile(r"^(\*\*Tool Trace\*\*:|\[[A-Z]+\] |Said before, |#### Turn )", re.MULTILINE)
_FAILED_RUBRIC = re.compile(r"^  · rubric\[(.+?)\]: FAIL", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ShownCase:
    """One case as a reflection model sees it; of several turns, the last."""

    id: str
    asked: str
    expected: str
    said: str
    """Empty where the agent said nothing."""
    error: str
    """How the agent failed; empty where it did not."""
    failed_rubrics: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """A request to rewrite one text."""

    field: str
    text: str
    others: Mapping[str, str]
    """The texts beside it, by field."""
    cases: Sequence[ShownCase]


@dataclass(frozen=True, kw_only=True)
class Judging:
    """A request to judge one reply by rubrics."""

    asked: str
    reply: str
    reference: str
    rubrics: Mapping[str, str]
    """What each asks for, by id."""


def read_request(asked: Asked) -> Rewriting | Judging | None:
    """What a request of burnish asks for; None for anything else."""
    said = "\n".join(_messages(asked.json))
    if found := _FIELD.search(said):
        return Rewriting(
            field=found[1],
            text=_within("current_text", said),
            others=dict(_sections(_OTHER, _within("other_texts", said))),
            cases=[_case(*each) for each in _sections(_CASE, _within("cases", said))],
        )
    if rubrics := _within("rubrics", said):
        return Judging(
            asked=_within("user_prompt", said),
            reply=_within("agent_response", said),
            reference=_within("reference_response", said),
            rubrics=dict(line.split(": ", 1) for line in rubrics.splitlines() if ": " in line),
        )
    return None


def _case(name: str, record: str) -> ShownCase:
    parts = {key.strip("*"): _END.split(text, maxsplit=1)[0].strip()
             for key, text in _sections(_PART, record)}  # fmt: skip
    said = parts.get("Agent Response", "")
    return ShownCase(
        id=name,
        asked=parts.get("User", ""),
        expected=parts.get("Expected", ""),
        said="" if said == "(nothing)" else said,
        error=parts.get("The agent failed", ""),
        failed_rubrics=tuple(_FAILED_RUBRIC.findall(record)),
    )


def _messages(body: Any) -> Iterator[str]:
    """What the user's messages of a chat say."""
    for message in body["messages"]:
        if message["role"] == "user":
            yield str(message["content"])


def _within(tag: str, text: str) -> str:
    found = re.search(rf"^<{tag}>\n(.*?)\n</{tag}>$", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def _sections(heading: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """What stands below each heading."""
    found = list(heading.finditer(text))
    for each, after in zip_longest(found, found[1:]):
        end = len(text) if after is None else after.start()
        yield each[1], text[each.end() : end].strip()
