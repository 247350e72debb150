"""Where a model is: at its provider's own address, on this machine, or anywhere else."""

import os
import re
from urllib.parse import urlsplit

from burnish.core.errors import ConfigError
from burnish.models.references import ModelRef
from burnish.system import expand_variables

_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")


def is_here(ref: ModelRef) -> bool:
    """Whether the model runs on this machine."""
    row = ref.row
    if row.is_local and (row.protocol == "embedded" or not ref.base_url):
        return True
    return bool(_LOOPBACK.fullmatch(host_of(ref)))


def is_providers_own(ref: ModelRef) -> bool:
    """Another endpoint may speak the same protocol under the same names, at prices of its own."""
    host = host_of(ref)
    own = ref.row.hosts
    return not ref.base_url or any(host == name or host.endswith(f".{name}") for name in own)


def host_of(ref: ModelRef) -> str:
    """The host of the model's address; empty when it has none."""
    try:
        address = expand_variables(ref.base_url, os.environ)
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except (ConfigError, ValueError):
        return ""
