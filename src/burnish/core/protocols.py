"""The protocols of targets, metrics, roles and executors, and the effects they are given."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

from burnish.core.cases import Case
from burnish.core.content import Codec, Json, canonical, short_id
from burnish.core.errors import NotJournalable, Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.surfaces import Candidate, Surface

T = TypeVar("T")

KEY_SCHEMA = 1
"""Part of every key: raised when the meaning of keys changes."""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One effect, named by its content."""

    kind: str
    request: Json
    """Everything the result depends on, as JSON: hashes for what is large, `${VAR}` unexpanded."""
    codec: Codec[T]
    draw: int = 0
    """Which sample of a stochastic effect this is."""
    estimate: Spend = field(default_factory=lambda: Spend(calls=1))
    """What is billed if the effect is lost in flight."""
    computed: bool = False
    """A computation over what is journaled already: doing it again changes and costs nothing."""
    retried_as_a_whole: bool = False
    """Whether `--retry-missing` asks for everything in it again, not only for what is missing."""
    otherwise: Callable[[NotJournalable], T] | None = None
    """What to keep instead of a value that cannot be kept; without it that is an error."""

    @cached_property
    def spelled(self) -> bytes:
        """The request in its one spelling."""
        return canonical(self.request)

    @cached_property
    def key(self) -> str:
        """A hash of all that makes this effect this effect."""
        head = canonical([KEY_SCHEMA, self.kind, self.draw])
        return hashlib.sha256(head + self.spelled).hexdigest()

    @property
    def paid(self) -> bool:
        """Whether losing it in flight costs anything."""
        return self.estimate != NOTHING


@dataclass(frozen=True, kw_only=True)
class Receipt(Generic[T]):
    """What an effect gave and what it cost, without what nested effects cost."""

    value: T
    spend: Spend = NOTHING
    missing: bool = False
    """The infrastructure failed for good, or a role gave no usable answer: `--retry-missing` asks
    again."""
    mended: tuple[str, ...] = ()
    """What was wrong with a model's answer, and read as it was meant."""


class Effects(Protocol):
    """Do this once."""

    async def once(self, call: Call[T], perform: "Callable[[Scope], Awaitable[Receipt[T]]]") -> T:
        """The result of `call`: from the journal if it is there, else performed and kept.

        `perform` is given the scope through which it spends on anything nested.
        """
        ...


class Scope(Effects, Protocol):
    """Effects on behalf of one piece of work, which remember what was used for it."""

    @property
    def used(self) -> Mapping[str, Spend]:
        """What each effect used so far cost, by key; nested ones too."""
        ...


# -- The protocols that targets, metrics, roles and executors keep --------------------------------


Request = TypeVar("Request", contravariant=True)
Answer = TypeVar("Answer")
Unit = TypeVar("Unit")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a target is, as data: enough for a worker elsewhere to build it again."""

    kind: str
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """With `${VAR}` unexpanded."""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the description; part of every journal key."""
        return short_id([self.kind, dict(self.config)])


class Target(Protocol):
    """The thing being optimised."""

    @property
    def description(self) -> Description:
        """What it is, as data."""
        ...

    @property
    def surfaces(self) -> Sequence[Surface]:
        """What may be edited."""
        ...

    @property
    def baseline(self) -> Candidate:
        """The values it has now."""
        ...

    @property
    def leaf(self) -> bool:
        """Whether a run is itself the paid call, rather than spending through `effects`."""
        ...

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """What is wrong with a candidate beyond its bounds: free of calls, pure of effects."""
        ...

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """Run one case. An agent's failure and a missing result are outcomes, not exceptions."""
        ...

    def estimate(self, case: Case) -> Spend:
        """What running this case will cost, as well as can be told beforehand."""
        ...

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The candidate as files a user can adopt, by path relative to `home`.

        That is the folder they will lie in; what they refer to must be found from there.
        """
        ...


@runtime_checkable
class Rehearsable(Protocol):
    """A target that can say what a run would do: its effects looked up, the world left alone."""

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """Run one case on `effects` alone.

        Whatever the target does beside them, such as calling a user's function, is not done: it
        is answered by what `past` tells of it, else by asking `effects` for what they cannot have.
        """
        ...


@runtime_checkable
class _TakesTurns(Protocol):
    """A target that can be under one candidate at a time, such as one whose files are written."""

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[object]:
        """The candidate's turn: as long as it is held, the target is under this candidate."""
        ...


def held(target: Target, candidate: Candidate) -> AbstractAsyncContextManager[object]:
    """The candidate's turn, where a target takes turns; else nothing to wait for."""
    return target.held(candidate) if isinstance(target, _TakesTurns) else nullcontext()


@runtime_checkable
class ForecastsCosts(Protocol):
    """A target that knows more of what a case will cost than how many calls it takes."""

    def forecast(self, case: Case) -> Spend:
        """Calls, tokens and USD, by the length of prompts and references."""
        ...


@runtime_checkable
class Summarized(Protocol):
    """A target that says in a few words what it is."""

    @property
    def plan_summary(self) -> str:
        """What is optimised, for a line of a plan."""
        ...


@runtime_checkable
class HoldsPrompts(Protocol):
    """A target that is the prompts of an agent which is only called."""

    @property
    def prompts_summary(self) -> str:
        """What is called and how it gets its prompts, for a line of a plan."""
        ...


@runtime_checkable
class _CallsFunctions(Protocol):
    """A target that may run a Python function of the user's."""

    @property
    def calls_function(self) -> bool:
        """Whether it does."""
        ...


def calls_function(target: Target) -> bool:
    """Whether a run of the target calls a function of the user's, which may block."""
    return isinstance(target, _CallsFunctions) and target.calls_function


class Metric(Protocol):
    """Scores an outcome that has an output; failures never reach it."""

    @property
    def name(self) -> str:
        """What scores and objectives call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its settings, prompts and version; part of every journal key."""
        ...

    def estimate(self, case: Case) -> Spend:
        """What scoring this case will cost; nothing for a metric that computes."""
        ...

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """One score, or one a turn; none when the metric does not apply."""
        ...


class Role(Protocol[Request, Answer]):
    """An LLM with one job, a typed answer and an editable prompt."""

    @property
    def name(self) -> str:
        """Critic, applier, reflector, …"""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its prompt, model and settings; part of every journal key."""
        ...

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are kept."""
        ...

    @property
    def leaf(self) -> bool:
        """Whether asking is itself the paid call, rather than spending through `effects`."""
        ...

    @property
    def priced(self) -> bool:
        """Whether the price of a call is known."""
        ...

    def estimate(self, request: Request, /) -> Spend:
        """What asking will cost, as well as can be told beforehand."""
        ...

    def encode(self, request: Request, /) -> Json:
        """The request as data: what the model will see."""
        ...

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """The answer. Raises RoleFailed when there is none that can be used."""
        ...


class Executor(Protocol):
    """Runs units of work, several at once, and gives the results in the units' order."""

    def map(
        self, units: Iterable[Unit], work: Callable[[Unit], Awaitable[Result]]
    ) -> AsyncGenerator[Result, None]:
        """The results in order. Closing the iterator early leaves nothing running."""
        ...


@dataclass(frozen=True, kw_only=True)
class WorkUnit:
    """One case to run under one candidate: data only, so that it can travel."""

    target: Description
    candidate: Candidate
    case: Case
    draw: int = 0
