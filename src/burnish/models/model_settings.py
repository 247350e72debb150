"""How the models of a project are called: prices, limits and retries."""

from collections.abc import Mapping

from pydantic import Field

from burnish.effects.limits import EndpointLimit
from burnish.effects.limits import Limits as EndpointLimits
from burnish.effects.retries import RetryPolicy
from burnish.models.calling import RETRIES
from burnish.models.factory import DEFAULT_LIMITS, Models
from burnish.models.model_block import PriceBlock
from burnish.models.prices import Prices
from burnish.system.settings import AtLeastOne, Places, Settings


class LimitBlock(Settings):
    """What one endpoint stands."""

    concurrency: Places = 16
    per_minute: AtLeastOne | None = None


class ModelsBlock(Settings):
    """How models are called, whichever they are."""

    prices: dict[str, PriceBlock] = Field(default_factory=dict[str, PriceBlock])
    """By reference, such as `openai:gpt-4o`; stronger than the built-in table."""
    limits: dict[str, LimitBlock] = Field(default_factory=dict[str, LimitBlock])
    """By provider or base_url."""
    attempts: AtLeastOne = RETRIES.attempts
    """How often a call is tried before its result is missing."""

    def models(self) -> Models:
        """The models of the project."""
        prices = {name: block.price() for name, block in self.prices.items()}
        return Models(
            prices=Prices(overrides=prices),
            limits=EndpointLimits(DEFAULT_LIMITS | _limits(self.limits)),
            retries=RetryPolicy(
                attempts=self.attempts,
                first_wait=RETRIES.first_wait,
                longest_wait=RETRIES.longest_wait,
            ),
        )


def _limits(blocks: Mapping[str, LimitBlock]) -> dict[str, EndpointLimit]:
    return {name: EndpointLimit(**block.model_dump()) for name, block in blocks.items()}
