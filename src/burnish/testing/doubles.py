"""Scripted targets, metrics and roles: real parts of a run whose behaviour is a function."""

import asyncio
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case
from burnish.core.codec import Codec, codec
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import Problem, RoleFailed
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description
from burnish.core.scores import Score
from burnish.core.surfaces import Surface, Value

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class CallCounter:
    """Counts calls in a file, so that the count survives the process that made them."""

    path: Path

    def count(self, what: str) -> None:
        """Write down that a call starts. One write, so that a kill cannot tear it."""
        handle = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            os.write(handle, f"{what}\n".encode())
        finally:
            os.close(handle)

    def calls(self) -> list[str]:
        """The calls that were started, in order."""
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


@dataclass(frozen=True, kw_only=True)
class ScriptedTarget:
    """A target whose agent is a function of candidate, case and draw.

    `respond` gives a reply or a whole Outcome, or raises as a real agent might. It may be a
    coroutine function.
    """

    respond: Callable[[Candidate, Case, int], Any]
    surfaces: Sequence[Surface]
    values: Mapping[str, Value]
    name: str = "scripted"
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    price: Spend = field(default_factory=lambda: Spend(calls=1))
    problems: Callable[[Candidate], Sequence[Problem]] = lambda _: ()
    seconds: float = 0.0
    """How long a call takes."""
    counter: CallCounter | None = None
    leaf: bool = True

    @property
    def description(self) -> Description:
        """What it is, as data."""
        return Description(kind=self.name, config=self.config)

    @property
    def baseline(self) -> Candidate:
        """The values it starts with."""
        return Candidate(values=self.values, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """What the script says is wrong."""
        return self.problems(candidate)

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Call the function."""
        del effects
        if self.counter is not None:
            self.counter.count(f"run {candidate.id} {case.id} {draw}")
        if self.seconds:
            await asyncio.sleep(self.seconds)
        said = self.respond(candidate, case, draw)
        if inspect.isawaitable(said):
            said = await said
        outcome = said if isinstance(said, Outcome) else Outcome(replies=(str(said),))
        return Receipt(value=outcome, spend=self.price)

    def estimate(self, case: Case) -> Spend:
        """The price."""
        del case
        return self.price

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The values as JSON."""
        del home
        data = codec(Candidate).encode(candidate)
        assert isinstance(data, dict)
        text = json.dumps(data["values"], indent=2, sort_keys=True, ensure_ascii=False)
        return {"candidate.json": f"{text}\n".encode()}


@dataclass(frozen=True, kw_only=True)
class ExpectedText:
    """A metric: 1 when the reply contains what the case expects."""

    name: str = "expected_text"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id([self.name, self.version])

    def estimate(self, case: Case) -> Spend:
        """Nothing: it computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Compare the last reply with the last turn's expectation."""
        del effects
        if case.expected is None:
            return []
        found = case.expected in outcome.output
        reason = "" if found else f"expected '{case.expected}' in '{outcome.output}'"
        return [Score(metric=self.name, value=float(found), passed=found, reason=reason)]


@dataclass(frozen=True, kw_only=True)
class ScriptedRole(Generic[Request, Answer]):
    """A role whose answers are a function of the request and the draw."""

    name: str
    respond: Callable[[Request, int], Answer]
    """May raise RoleFailed."""
    answer_type: type[Answer]
    request_type: type[Request]
    version: str = "1"
    price: Spend = field(default_factory=lambda: Spend(calls=1))
    seconds: float = 0.0
    counter: CallCounter | None = None
    leaf: bool = True

    @property
    def fingerprint(self) -> str:
        """A hash of its script's version."""
        return short_id([self.name, self.version])

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are kept."""
        return codec(self.answer_type)

    @property
    def priced(self) -> bool:
        """Whether the price is known."""
        return not self.price.unpriced

    def estimate(self, request: Request, /) -> Spend:
        """The price."""
        del request
        return self.price

    def encode(self, request: Request, /) -> Json:
        """The request as data."""
        return codec(self.request_type).encode(request)

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """Call the function."""
        del effects
        if self.counter is not None:
            self.counter.count(f"role {self.name} {draw}")
        if self.seconds:
            await asyncio.sleep(self.seconds)
        try:
            return Receipt(value=self.respond(request, draw), spend=self.price)
        except RoleFailed as error:
            raise RoleFailed(error.message, remedy=error.remedy, spend=self.price) from error
