"""What calls of models cost, in whole nano-dollars; an unknown price is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from burnish.core.money import to_nano
from burnish.core.outcomes import Usage
from burnish.models.providers import Price, Provider, cost
from burnish.models.references import ModelRef, is_here, is_providers_own

_ONE = Usage(requests=1, input_tokens=1, output_tokens=1)
_ONE_WAY = Usage(requests=1, input_tokens=1)
"""What an embedding model is listing: it has no price for output, since it gives none."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of a run: what a model's own block says, then the table of the run, then the
    provider's row and what genai-prices knows offline."""

    overrides: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """By reference, such as `openai:gpt-4o`."""
    warnings: list[str] = field(default_factory=list[str], compare=False)
    """One sentence for each model whose price is unknown."""
    _unlisted: set[tuple[str, str, str]] = field(
        default_factory=set[tuple[str, str, str]], compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for reference in self.overrides:
            ModelRef.parse(reference)

    def nano_usd(self, ref: ModelRef, usage: Usage, model: str = "") -> int | None:
        """What this usage cost.

        `model` is what the endpoint says it is: the name of an Azure deployment says nothing of
        a price.
        """
        listing = (ref.label, ref.base_url, model)
        if ref.price is None and listing in self._unlisted:
            return None
        usd = self._usd(ref, usage, model)
        if usd is not None:
            return to_nano(usd)
        self._unlisted.add(listing)
        warning = _unknown(ref)
        if warning not in self.warnings:
            self.warnings.append(warning)
        return None

    def known(self, ref: ModelRef) -> bool:
        """Whether the price is known before anything is listing."""
        return any(self._usd(ref, usage, "") is not None for usage in (_ONE, _ONE_WAY))

    def _usd(self, ref: ModelRef, usage: Usage, model: str) -> Decimal | None:
        if own := ref.price or self.overrides.get(ref.label):
            return own.of(usage)
        row = ref.row
        if row.is_local:
            return Decimal(0) if is_here(ref) else None
        if not is_providers_own(ref):
            return None
        listed = (_listed(row, name, usage) for name in (model, ref.name) if name)
        return next((usd for usd in listed if usd is not None), None)


def _listed(row: Provider, name: str, usage: Usage) -> Decimal | None:
    """By the provider's row, or the data that genai-prices carries; it is never fetched anew."""
    if (own := row.prices.get(name)) is not None:
        return own.of(usage)
    if not row.price_list:
        return None
    from genai_prices import Usage as Tokens
    from genai_prices.data_snapshot import get_snapshot

    try:
        home, model = get_snapshot().find_provider_model(name, None, row.price_list, None)
    except LookupError:
        return None
    now = datetime.now(tz=UTC)
    price = model.get_prices(now)
    if price.input_mtok is None or (price.output_mtok is None and usage.output_tokens):
        return None  # it would be added up as 0
    if price.output_mtok is None and isinstance(price.input_mtok, Decimal):
        return cost(usage, price.input_mtok, Decimal(0))  # an embedding says nothing
    if isinstance(price.input_mtok, Decimal) and isinstance(price.output_mtok, Decimal):
        return cost(usage, price.input_mtok, price.output_mtok)
    tokens = Tokens(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return model.calc_price(tokens, home, genai_request_timestamp=now).total_price


def _unknown(ref: ModelRef) -> str:
    return (
        f"the price of {ref.label} is unknown: what it costs is not among the US dollars, "
        "unless you give it a price"
    )
