"""Models on Google Cloud and AWS, whose libraries log in by themselves."""

import os
import sys
from typing import TYPE_CHECKING, Any, cast

from burnish.models.errors import ModelRefused
from burnish.models.references import ModelRef

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.models import Model

_VERTEX_LOGIN = (
    "set GOOGLE_CLOUD_PROJECT, and GOOGLE_CLOUD_LOCATION if it is not us-central1, and log in "
    "with `gcloud auth application-default login`; or give the model an api_key: ${NAME}"
)
_BEDROCK_LOGIN = (
    "set AWS_REGION, and log in with `aws configure` or set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK"
)
_LOGINS = {
    "google.auth.exceptions": ("GoogleAuthError", _VERTEX_LOGIN),
    "botocore.exceptions": ("BotoCoreError", _BEDROCK_LOGIN),
}
"""By the module of a library: its errors without an answer, and what to do about them."""
_SERVICE = "bedrock-runtime"


def vertex_model(ref: ModelRef, address: str, key: str, client: "AsyncClient") -> "Model[Any]":
    """Gemini on Google Cloud, with the login of the Google Cloud SDK, or with a key."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider

    location = os.environ.get("GOOGLE_CLOUD_LOCATION", "").strip()
    provider = GoogleCloudProvider(
        api_key=key or None,
        project=None if key else _project(),
        location=None if key else location or None,
        base_url=address if ref.base_url else None,
        http_client=client,
        retry_options=HttpRetryOptions(attempts=1),
    )
    return GoogleModel(ref.name, provider=provider)


def require_project(ref: ModelRef, key: str | None) -> None:
    """Refuse a model on Google Cloud that has neither a key nor a project."""
    if not (key or _project()):
        message = f"the model {ref.label} needs a project of Google Cloud"
        raise ModelRefused(message, remedy=_VERTEX_LOGIN)


def _project() -> str:
    return os.environ.get("GOOGLE_CLOUD_PROJECT", "").strip()


def bedrock_model(ref: ModelRef, address: str, key: str) -> "Model[Any]":
    """Models on AWS, with the login of the AWS command line, or with a key of Bedrock."""
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    places = map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION"))
    options: dict[str, Any] = {
        "base_url": address if ref.base_url else None,
        "region_name": next(filter(None, places), None),
        "api_key": key or None,
        "aws_read_timeout": ref.settings.timeout or 600.0,
        "aws_connect_timeout": 15.0,
    }
    provider = BedrockProvider(**options)
    # Retries are counted by burnish, not hidden in the library, which registers its own like this.
    events = cast("Any", provider).client.meta.events
    events.unregister(f"needs-retry.{_SERVICE}", unique_id=f"retry-config-{_SERVICE}")
    return BedrockConverseModel(ref.name, provider=provider)


def login_errors() -> tuple[type[Exception], ...]:
    """What those libraries raise, as far as they are loaded."""
    return tuple(
        getattr(sys.modules[module], name)
        for module, (name, _) in _LOGINS.items()
        if module in sys.modules
    )


def login_remedy(error: Exception) -> str:
    """What to do about a failed login; empty if it is another error."""
    for module, (name, remedy) in _LOGINS.items():
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return remedy
    return ""
