"""Where the models of a run are, and where their keys come from, for plans and first lines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from burnish.core.content import JsonFields
from burnish.models.dotenv import address_origin
from burnish.models.endpoints import endpoint_of
from burnish.models.errors import ModelRefused
from burnish.models.factory import ModelUse
from burnish.models.references import key_source, shown_address
from burnish.system import Redactor

_LOGINS = {"vertex": "the login of Google Cloud", "bedrock": "the login of AWS"}
"""By protocol, what stands in for a key."""


@dataclass(frozen=True, kw_only=True)
class ModelAddress(JsonFields):
    """A model, the roles for which it is asked, and where it is. Holds no secret."""

    roles: tuple[str, ...]
    model: str
    """Its reference, such as `openai:gpt-5`."""
    address: str = ""
    """Without user and query; empty if the model runs inside this process."""
    key: str = ""
    """The variable that its key comes from, or what stands in for one; empty if it gets no key."""
    file: str = ""
    """The `.env` that the address comes from, and so its key; empty for the user's own."""

    def __str__(self) -> str:
        who = f"{', '.join(self.roles)}: {self.model}"
        if not self.address:
            return f"{who} runs here"
        key = f"key from {self.key}" if self.key else "no key"
        subject = "both" if self.key else "the address"
        from_file = f", {subject} from {self.file}" if self.file else ""
        return f"{who} at {self.address}, {key}{from_file}"


def addresses_of(uses: Iterable[ModelUse]) -> Iterator[ModelAddress]:
    """The address of each model. One that cannot be asked is left out: who needs it says why."""
    for use in uses:
        try:
            yield _address_of(use)
        except ModelRefused:
            continue


def _address_of(use: ModelUse) -> ModelAddress:
    ref = use.client.ref
    if use.is_embedded:
        return ModelAddress(roles=use.roles, model=ref.label)
    endpoint = endpoint_of(ref)
    redactor = Redactor.from_environment(extra=endpoint.secrets)
    return ModelAddress(
        roles=use.roles,
        model=ref.label,
        address=redactor.text(shown_address(endpoint.address)),
        key=key_source(ref) or _LOGINS.get(ref.row.protocol, ""),
        file=str(address_origin(ref.written_address) or ""),
    )
