"""`burnish models chat`: answers on stdout, everything else on stderr."""

import asyncio
import sys
from collections.abc import Iterator

import typer

from burnish.core.errors import BurnishError
from burnish.core.messages import Message
from burnish.core.money import to_usd
from burnish.core.words import duration, money
from burnish.effects.passthrough import DirectEffects
from burnish.effects.retries import RetryPolicy
from burnish.models.chat import ChatRequest, Priced
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef

_PATIENCE = RetryPolicy(attempts=2)
"""Somebody is waiting: try once more, then say what is wrong."""


class Conversation:
    """What was said so far, and the model that hears it."""

    def __init__(self, ref: ModelRef, *, system: str = "", models: Models | None = None) -> None:
        self._models = models or Models(retries=_PATIENCE)
        self._client = self._models.client(ref)
        self._said = (Message(role="system", content=system),) if system else ()

    def check(self) -> None:
        """Raise what would keep the model from answering."""
        self._client.check()

    async def say(self, text: str) -> Priced:
        """The answer to one more message; one that fails leaves nothing behind."""
        said = (*self._said, Message(role="user", content=text))
        request = ChatRequest(messages=said)
        try:
            # The draw makes no difference in a chat: every message is said once.
            priced = await self._client.ask(request, draw=0, effects=DirectEffects())
        except (ModelRejected, ModelUnavailable) as error:
            raise BurnishError(str(error)) from error
        self._said = (*said, Message(role="assistant", content=priced.reply.text))
        return priced

    async def close(self) -> None:
        """Let go of the model."""
        await self._models.close()


def talk(conversation: Conversation, message: str | None) -> None:
    """One answer, or one for each line of stdin."""
    conversation.check()
    with asyncio.Runner() as runner:
        try:
            if message is None:
                _converse(conversation, runner)
            else:
                _show(runner.run(conversation.say(message)))
        finally:
            runner.run(conversation.close())


def _converse(conversation: Conversation, runner: asyncio.Runner) -> None:
    """An answer that fails does not end a conversation, but its exit code tells."""
    failed = False
    for line in _lines():
        try:
            _show(runner.run(conversation.say(line)))
        except BurnishError as error:
            failed = True
            typer.echo(f"error: {error}", err=True)
    if failed:
        raise typer.Exit(1)


def _lines() -> Iterator[str]:
    shown = sys.stdin.isatty()
    while True:
        if shown:
            typer.echo("> ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")


def _show(priced: Priced) -> None:
    reply = priced.reply
    typer.echo(reply.text)
    cost = None if priced.nano_usd is None else to_usd(priced.nano_usd)
    parts = [
        f"{reply.usage.input_tokens} in",
        f"{reply.usage.output_tokens} out",
        duration(reply.seconds),
        money(cost),
    ]
    if reply.finish == "length":
        parts.append("cut off: --max-tokens allows more")
    typer.echo(" · ".join(parts), err=True)
