"""A local stand-in for the model that a program's optimizer.json names."""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from burnish.strategies.reflective.reflection import ROLE as REFLECTOR
from burnish.testing.doubles import read_role_request
from burnish.testing.servers import (
    Answer,
    HttpRequest,
    ProtocolName,
    ScriptedServer,
    Status,
    port_of,
)

_OTHER = re.compile(r"^The text (.+):$", re.MULTILINE)
_CASE = re.compile(r"^Case (.+)$", re.MULTILINE)
_PART = re.compile(r"^(Input|Expected answer|The agent's answer|The agent failed): ", re.MULTILINE)
_END = re.compile(
    r"^(Tools it used:|(Wrong|Right|Not judged|Not good enough|Worth [\d.]+) by |Earlier answer, "
    r"|Turn \d+$)",
    re.MULTILINE,
)
_FAILED_RUBRIC = re.compile(r"^- (.+?) is not met", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ShownCase:
    """The last turn of a case as a reflection model sees it."""

    id: str
    asked: str
    expected: str
    said: str
    """Empty if the agent said nothing."""
    error: str
    """The agent's failure; empty if it succeeded."""
    failed_rubrics: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """A request to rewrite one text."""

    field: str
    text: str
    others: Mapping[str, str]
    """The other texts, by field."""
    cases: Sequence[ShownCase]


@dataclass(frozen=True, kw_only=True)
class Judging:
    """A request to judge one reply by rubrics."""

    asked: str
    reply: str
    reference: str
    rubrics: Mapping[str, str]
    """The rubrics by id."""


def read_request(request: HttpRequest) -> Rewriting | Judging | None:
    """Parse a rewrite or judge request of burnish; None for anything else."""
    chat = request.json["messages"]
    text = "\n".join(_spoken(each["content"]) for each in chat if each["role"] == "user")
    if (fields := read_role_request(REFLECTOR, text)) is not None:
        return Rewriting(
            field=fields["field"],
            text=fields["current_text"],
            others=dict(_sections(_OTHER, fields["other_texts"])),
            cases=[_case(*each) for each in _sections(_CASE, fields["records"])],
        )
    if rubrics := _within("rubrics", text):
        return Judging(
            asked=_within("user_prompt", text),
            reply=_within("agent_response", text),
            reference=_within("reference_response", text),
            rubrics=dict(line.split(": ", 1) for line in rubrics.splitlines() if ": " in line),
        )
    return None


def _spoken(content: str | list[Mapping[str, str]]) -> str:
    """A message's text; some protocols send it in blocks."""
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def _case(name: str, record: str) -> ShownCase:
    parts = {key: _END.split(text, maxsplit=1)[0].strip() for key, text in _sections(_PART, record)}
    reply = parts.get("The agent's answer", "")
    return ShownCase(
        id=name,
        asked=parts.get("Input", ""),
        expected=parts.get("Expected answer", ""),
        said="" if reply == "(nothing)" else reply,
        error=parts.get("The agent failed", ""),
        failed_rubrics=tuple(_FAILED_RUBRIC.findall(record)),
    )


def _within(tag: str, text: str) -> str:
    match = re.search(rf"^<{tag}>\n(.*?)\n</{tag}>$", text, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def _sections(heading: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    matches = list(heading.finditer(text))
    for each, after in zip_longest(matches, matches[1:]):
        end = len(text) if after is None else after.start()
        yield each[1], text[each.end() : end].strip()


Rewrite: TypeAlias = Callable[[Rewriting], tuple[str, str]]
"""Returns the diagnosis and the new text."""
Judge: TypeAlias = Callable[[Judging], Mapping[str, str]]
"""Returns what is wrong, by rubric; empty if it holds."""

MODEL, ADDRESS, KEY = "EXAMPLE_MODEL", "EXAMPLE_BASE_URL", "EXAMPLE_API_KEY"


@asynccontextmanager
async def model_or_standin(
    rewrite: Rewrite, judge: Judge | None = None, *, protocol: ProtocolName = "openai"
) -> AsyncGenerator[bool, None]:
    """Set the three variables to a model; yields whether it is the stand-in."""
    before = {name: os.environ.get(name) for name in (MODEL, ADDRESS, KEY)}
    try:
        if before[MODEL]:
            os.environ.setdefault(ADDRESS, "")
            yield False
            return
        async with ScriptedServer(
            protocol=protocol, answers=_answers(rewrite, judge), port=port_of(Path.cwd())
        ) as server:
            # The user's own key must not go to the stand-in, which needs none.
            key = "none-is-needed-offline"
            os.environ.update({MODEL: "stand-in", ADDRESS: server.base_url, KEY: key})
            yield True
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def one_more_rule(
    request: Rewriting, reveal: Callable[[ShownCase], Iterable[str]]
) -> tuple[str, str]:
    """A diagnosis, and the text plus the first revealed rule that it does not state yet."""
    for case in request.cases:
        for rule in reveal(case):
            if rule not in request.text:
                return f"case {case.id} asks for it: {rule}", f"{request.text}{rule}\n"
    return f"these cases ask for nothing that {request.field} does not say", request.text


async def run_beside(
    command: Sequence[str],
    rewrite: Rewrite,
    judge: Judge | None = None,
    *,
    protocol: ProtocolName = "openai",
) -> int:
    """Run a command with the model or its stand-in; returns the exit code."""
    async with model_or_standin(rewrite, judge, protocol=protocol):
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()


def _answers(rewrite: Rewrite, judge: Judge | None) -> Callable[[HttpRequest], Answer]:
    def answer(exchange: HttpRequest) -> Answer:
        request = read_request(exchange)
        if isinstance(request, Rewriting):
            diagnosis, text = rewrite(request)
            return json.dumps({"diagnosis": diagnosis, "new_text": text})
        if isinstance(request, Judging) and judge is not None:
            return json.dumps({"items": _items(request, judge(request))})
        return Status(400, message="the stand-in only rewrites texts and judges by rubrics")

    return answer


def _items(request: Judging, wrong: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {
            "id": rubric,
            "evidence": request.reply,
            "reason": wrong.get(rubric) or "it holds",
            "verdict": "no" if wrong.get(rubric) else "yes",
        }
        for rubric in request.rubrics
    ]
