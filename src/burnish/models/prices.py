"""What model calls cost, in whole nano-dollars; an unknown price is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from burnish.core.money import to_nano
from burnish.core.outcomes import Usage
from burnish.models.providers import Price, Provider, cost
from burnish.models.references import ModelRef, is_here, is_providers_own
from burnish.system.config import nearest


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of a run.

    In order: the model's own block, the table of the run, the provider's row, genai-prices offline.
    """

    overrides: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """By reference, such as `openai:gpt-4o`."""
    warnings: list[str] = field(default_factory=list[str], compare=False)
    """One warning for each model whose price is unknown."""
    _unlisted: set[tuple[str, str, str]] = field(
        default_factory=set[tuple[str, str, str]], compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for reference in self.overrides:
            ModelRef.parse(reference)

    def nano_usd(self, ref: ModelRef, usage: Usage, model: str = "") -> int | None:
        """What this usage cost.

        `model` is the name from the endpoint: an Azure deployment's name says nothing about prices.
        """
        listing = (ref.label, ref.base_url, model)
        if ref.price is None and listing in self._unlisted:
            return None
        usd = self._usd(ref, usage, model)
        if usd is not None:
            return to_nano(usd)
        self._unlisted.add(listing)
        warning = (
            f"the price of {ref.label} is unknown: its cost is not included in the US dollars "
            "unless you set its price"
        )
        if warning not in self.warnings:
            self.warnings.append(warning)
        return None

    def known(self, ref: ModelRef) -> bool:
        # An embedding model has no price for output, since it gives none.
        usages = (Usage(requests=1, input_tokens=1, output_tokens=out) for out in (1, 0))
        return any(self._usd(ref, usage, "") is not None for usage in usages)

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


def nearest_model(ref: ModelRef) -> str:
    """The listed model of a provider that was probably meant by an unlisted name; empty if none."""
    if not ref.row.price_list or not is_providers_own(ref):
        return ""
    from genai_prices.data_snapshot import get_snapshot

    rows = (row for row in get_snapshot().providers if row.id == ref.row.price_list)
    names = [*ref.row.prices, *(model.id for row in rows for model in row.models)]
    likely = nearest(ref.name, names)
    return "" if likely in (None, ref.name) else f"{ref.row.name}:{likely}"


def _listed(row: Provider, name: str, usage: Usage) -> Decimal | None:
    """The price in the provider's row, or in the data shipped with genai-prices."""
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
