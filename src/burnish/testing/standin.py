"""A stand-in for a model, on loopback, for programs whose optimizer.json names one.

It is used unless the environment names a model in `EXAMPLE_MODEL`. What it answers is up to two
functions: one that rewrites a text as far as the cases it is shown teach it, one that judges.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

from burnish.testing.servers import Answer, Asked, ScriptedServer, Status
from burnish.testing.standin_reading import Judging, Rewriting, ShownCase, read_request

__all__ = [
    "Judging",
    "Rewriting",
    "ShownCase",
    "model_or_standin",
    "one_more_rule",
    "run_beside",
]

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


def _answering(rewrite: Rewrite, judge: Judge | None) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        request = read_request(asked)
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
