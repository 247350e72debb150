"""The models of a project: which backend reaches which model, with shared limits and prices."""

import os
from collections.abc import Mapping
from dataclasses import replace

from pydantic import Field

from burnish.core.content import AtLeastOne, Places
from burnish.journal.limits import EndpointLimit, Limits, RetryPolicy
from burnish.models.chat import RETRIES, Backend, ModelClient
from burnish.models.keys import referred
from burnish.models.model_block import PriceBlock
from burnish.models.prices import Prices
from burnish.models.providers import find_provider
from burnish.models.references import ModelRef, ModelSettings
from burnish.system.settings import Settings

_DEFAULT_LIMITS = {"local": EndpointLimit(concurrency=1)}
"""The embedded model answers one at a time; waiting for it is not its slowness."""


class Models:
    """The models of one project. Backends are made when they are first needed.

    `backends` by provider replaces the real ones: scripted doubles come in here.
    """

    def __init__(
        self,
        *,
        prices: Prices | None = None,
        limits: Limits | None = None,
        retries: RetryPolicy = RETRIES,
        backends: Mapping[str, Backend] | None = None,
    ) -> None:
        self.prices = prices or Prices()
        self._limits = limits or Limits(_DEFAULT_LIMITS)
        self._retries = retries
        self._doubles = dict(backends or {})
        self._made: dict[str, Backend] = {}
        self._keys: set[str] = set()

    def client(self, ref: ModelRef, settings: ModelSettings | None = None) -> ModelClient:
        """A client for a model; `settings` fill in what the reference leaves open."""
        self._keys.update(referred(ref.api_key))
        if settings is not None:
            merged = {**settings.sent(), **ref.settings.sent()}
            ref = replace(ref, settings=replace(ref.settings, **merged))
        return ModelClient(
            ref=ref,
            backend=self._backend(ref.provider),
            prices=self.prices,
            limits=self._limits,
            retries=self._retries,
        )

    def secrets(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """The keys that the models were given by name, whatever their variables are called."""
        env = os.environ if environ is None else environ
        return sorted(env[name] for name in self._keys if env.get(name, "").strip())

    async def close(self) -> None:
        """Let go of connections and memory."""
        for backend in self._made.values():
            await backend.close()
        self._made.clear()

    def _backend(self, provider: str) -> Backend:
        if provider in self._doubles:
            return self._doubles[provider]
        row = find_provider(provider)
        kind = "embedded" if row is not None and row.protocol == "embedded" else "wire"
        if kind not in self._made:
            self._made[kind] = _reached(kind)
        return self._made[kind]


def _reached(kind: str) -> Backend:
    if kind == "embedded":
        from burnish.models.embedded import EmbeddedBackend

        return EmbeddedBackend()
    from burnish.models.wire import WireBackend

    return WireBackend()


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
            limits=Limits(_DEFAULT_LIMITS | _limits(self.limits)),
            retries=RetryPolicy(
                attempts=self.attempts,
                first_wait=RETRIES.first_wait,
                longest_wait=RETRIES.longest_wait,
            ),
        )


def _limits(blocks: Mapping[str, LimitBlock]) -> dict[str, EndpointLimit]:
    return {name: EndpointLimit(**block.model_dump()) for name, block in blocks.items()}
