"""`burnish models chat` and `list`."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer

from burnish.core.cases import Message
from burnish.core.errors import BurnishError
from burnish.core.formatting import duration, money
from burnish.core.money import to_usd
from burnish.journal.limits import RetryPolicy
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatRequest, Priced
from burnish.models.embedded.files import (
    EMBEDDING,
    KNOWN,
    ModelFile,
    find_model,
    find_usable,
    models_folder,
)
from burnish.models.embedded.server import require_engine
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.reports.rendering import Columns

_PATIENCE = RetryPolicy(attempts=2)
"""Somebody is waiting: try once more, then say what is wrong."""


class Conversation:
    """What was said so far, and the model that hears it."""

    def __init__(self, ref: ModelRef, *, system: str = "", models: Models | None = None) -> None:
        self._models = models or Models(retries=_PATIENCE)
        self._client = self._models.client(ref)
        self._messages = (Message(role="system", content=system),) if system else ()

    def check(self) -> None:
        """Raise what would keep the model from answering."""
        self._client.check()

    async def say(self, text: str) -> Priced:
        """The answer to one more message; one that fails leaves nothing behind."""
        messages = (*self._messages, Message(role="user", content=text))
        request = ChatRequest(messages=messages)
        try:
            # The draw makes no difference in a chat: every message is said once.
            priced = await self._client.ask(request, draw=0, effects=DirectEffects())
        except (ModelRejected, ModelUnavailable) as error:
            raise BurnishError(str(error)) from error
        self._messages = (*messages, Message(role="assistant", content=priced.reply.text))
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


# -- `burnish models list` ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One kind of model, or one file."""

    model: str
    ready: bool
    told: str
    remedy: str = ""


def print_models(*, as_json: bool) -> None:
    """Everything that can be asked, or could be."""
    entries = list(model_entries(Models()))
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], ensure_ascii=False, indent=2))
        return
    table = Columns(
        "model", "", "what is here", "what to do", folded=("what is here", "what to do")
    )
    for entry in entries:
        table.add(entry.model, "✓" if entry.ready else "–", entry.told, entry.remedy)
    table.show()


def model_entries(models: Models) -> Iterator[_Entry]:
    """The embedded ones with their files, then a line for each way to reach others."""
    for name, carried in KNOWN.items():
        path = find_model(name)
        yield _entry(models, ModelRef(provider="local", name=name), carried.description, path)
    for path in _other_files():
        yield _entry(models, ModelRef(provider="local", name=str(path)), "", path)
    yield _any_file()
    for name, (carried, *_) in EMBEDDING.items():
        yield _embedding(name, carried)
    for row in (row for row in all_providers() if row.protocol != "embedded"):
        yield _entry(
            models,
            ModelRef(provider=row.name, name="…"),
            "can be asked; `burnish doctor` tells whether it answers",
        )
    own = ModelRef(provider="openai", name="…", base_url="http://localhost")
    description = "for any OpenAI-compatible endpoint"
    yield replace(_entry(models, own, description), model="openai:… + base_url")


def _entry(models: Models, ref: ModelRef, description: str, path: Path | None = None) -> _Entry:
    try:
        models.client(ref).check()
    except BurnishError as error:
        return _Entry(model=ref.label, ready=False, told=error.message, remedy=error.remedy)
    where = description if path is None else f"{path.stat().st_size / 1e6:,.0f} MB, {path}"
    return _Entry(model=ref.label, ready=True, told=where)


def _embedding(name: str, carried: ModelFile) -> _Entry:
    """A model that makes embeddings, for the search tools of an agent."""
    from burnish.retrieval.embedders import MiniLmEmbedder

    try:
        MiniLmEmbedder().check()
    except ModelRefused as error:
        return _Entry(model=f"local:{name}", ready=False, told=error.message, remedy=error.remedy)
    return _Entry(
        model=f"local:{name}", ready=True, told=f"{carried.description}, {find_usable(carried)}"
    )


def _any_file() -> _Entry:
    name = "local:FILE.gguf"
    try:
        require_engine()
    except ModelRefused as error:
        return _Entry(model=name, ready=False, told=error.message, remedy=error.remedy)
    return _Entry(model=name, ready=True, told="for any GGUF file, by its path")


def _other_files() -> list[Path]:
    shipped = {carried.file for carried in KNOWN.values()}
    return [path for path in sorted(models_folder().glob("*.gguf")) if path.name not in shipped]
