"""The protocols of targets, metrics, roles and executors, and of the effects they use."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from burnish.core.cases import Case, Outcome
from burnish.core.content import Codec, Json, canonical, computed_once, record, short_id
from burnish.core.errors import NotJournalable, Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Candidate, FileSurface, Surface

T = TypeVar("T")

KEY_SCHEMA = 1
"""Part of every key; increases when the meaning of keys changes."""


@lru_cache
def _head(kind: str, draw: int) -> bytes:
    """What a key begins with."""
    return canonical([KEY_SCHEMA, kind, draw])


@record
class Call(Generic[T]):
    """One effect, identified by its content."""

    kind: str
    request: Json
    """Everything that the result depends on: hashes of large data, `${VAR}` unexpanded."""
    codec: Codec[T]
    draw: int = 0
    """The number of the sample, for a stochastic effect."""
    estimate: Spend = field(default_factory=lambda: Spend(calls=1))
    """What is billed if the effect is lost in flight."""
    computed: bool = False
    """A free computation over journaled results, which can be repeated."""
    retried_as_a_whole: bool = False
    """Whether `--retry-missing` repeats its nested effects too, not only the missing ones."""
    otherwise: Callable[[NotJournalable], T] | None = None
    """Replaces a value that has no JSON form; without it, that is an error."""
    own_text: Callable[[], str] | None = None
    """For work on a case, the text of the case: what it contains is no secret in the result. What
    is removed from the result because it looks like one is still seen inside the work."""
    withheld: Callable[[T], T] | None = None
    """Marks a value from which something was removed because it looks like a secret."""
    whole: Callable[[T], None] | None = None
    """Gets the value before that, in the process that made it."""

    @computed_once
    def spelled(self) -> bytes:
        """The request as canonical JSON."""
        return canonical(self.request)

    @computed_once
    def key(self) -> str:
        """A hash that identifies this effect."""
        return hashlib.sha256(_head(self.kind, self.draw) + self.spelled).hexdigest()

    @property
    def paid(self) -> bool:
        """Whether losing it in flight costs anything."""
        return not self.estimate.is_nothing


@record
class Receipt(Generic[T]):
    """The result of an effect and its cost without nested effects."""

    value: T
    spend: Spend = NOTHING
    missing: bool = False
    """The infrastructure failed, or a role gave no usable answer: `--retry-missing` repeats it."""
    mended: tuple[str, ...] = ()
    """Errors in a model's answer that were repaired."""
    unusable: tuple[str, ...] = ()
    """Answers before this one that could not be used, as the model wrote them."""


class Effects(Protocol):
    """Performs each effect once."""

    async def once(self, call: Call[T], perform: "Callable[[Scope], Awaitable[Receipt[T]]]") -> T:
        """The result of `call`, from the journal if possible, otherwise performed and stored.

        `perform` receives the scope for nested effects.
        """
        ...


class Scope(Effects, Protocol):
    """Effects of one piece of work that record what it used."""

    @property
    def used(self) -> Mapping[str, Spend]:
        """By key, what each effect used so far cost, including nested ones."""
        ...


Request = TypeVar("Request", contravariant=True)
Answer = TypeVar("Answer")
Unit = TypeVar("Unit")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Description:
    """A target as data, from which a worker elsewhere can build it again."""

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
        """The target as data."""
        ...

    @property
    def surfaces(self) -> Sequence[Surface]:
        """What may be edited."""
        ...

    @property
    def baseline(self) -> Candidate:
        """Its current values."""
        ...

    @property
    def leaf(self) -> bool:
        """Whether a run is itself the paid call instead of spending through `effects`."""
        ...

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """What is wrong with a candidate beyond its bounds, without calls or effects."""
        ...

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """Run one case. An agent's failure and a missing result are outcomes, not exceptions."""
        ...

    def estimate(self, case: Case) -> Spend:
        """The expected cost of running this case."""
        ...

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The candidate as files that a user can adopt, by path relative to the folder `home`.

        Paths inside the files must be valid from there.
        """
        ...


@runtime_checkable
class KnowsSecrets(Protocol):
    """Whoever sends values that must not be stored: a target, or the models."""

    def secrets(self) -> Sequence[str]: ...


@runtime_checkable
class _AnswersFromAfar(Protocol):
    @property
    def reply_source(self) -> str: ...


def reply_source(target: Target) -> str:
    """Where the replies of another program are read: its address, and the fields of its answers.

    Empty for a target that runs here.
    """
    inner = getattr(target, "target", target)
    agent = getattr(inner, "agent", inner)
    return agent.reply_source if isinstance(agent, _AnswersFromAfar) else ""


@runtime_checkable
class Rehearsable(Protocol):
    """A target that can show what a run would do, with journaled effects only."""

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """Run one case on `effects` alone.

        Anything else, such as calling a user's function, is replaced by its result in `past`, or
        by an effect that does not exist, which ends the rehearsal.
        """
        ...


@runtime_checkable
class _TakesNewFiles(Protocol):
    def new_file_problem(self, path: str) -> str: ...


def new_file_problem(target: Target, path: str) -> str:
    """Why a candidate of this target may not add a file; empty if it may."""
    if isinstance(target, _TakesNewFiles):
        return target.new_file_problem(path)
    return "this is not one of the files that may be edited"


@runtime_checkable
class _RunsCode(Protocol):
    def may_write(self, candidate: Candidate, case: Case, number: str) -> bool: ...


def forgeable(
    target: Target, candidate: Candidate, cases: Iterable[Case], numbers: Iterable[str]
) -> tuple[str, ...]:
    """Those of these numbers that code of the candidate may have written itself.

    So it is where a process that can run the code of a candidate also reports numbers about it.
    """
    if not isinstance(target, _RunsCode):
        return ()
    cases = tuple(cases)
    return tuple(
        name
        for name in dict.fromkeys(numbers)
        if any(target.may_write(candidate, case, name) for case in cases)
    )


def surfaces_of(target: Target, candidate: Candidate) -> dict[str, Surface]:
    """The surfaces of a target by name, and those of the files that a candidate has added."""
    own: dict[str, Surface] = {surface.id: surface for surface in target.surfaces}
    new = [name for name in candidate.values if name not in own]
    added = [name for name in new if not new_file_problem(target, name)]
    return own | {name: FileSurface(id=name, path=name) for name in added}


@runtime_checkable
class _TakesTurns(Protocol):
    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[object]: ...


def takes_turns(target: Target) -> bool:
    """Whether the target can have one candidate at a time."""
    return isinstance(target, _TakesTurns)


def held(target: Any, candidate: Candidate) -> AbstractAsyncContextManager[object]:
    """A context in which the target has the values of this candidate.

    Targets that can have one candidate at a time, such as files on disk, wait for it.
    """
    # For every case: Python 3.11 takes ten times as long to check a protocol.
    return target.held(candidate) if hasattr(target, "held") else nullcontext()


@runtime_checkable
class ForecastsCosts(Protocol):
    """A target that knows more about the cost of a case than the number of calls."""

    def forecast(self, case: Case) -> Spend:
        """Expected calls, tokens and USD, from the length of prompts and references."""
        ...


@runtime_checkable
class Summarized(Protocol):
    """A target that describes itself in a few words."""

    @property
    def plan_summary(self) -> str:
        """A description of what is optimised, for a plan."""
        ...


@runtime_checkable
class HoldsPrompts(Protocol):
    """A target that consists of the prompts of an external agent."""

    @property
    def prompts_summary(self) -> str:
        """How the agent is called and gets its prompts, for a plan."""
        ...


@runtime_checkable
class _CallsFunctions(Protocol):
    @property
    def calls_function(self) -> bool: ...


def calls_function(target: Target) -> bool:
    """Whether a run of the target calls a user's Python function, which may block."""
    return isinstance(target, _CallsFunctions) and target.calls_function


class Metric(Protocol):
    """Scores an outcome that has an output; failures never reach it."""

    @property
    def name(self) -> str:
        """Its name in scores and objectives."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its settings, prompts and version; part of every journal key."""
        ...

    def estimate(self, case: Case) -> Spend:
        """The expected cost of scoring this case; NOTHING for a metric that computes."""
        ...

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """One score, or one per turn; none when the metric does not apply."""
        ...


@runtime_checkable
class DescribedMetric(Protocol):
    """A metric that says what its scores are."""

    @property
    def needs(self) -> str:
        """What a case must have to be scored, in words; empty if every case is."""
        ...

    @property
    def judges(self) -> bool:
        """Whether its scores pass or fail: by a threshold, or because they are yes or no."""
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
        """The codec of its answers."""
        ...

    @property
    def leaf(self) -> bool:
        """Whether an answer is itself the paid call instead of spending through `effects`."""
        ...

    @property
    def priced(self) -> bool:
        """Whether the price of a call is known."""
        ...

    def estimate(self, request: Request, /) -> Spend:
        """The expected cost of an answer."""
        ...

    def encode(self, request: Request, /) -> Json:
        """The request as data: what the model will see."""
        ...

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """The answer; raises RoleFailed when there is no usable one."""
        ...


class Executor(Protocol):
    """Runs several units of work at once and returns the results in their order."""

    def map(
        self, units: Iterable[Unit], work: Callable[[Unit], Awaitable[Result]]
    ) -> AsyncGenerator[Result, None]:
        """The results in order. Closing the iterator early leaves nothing running."""
        ...


@record
class WorkUnit:
    """One case to run under one candidate: data only, so that it can travel."""

    target: Description
    candidate: Candidate
    case: Case
    draw: int = 0
