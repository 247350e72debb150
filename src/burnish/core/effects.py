"""Effects: anything paid, done once. The whole secret of resume, caching and exact budgets."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from burnish.core.codec import Codec
from burnish.core.content import Json, canonical
from burnish.core.errors import NotJournalable
from burnish.core.money import NOTHING, Spend

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
