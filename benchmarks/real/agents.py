"""The agent of a task on a real model, and the count of what everybody asked of it."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from burnish.core.cases import Case, Message, Outcome
from burnish.core.evaluations import Score
from burnish.core.protocols import Effects
from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.testing.doubles import FreeMetric

T = TypeVar("T")
ANSWER_TOKENS, REWRITE_TOKENS = 24, 600
"""The most that the agent and a rewrite may have. No right answer is half as long as that."""
AT_ONCE = 4
"""Answers that are asked for at once: a server on two cores gives twice as many per minute so."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the real model is, and how long it may take."""

    model: str
    base_url: str = ""
    timeout: float = 600.0

    def reference(self, settings: ModelSettings) -> ModelRef:
        """The model: by its address, or one that burnish runs itself, such as local:smollm2."""
        settings = replace(settings, timeout=self.timeout)
        if self.base_url:
            return ModelRef(
                provider="openai", name=self.model, base_url=self.base_url, settings=settings
            )
        return ModelRef.parse(self.model, settings=settings)


@dataclass
class Tally:
    """What a search asked: calls of the agent, rewrites, tokens and seconds."""

    calls: int = 0
    reflections: int = 0
    tokens: int = 0
    started: float = field(default_factory=time.perf_counter)

    def count(self, reply: ChatReply) -> None:
        """One reply."""
        self.tokens += reply.usage.input_tokens + reply.usage.output_tokens

    @property
    def seconds(self) -> float:
        """How long it took so far."""
        return time.perf_counter() - self.started


class Agent:
    """A model that follows instructions, at temperature 0."""

    def __init__(self, endpoint: Endpoint, tally: Tally) -> None:
        self.endpoint = endpoint
        self.tally = tally
        self.models = Models(retries=RetryPolicy(attempts=2))
        settings = ModelSettings(temperature=0.0, max_tokens=ANSWER_TOKENS)
        self._client = self.models.client(endpoint.reference(settings))

    async def answer(self, instructions: str, case: Case) -> str:
        """What it answers to a case."""
        messages = (
            Message(role="system", content=instructions),
            Message(role="user", content=case.turns[0].input),
        )
        self.tally.calls += 1
        request = ChatRequest(messages=messages)
        reply = (await self._client.ask(request, draw=0, effects=DirectEffects())).reply
        self.tally.count(reply)
        return reply.text.strip()

    async def answers(self, instructions: str, cases: Sequence[Case]) -> list[str]:
        """What it answers to some cases, several at once."""
        places = asyncio.Semaphore(AT_ONCE)

        async def answered(case: Case) -> str:
            async with places:
                return await self.answer(instructions, case)

        return await asyncio.gather(*(answered(case) for case in cases))

    async def score(self, instructions: str, cases: Sequence[Case]) -> float:
        """The share of cases that it gets exactly right."""
        answers = await self.answers(instructions, cases)
        right = [reason_of(case, said) == "" for case, said in zip(cases, answers, strict=True)]
        return sum(right) / len(right)

    async def rewrite(self, prompt: str, *, temperature: float, draw: int) -> ChatReply:
        """A rewrite by plain prompt, as other systems ask for one."""
        settings = ModelSettings(temperature=temperature, max_tokens=REWRITE_TOKENS, seed=1)
        client = self.models.client(self.endpoint.reference(settings))
        request = ChatRequest(messages=(Message(role="user", content=prompt),))
        self.tally.reflections += 1
        reply = (await client.ask(request, draw=draw, effects=DirectEffects())).reply
        self.tally.count(reply)
        return reply


def reason_of(case: Case, said: str) -> str:
    """What is wrong with an answer; empty if it is exactly right."""
    return "" if said.strip() == case.expected else f"the answer must be exactly: {case.expected}"


@dataclass(frozen=True, kw_only=True)
class Exact(FreeMetric):
    """A metric: 1 if the answer is exactly what the case expects."""

    name: str = "exact"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Compare the reply with the expected answer."""
        del effects
        return [self.judge(case, outcome)]

    def judge(self, case: Case, outcome: Outcome) -> Score:
        """The score of one answer."""
        reason = reason_of(case, outcome.output)
        return Score(metric=self.name, value=float(not reason), passed=not reason, reason=reason)


class LoopThread:
    """An event loop in a thread of its own, for programs that call from synchronous code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
