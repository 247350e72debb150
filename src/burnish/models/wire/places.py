"""Where a model is reached: the extra it needs, its address and its key, checked for free."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from burnish.core.errors import ConfigError
from burnish.models.keys import key_for, missing_key
from burnish.models.providers import Protocol
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRefused
from burnish.system import expand_variables

_EXTRAS: Mapping[Protocol, tuple[str, str]] = {
    "openai": ("openai", "openai"),
    "azure": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "google": ("google", "google.genai"),
}
"""The extra of burnish that a protocol needs, and the module that it installs."""
NO_KEY = "no-key-needed"
AZURE_V1 = "/openai/v1"
"""Where a resource of Azure speaks OpenAI's own protocol, which takes no version."""
_SERVERLESS = ".models.ai.azure.com"
"""Hosts of Azure that serve one model each, under `/v1`."""
_VERSION = "OPENAI_API_VERSION"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An address and the key for it."""

    address: str
    key: str = field(repr=False)
    api_version: str = ""
    """That of Azure's dated API, whose addresses name the deployment; empty everywhere else."""

    @property
    def is_local(self) -> bool:
        """On this machine."""
        host = urlsplit(self.address).hostname or ""
        return host == "localhost" or host == "::1" or host.startswith("127.")

    @property
    def is_plain_local(self) -> bool:
        """On this machine, and without TLS."""
        return self.is_local and self.address.startswith("http:")

    def url(self, end: str) -> str:
        """The address with more of a path."""
        parts = urlsplit(self.address)
        return parts._replace(path=f"{parts.path}/{end}").geturl()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown."""
        return () if self.key == NO_KEY else (self.key,)


def place_of(ref: ModelRef) -> Place:
    """Where the model is, or ModelRefused with what is missing."""
    _require_extra(ref)
    parts, version = _parts(ref), ""
    if ref.row.protocol == "azure":
        parts, version = _azure(ref, parts)
    elif not parts.path:
        parts = parts._replace(path=ref.row.path)
    try:
        key = key_for(ref)
    except ConfigError as error:
        raise ModelRefused(error.message, remedy=error.remedy) from None
    if key is None and not _does_without(ref):
        raise missing_key(ref)
    return Place(address=parts.geturl(), key=key or NO_KEY, api_version=version)


def _does_without(ref: ModelRef) -> bool:
    optional = ref.row.key_optional
    return optional == "always" or (optional == "elsewhere" and bool(ref.base_url))


def _require_extra(ref: ModelRef) -> None:
    extra, module = _EXTRAS[ref.row.protocol]
    for needed in ("pydantic_ai", module):
        if not _importable(needed):
            message = f"{ref.label} needs the package {needed}, which is not installed"
            raise ModelRefused(message, remedy=f"pip install 'burnish[{extra}]'")


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _parts(ref: ModelRef) -> SplitResult:
    """The address, as it is written or as the provider's is known.

    The SDKs' own variables are not looked at: what a reference says is what a journal key says.
    """
    try:
        written = expand_variables(ref.base_url, os.environ) or ref.row.address
    except ConfigError as error:
        raise ModelRefused(f"the base_url of {ref.label}: {error.message}") from None
    if not written:
        raise _refused(ref, "has no base_url", ref.row.address_hint)
    written = written.strip().rstrip("/")
    try:
        parts = urlsplit(written)
        sane = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        sane = sane and written.isprintable() and " " not in written
    except ValueError:
        raise _not_an_address(ref) from None
    if not sane:
        raise _not_an_address(ref)
    return parts


def _not_an_address(ref: ModelRef) -> ModelRefused:
    remedy = "write it as https://host/v1 or http://host:port/v1"
    return _refused(ref, "has a base_url that is not an address", remedy)


def _azure(ref: ModelRef, parts: SplitResult) -> tuple[SplitResult, str]:
    """The address of Azure's dated API with its version; without one, that of its v1 API."""
    if "/openai/deployments" in parts.path:
        remedy = "write https://RESOURCE.openai.azure.com, and the deployment as the model's name"
        raise _refused(ref, "has a base_url that names more than its resource", remedy)
    if (parts.hostname or "").endswith(_SERVERLESS) and not parts.path.endswith("/v1"):
        parts = parts._replace(path=f"{parts.path}/v1")
    if parts.path.endswith("/v1"):
        if ref.api_version:
            raise _refused(ref, "has an api_version that its address does not take", "remove it")
        return parts, ""
    resource = parts.path.removesuffix("/openai")
    if version := ref.api_version or os.environ.get(_VERSION, "").strip():
        return parts._replace(path=resource), version
    return parts._replace(path=f"{resource}{AZURE_V1}"), ""


def _refused(ref: ModelRef, what: str, remedy: str) -> ModelRefused:
    return ModelRefused(f"the model {ref.label} {what}", remedy=remedy)
