"""Limits guesses of tokens: so many wrong ones by address, and by the beginning of a token.

Behind a proxy, many people share an address. So a token that begins like one that was right before
counts by itself: whoever fills the limit of an address keeps out only tokens that are new there.
"""

import hashlib
import ipaddress
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from burnish.core.errors import BurnishError
from burnish.server.tokens import Client, TokenBook

T = TypeVar("T")

MINUTES = 5.0
"""How long a wrong token counts."""
OF_ADDRESS = 100
"""Wrong tokens of one address in that time."""
OF_TOKEN = 10
"""Wrong tokens of one address with the same beginning in that time."""
_BEGINNING = 8
"""Characters; the shortest token has twice as many."""
_MOST = 10_000
"""Addresses and beginnings that are remembered; the oldest ones are forgotten."""


class TooManyAttempts(BurnishError):
    """This address has sent too many wrong tokens."""

    def __init__(self, seconds: float) -> None:
        self.seconds = math.ceil(seconds)
        remedy = f"try again in {self.seconds} seconds"
        super().__init__("too many wrong tokens came from your address", remedy=remedy)


@dataclass
class Attempts:
    """The wrong tokens of the last minutes, in the memory of one process."""

    clock: Callable[[], float] = time.monotonic
    _wrong: "OrderedDict[str, deque[float]]" = field(
        default_factory=OrderedDict[str, "deque[float]"], init=False
    )
    _right: "OrderedDict[str, None]" = field(default_factory=OrderedDict[str, None], init=False)

    def client(self, book: TokenBook, address: str, token: str) -> Client | None:
        """Who has a token; None if it is wrong. TooManyAttempts if it is not even looked at."""
        place = _network(address)
        beginning = _mark(token[:_BEGINNING])
        by_token = f"{place} {beginning}"
        if beginning not in self._right:
            self._require_room(place, OF_ADDRESS)
        self._require_room(by_token, OF_TOKEN)
        client = book.client_of(token)
        if client is None:
            self._count(place, OF_ADDRESS)
            self._count(by_token, OF_TOKEN)
        else:
            _remember(self._right, beginning, None)
        return client

    def _require_room(self, key: str, most: int) -> None:
        times = self._wrong.get(key)
        if times is None or len(times) < most:
            return
        if (left := times[0] + MINUTES * 60 - self.clock()) > 0:
            raise TooManyAttempts(left)

    def _count(self, key: str, most: int) -> None:
        times = self._wrong.get(key) or deque[float](maxlen=most)
        times.append(self.clock())
        _remember(self._wrong, key, times)


def _remember(known: "OrderedDict[str, T]", key: str, value: T) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > _MOST:
        known.popitem(last=False)


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _network(address: str) -> str:
    """The address; of version 6 the first half, since the other one is anybody's to choose."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return address
