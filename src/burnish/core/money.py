"""What effects cost: calls, tokens, and US dollars as integer nano-dollars."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

NANO = 1_000_000_000


def to_nano(usd: float | Decimal | str) -> int:
    """US dollars as nano-dollars, rounded to the nearest."""
    return int((Decimal(str(usd)) * NANO).to_integral_value())


def to_usd(nano: int) -> float:
    """Nano-dollars as US dollars, for showing."""
    return nano / NANO


@dataclass(frozen=True, kw_only=True, init=False)
class Spend:
    """An amount of everything that budgets limit. Amounts add up exactly."""

    metric_calls: int = 0
    """Cases run; gepa and AgentOptimizer call them metric calls."""
    calls: int = 0
    """Paid calls of any kind: agent, judge, proposer."""
    tokens_in: int = 0
    tokens_out: int = 0
    nano_usd: int = 0
    unpriced: int = 0
    """Calls whose price is unknown. Their cost is not zero, but not part of `nano_usd`."""

    def __init__(
        self,
        *,
        metric_calls: int = 0,
        calls: int = 0,
        tokens_in: int = 0,
        tokens_out: int = 0,
        nano_usd: int = 0,
        unpriced: int = 0,
    ) -> None:
        # Every case makes a dozen, and a frozen dataclass takes twice as long to set its fields.
        fields = self.__dict__
        fields["metric_calls"] = metric_calls
        fields["calls"] = calls
        fields["tokens_in"] = tokens_in
        fields["tokens_out"] = tokens_out
        fields["nano_usd"] = nano_usd
        fields["unpriced"] = unpriced

    @property
    def amounts(self) -> tuple[int, int, int, int, int, int]:
        """The amounts in the order of the fields."""
        sizes = (self.metric_calls, self.calls, self.tokens_in, self.tokens_out)
        return (*sizes, self.nano_usd, self.unpriced)

    @property
    def tokens(self) -> int:
        """Tokens in both directions."""
        return self.tokens_in + self.tokens_out

    @property
    def usd(self) -> float | None:
        """US dollars, or None as soon as one call's price is unknown."""
        return None if self.unpriced else to_usd(self.nano_usd)

    @property
    def is_nothing(self) -> bool:
        """Whether every amount is zero."""
        return self is NOTHING or self == NOTHING

    def __add__(self, other: "Spend") -> "Spend":
        # Most sums are with nothing, and every case makes a dozen.
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Spend(
            metric_calls=self.metric_calls + other.metric_calls,
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            nano_usd=self.nano_usd + other.nano_usd,
            unpriced=self.unpriced + other.unpriced,
        )

    def minus(self, other: "Spend") -> "Spend":
        """The difference of two amounts."""
        return Spend.of(map(operator.sub, self.amounts, other.amounts))

    def times(self, n: int) -> "Spend":
        """The same amount n times."""
        if n == 1:  # most cases have one turn
            return self
        return Spend.of(amount * n for amount in self.amounts)

    def at_least(self, other: "Spend") -> "Spend":
        """Of each amount the larger one."""
        return Spend.of(map(max, self.amounts, other.amounts))

    @classmethod
    def of(cls, amounts: Iterable[int]) -> "Spend":
        """Create a Spend from amounts in the order of the fields."""
        # Those of a damaged journal may be anything.
        a, b, c, d, e, f = map(int, amounts)
        return cls(metric_calls=a, calls=b, tokens_in=c, tokens_out=d, nano_usd=e, unpriced=f)


NOTHING = Spend()


def total(spends: Iterable[Spend]) -> Spend:
    """The sum of many amounts."""
    return sum(spends, NOTHING)
