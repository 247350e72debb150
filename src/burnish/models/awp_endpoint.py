"""The one endpoint at which awp-agents asks all its models: `LLM_BASE_URL`, `LLM_API_KEY`."""

import os
from dataclasses import replace

from pydantic import JsonValue

from burnish.models.dotenv import AWP_ADDRESS, AWP_KEY
from burnish.models.providers import find_provider
from burnish.models.references import ModelRef, split_reference

_PROTOCOL = "openai"
"""The provider whose protocol the endpoint has."""


def has_awp_endpoint() -> bool:
    """Whether `LLM_BASE_URL` is set."""
    return bool(os.environ.get(AWP_ADDRESS))


def _endpoint() -> dict[str, JsonValue]:
    """Its address and its key, as a file has them; empty if it is not set."""
    if not has_awp_endpoint():
        return {}
    key = {"api_key": f"${{{AWP_KEY}}}"} if os.environ.get(AWP_KEY) else {}
    return {"base_url": f"${{{AWP_ADDRESS}}}", **key}


def awp_reference(name: str) -> str:
    """A model as awp-agents and other systems name it, as a reference; empty if it is unknown.

    `openai/gpt-5` is `openai:gpt-5`, unless the endpoint is set: then it is a name there.
    """
    if has_awp_endpoint() and find_provider(name.partition(":")[0]) is None:
        return f"{_PROTOCOL}:{name}"
    parts = split_reference(name)
    return f"{parts[0].name}:{parts[1]}" if parts is not None else ""


def awp_model(name: str) -> JsonValue:
    """A model that awp-agents or a flag names, as a file has it: at the endpoint, if that is set.

    `openai:gpt-5` is `gpt-5` there; a reference to another provider stays as it is.
    """
    provider, _, rest = awp_reference(name).partition(":")
    if provider != _PROTOCOL or not has_awp_endpoint():
        return name
    return {"ref": f"{_PROTOCOL}:{rest}", **_endpoint()}


def at_awp_endpoint(ref: ModelRef) -> ModelRef:
    """The model at the endpoint, if that is set and the model has OpenAI's protocol and no address.

    So the models that flags and suites name are where those of the run are.
    """
    if ref.provider != _PROTOCOL or ref.base_url:
        return ref
    return replace(ref, **_endpoint())
