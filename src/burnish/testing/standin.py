"""A stand-in for a model, on loopback, for programs whose optimizer.json names one."""

import asyncio
import json
import os
import re
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

from burnish.testing.http_exchange import HttpRequest
from burnish.testing.servers import Answer, ScriptedServer, Status

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


def read_request(request: HttpRequest) -> Rewriting | Judging | None:
    """What a request of burnish asks for; None for anything else."""
    text = "\n".join(_messages(request.json))
    if match := _FIELD.search(text):
        return Rewriting(
            field=match[1],
            text=_within("current_text", text),
            others=dict(_sections(_OTHER, _within("other_texts", text))),
            cases=[_case(*each) for each in _sections(_CASE, _within("cases", text))],
        )
    if rubrics := _within("rubrics", text):
        return Judging(
            asked=_within("user_prompt", text),
            reply=_within("agent_response", text),
            reference=_within("reference_response", text),
            rubrics=dict(line.split(": ", 1) for line in rubrics.splitlines() if ": " in line),
        )
    return None


def _case(name: str, record: str) -> ShownCase:
    parts = {key.strip("*"): _END.split(text, maxsplit=1)[0].strip()
             for key, text in _sections(_PART, record)}  # fmt: skip
    reply = parts.get("Agent Response", "")
    return ShownCase(
        id=name,
        asked=parts.get("User", ""),
        expected=parts.get("Expected", ""),
        said="" if reply == "(nothing)" else reply,
        error=parts.get("The agent failed", ""),
        failed_rubrics=tuple(_FAILED_RUBRIC.findall(record)),
    )


def _messages(body: Any) -> Iterator[str]:
    """What the user's messages of a chat say."""
    for message in body["messages"]:
        if message["role"] == "user":
            yield str(message["content"])


def _within(tag: str, text: str) -> str:
    match = re.search(rf"^<{tag}>\n(.*?)\n</{tag}>$", text, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def _sections(heading: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """What stands below each heading."""
    matches = list(heading.finditer(text))
    for each, after in zip_longest(matches, matches[1:]):
        end = len(text) if after is None else after.start()
        yield each[1], text[each.end() : end].strip()


# -- A stand-in for a model, on loopback ----------------------------------------------------------


Rewrite: TypeAlias = Callable[[Rewriting], tuple[str, str]]
"""The diagnosis, and the new text."""
Judge: TypeAlias = Callable[[Judging], Mapping[str, str]]
"""By rubric, what is wrong; empty where nothing is."""

MODEL, ADDRESS, KEY = "EXAMPLE_MODEL", "EXAMPLE_BASE_URL", "EXAMPLE_API_KEY"


@asynccontextmanager
async def model_or_standin(
    rewrite: Rewrite, judge: Judge | None = None
) -> AsyncGenerator[bool, None]:
    """While entered, the three variables name a model; whether that is the stand-in."""
    if os.environ.get(MODEL):
        with _environment({ADDRESS: os.environ.get(ADDRESS, "")}):
            yield False
        return
    answers = _answering(rewrite, judge)
    async with ScriptedServer(protocol="openai", answers=answers) as server:
        # A key that is there already is not for the stand-in, and none is asked for.
        named = {MODEL: "stand-in", ADDRESS: server.base_url, KEY: "none-is-needed-offline"}
        with _environment(named):
            yield True


def one_more_rule(
    request: Rewriting, reveal: Callable[[ShownCase], Iterable[str]]
) -> tuple[str, str]:
    """The text with the first rule that a case reveals and that it does not state yet, if any."""
    for case in request.cases:
        for rule in reveal(case):
            if rule not in request.text:
                return f"case {case.id} asks for it: {rule}", f"{request.text}{rule}\n"
    return f"these cases ask for nothing that {request.field} does not say", request.text


async def run_beside(command: Sequence[str], rewrite: Rewrite, judge: Judge | None = None) -> int:
    """Run a command with the model or its stand-in beside it; its exit code."""
    async with model_or_standin(rewrite, judge):
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()


def _answering(rewrite: Rewrite, judge: Judge | None) -> Callable[[HttpRequest], Answer]:
    def answer(exchange: HttpRequest) -> Answer:
        request = read_request(exchange)
        if isinstance(request, Rewriting):
            diagnosis, text = rewrite(request)
            return json.dumps({"diagnosis": diagnosis, "new_text": text})
        if isinstance(request, Judging) and judge is not None:
            return json.dumps({"items": _items(request, judge(request))})
        return Status(400, message="the stand-in rewrites texts and judges by rubrics, no more")

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


@contextmanager
def _environment(named: Mapping[str, str]) -> Generator[None, None, None]:
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
