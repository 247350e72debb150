"""Calls between a run and a worker, in both directions, over any way to send messages.

Keys are sealed for one worker, so that nobody who passes messages on or logs them can read one.
"""

import asyncio
import itertools
import json
import pickle
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from burnish.core.errors import BurnishError
from burnish.journal.executors import CancelledInside, task_cancelled

_PADDING = padding.OAEP(mgf=padding.MGF1(SHA256()), algorithm=SHA256(), label=None)


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """Variables, encrypted for one worker."""

    secret: bytes
    """The key of the text, for the private key of the worker."""
    text: bytes


def seal(keys: Mapping[str, str], public_key: bytes) -> Sealed:
    """Encrypt variables for whoever made the public key."""
    public = load_der_public_key(public_key)
    assert isinstance(public, rsa.RSAPublicKey)
    secret = Fernet.generate_key()
    text = Fernet(secret).encrypt(json.dumps(dict(keys)).encode())
    return Sealed(secret=public.encrypt(secret, _PADDING), text=text)


class Opener:
    """Makes a pair of keys, and opens what was sealed for it."""

    def __init__(self) -> None:
        self._private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def public_key(self) -> bytes:
        """What `seal` needs; anybody may see it."""
        public = self._private.public_key()
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def open(self, sealed: Sealed) -> dict[str, str]:
        """The variables."""
        secret = self._private.decrypt(sealed.secret, _PADDING)
        return json.loads(Fernet(secret).decrypt(sealed.text))


@dataclass(frozen=True, kw_only=True)
class LinkMessage:
    """One step of a call."""

    kind: Literal["call", "return", "raise", "cancel"]
    number: int
    """The number of the call at the side that made it."""
    method: str = ""
    value: Any = field(default=None, repr=False)
    """The arguments, the result or the error; not shown, since it may hold what nobody may read."""


_Handler: TypeAlias = Callable[..., Awaitable[Any]]
_Clean: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""


class Link:
    """One side: calls methods of the other side, and serves its own.

    A call that is cancelled is cancelled at the other side too.
    """

    def __init__(
        self,
        send: Callable[[LinkMessage], None],
        handlers: Mapping[str, _Handler],
        *,
        clean: _Clean = str,
    ) -> None:
        self._send = send
        self._handlers = handlers
        self._clean = clean
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._broken: Exception | None = None

    @property
    def broken(self) -> bool:
        """Whether the other side is gone."""
        return self._broken is not None

    async def call(self, method: str, *args: Any) -> Any:
        """The result of a method of the other side; raises what it raised."""
        if self._broken is not None:
            raise self._broken
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send(LinkMessage(kind="call", number=number, method=method, value=args))
        try:
            return await answer
        except asyncio.CancelledError:
            if self._broken is None:
                self._send(LinkMessage(kind="cancel", number=number))
            raise
        finally:
            self._waiting.pop(number, None)

    def tell(self, method: str, *args: Any) -> None:
        """Call a method of the other side without waiting for its end."""
        if self._broken is None:
            number = next(self._numbers)
            self._send(LinkMessage(kind="call", number=number, method=method, value=args))

    def receive(self, message: LinkMessage) -> None:
        """Take a message from the other side."""
        if self._broken is not None:
            return
        number = message.number
        if message.kind == "call":
            self._serving[number] = asyncio.create_task(self._serve(message))
        elif message.kind == "cancel":
            if number in self._serving:
                self._serving[number].cancel()
        elif (answer := self._waiting.get(number)) is not None and not answer.done():
            if message.kind == "return":
                answer.set_result(message.value)
            else:
                answer.set_exception(message.value)

    async def _serve(self, message: LinkMessage) -> None:
        number, reply = message.number, "return"
        try:
            result = await self._handlers[message.method](*message.value)
        except asyncio.CancelledError:
            if task_cancelled():
                return  # nobody waits for it any more
            reply, result = "raise", CancelledInside()
        except Exception as error:  # noqa: BLE001 - raised again at the other side
            reply, result = "raise", portable(error, self._clean)
        finally:
            self._serving.pop(number, None)
        if self._broken is None:
            self._send(LinkMessage(kind=reply, number=number, value=result))

    async def break_off(self, error: Exception) -> None:
        """Fail every call that waits, and cancel what is being served for the other side."""
        if self._broken is not None:
            return
        self._broken = error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
        serving = list(self._serving.values())
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


class RemoteFailure(Exception):
    """An error of another process whose type cannot travel; its text has it."""


def portable(error: Exception, clean: _Clean = str) -> Exception:
    """The error, or one with the same text if it cannot be sent or contains a secret."""
    text = clean(str(error))
    known = type(error).__module__.partition(".")[0] in ("builtins", "burnish")
    if known and text == str(error) and _survives(error):
        return error
    if isinstance(error, BurnishError):
        return BurnishError(clean(error.message), remedy=clean(error.remedy))
    return RemoteFailure(f"{type(error).__name__}: {text}")


def _survives(error: Exception) -> bool:
    """Whether the other side would get the same error."""
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
    except Exception:  # noqa: BLE001 - what it holds may refuse in any way
        return False
    return type(copy) is type(error) and str(copy) == str(error)
