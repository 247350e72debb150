"""Who answers: tiny requests that cost nothing, all at once, each in a short time."""

import json
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from socket import gaierror
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

_MOST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One question to one address."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    seconds: float = 3.0
    proxied: bool = True
    """Through the proxy of the environment; not for this machine."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What came back: a status with its body, or why nothing did."""

    status: int = 0
    body: bytes = b""
    trouble: str = ""

    def count(self, name: str) -> int:
        """How many things the body lists under this name."""
        try:
            data = json.loads(self.body)
        except ValueError:
            return 0
        listed = cast("dict[str, Any]", data).get(name) if isinstance(data, dict) else None
        return len(cast("list[Any]", listed)) if isinstance(listed, list) else 0


def ask_all(probes: Sequence[Probe], *, seconds: float) -> dict[str, Heard]:
    """What each one answers within these seconds, whatever hangs: a name server may, too."""
    heard: dict[str, Heard] = {}
    asking = [threading.Thread(target=_note, args=(p, heard), daemon=True) for p in probes]
    until = time.monotonic() + seconds
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(max(0.0, until - time.monotonic()))
    late = Heard(trouble=f"no answer within {seconds:g} s")
    known = dict(heard)
    return {probe.name: known.get(probe.name, late) for probe in probes}


def ask(probe: Probe) -> Heard:
    """One answer. What goes wrong is told in our words: theirs may show a header."""
    try:
        request = Request(probe.url, headers=dict(probe.headers))  # noqa: S310
        with _opener(probe).open(request, timeout=probe.seconds) as response:
            return Heard(status=response.status, body=response.read(_MOST_BYTES))
    except HTTPError as error:
        with error:
            return Heard(status=error.code)
    except (OSError, HTTPException) as error:
        return Heard(trouble=_trouble(error, probe.seconds))
    except ValueError:
        return Heard(trouble="the address or the key has characters that cannot be sent")


def _note(probe: Probe, heard: dict[str, Heard]) -> None:
    heard[probe.name] = ask(probe)


def _opener(probe: Probe) -> OpenerDirector:
    """One that follows no redirect: the key would go along."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(None if probe.proxied else {}),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPErrorProcessor(),
        HTTPDefaultErrorHandler(),
        UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _trouble(error: OSError | HTTPException, seconds: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(cause, gaierror):
        return "its name is not known here; is there a network?"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted here"
    if isinstance(cause, ConnectionRefusedError):
        return "nobody listens there"
    return "it cannot be reached"
