"""The one endpoint at which awp-agents asks all its models: `LLM_BASE_URL`, `LLM_API_KEY`."""

import os
from dataclasses import replace

from pydantic import JsonValue

from burnish.models.dotenv import AWP_ADDRESS, AWP_KEY
from burnish.models.providers import find_provider
from burnish.models.references import ModelRef, split_reference

_PROTOCOL = "openai"
"""The provider whose protocol the endpoint has."""


def awp_model(name: str) -> JsonValue:
    """A model at the endpoint, as a file has it; None if the endpoint is not set."""
    if not os.environ.get(AWP_ADDRESS):
        return None
    block: dict[str, JsonValue] = {"ref": f"{_PROTOCOL}:{name}", "base_url": f"${{{AWP_ADDRESS}}}"}
    return {**block, "api_key": f"${{{AWP_KEY}}}"} if os.environ.get(AWP_KEY) else block


def awp_name(name: str) -> str:
    """The name at the endpoint of a model in a file of awp-agents; empty for another provider's.

    `openai:gpt-5` is `gpt-5`; every name without a provider of burnish is as it stands.
    """
    provider, _, rest = name.partition(":")
    row = find_provider(provider)
    if row is None:
        return name
    return rest if row.name == _PROTOCOL else ""


def awp_reference(name: str) -> str:
    """A model as awp-agents and other systems name it, as a reference; empty if it is unknown.

    `openai/gpt-5` is `openai:gpt-5`, unless the endpoint is set: then it is a name there.
    """
    if os.environ.get(AWP_ADDRESS) and find_provider(name.partition(":")[0]) is None:
        return f"{_PROTOCOL}:{name}"
    parts = split_reference(name)
    return f"{parts[0].name}:{parts[1]}" if parts is not None else ""


def flagged_model(name: str) -> JsonValue:
    """A model that a flag names, as a file has it: at the endpoint, if that is set."""
    provider, _, rest = awp_reference(name).partition(":")
    return (awp_model(rest) if provider == _PROTOCOL else None) or name


def at_awp_endpoint(ref: ModelRef) -> ModelRef:
    """The model at the endpoint, if that is set and the model has OpenAI's protocol and no address.

    So the models that flags and suites name are where those of the run are.
    """
    if ref.provider != _PROTOCOL or ref.base_url or not os.environ.get(AWP_ADDRESS):
        return ref
    key = f"${{{AWP_KEY}}}" if os.environ.get(AWP_KEY) else ref.api_key
    return replace(ref, base_url=f"${{{AWP_ADDRESS}}}", api_key=key)
