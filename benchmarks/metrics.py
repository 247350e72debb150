"""Scores per second of every metric that asks nobody, on 10,000 cases with answers of 40 words."""

import asyncio
import json
import random
import time
from collections.abc import Callable

from benchmarks.figures import Figure
from burnish.core.cases import Case, ExpectedTool, Outcome, Step, ToolCall, Trace, Turn
from burnish.journal.once import DirectEffects
from burnish.metrics.computed import (
    Equality,
    ExpectedTools,
    FinalResponse,
    Length,
    Numeric,
    ToolTrajectory,
)
from burnish.metrics.document_matching import JsonRule
from burnish.metrics.overlap import Bleu, Chrf, Meteor, ResponseMatch, RougeMetric
from burnish.metrics.turns import ComputedMetric

CASES = 10_000
WORDS = 40
ROUNDS = 2
GOALS = {"rouge": 5_000, "response_match_score": 5_000}

_LETTERS = "bcdfglmnprst"
_VOWELS = "aeiou"
_LITTLE = ["the", "of", "and", "to", "a", "in", "is", "that"]

Work = list[tuple[Case, Outcome]]


def figures() -> list[Figure]:
    """Everything this file measures."""
    texts = _work(_sentence, _changed)
    numbers = _work(lambda rng: f"{rng.uniform(0, 1e6):,.2f}", lambda text, _: f"about {text} €")
    objects = _work(_object, lambda text, _: f"```json\n{text}\n```")
    jobs: list[tuple[ComputedMetric, Work]] = [
        (Equality(), texts),
        (Numeric(), numbers),
        (FinalResponse(name="json_match", json=JsonRule()), objects),
        (Length(max=1000), texts),
        (FinalResponse(), texts),
        (ToolTrajectory(), texts),
        (ExpectedTools(), texts),
        (RougeMetric(), texts),
        (Bleu(), texts),
        (Chrf(), texts),
        (Meteor(synonyms=False), texts),
        (ResponseMatch(), texts),
    ]
    return [_figure(metric, work) for metric, work in jobs]


def _figure(metric: ComputedMetric, work: Work) -> Figure:
    # What is loaded and compiled at the first score of a process is not what is measured.
    asyncio.run(_scored(metric, work[:10]))
    rate = max(asyncio.run(_scored(metric, work)) for _ in range(ROUNDS))
    goal = GOALS.get(metric.name)
    return Figure(what=metric.name, value=rate, unit="scores/s", goal=goal, more=True)


async def _scored(metric: ComputedMetric, work: Work) -> float:
    effects = DirectEffects()
    started = time.perf_counter()
    count = sum([len(await metric.score(*each, effects=effects)) for each in work])
    assert count == len(work), f"{metric.name} scored {count} of {len(work)} cases"
    return count / (time.perf_counter() - started)


def _work(
    expected: Callable[[random.Random], str], reply: Callable[[str, random.Random], str]
) -> Work:
    """Cases with an expected answer and tool calls, each with what an agent might have done."""
    rng = random.Random(4)
    return [_one(number, text, reply(text, rng)) for number, text in _numbered(expected, rng)]


def _numbered(
    expected: Callable[[random.Random], str], rng: random.Random
) -> list[tuple[int, str]]:
    return [(number, expected(rng)) for number in range(CASES)]


def _one(number: int, expected: str, reply: str) -> tuple[Case, Outcome]:
    calls = tuple(
        ToolCall(name=name, arguments={"query": f"item {number}", "limit": 5}, result={"rows": 3})
        for name in ("search", "fetch")
    )
    turn = Turn(
        input=f"question {number}",
        expected=expected,
        expected_tools=(ExpectedTool(name="search", arguments={"limit": 5}),),
        expected_calls=calls,
    )
    done = Trace(steps=(Step(id="1", node="agent", tools=calls),))
    return Case(turns=(turn,), name=f"case-{number}"), Outcome(replies=(reply,), trace=done)


def _vocabulary() -> list[str]:
    """Words by the thousand, and little ones that make up a third of any text."""
    rng = random.Random(5)
    return [
        "".join(rng.choice(_LETTERS) + rng.choice(_VOWELS) for _ in range(rng.randint(1, 3)))
        + rng.choice(("", "s", "ing", "ation"))
        for _ in range(3_000)
    ]


_VOCABULARY = _vocabulary()


def _word(rng: random.Random) -> str:
    return rng.choice(_LITTLE if rng.random() < 1 / 3 else _VOCABULARY)


def _sentence(rng: random.Random) -> str:
    return " ".join(_word(rng) for _ in range(WORDS)) + "."


def _changed(text: str, rng: random.Random) -> str:
    """The text with every fourth word replaced."""
    words = text.split()
    return " ".join(_word(rng) if place % 4 == 0 else word for place, word in enumerate(words))


def _object(rng: random.Random) -> str:
    return json.dumps(
        {_word(rng): [rng.random(), _word(rng), {"n": number}] for number in range(5)}
    )
