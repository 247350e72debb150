"""A small corpus, an embedder that knows which of its words mean the same, and an embeddings
endpoint on a real socket."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from burnish.core.protocols import Effects
from burnish.journal.once import DirectEffects
from burnish.retrieval import (
    Chunk,
    Embedder,
    Hit,
    Index,
    Indexes,
    SearchSettings,
    SourceSettings,
    Vector,
    search,
)
from burnish.retrieval.documents import find_files, read_chunks
from burnish.testing.doubles import CallCounter
from burnish.testing.servers import HttpRequest, head, read_request

MEANINGS = (
    ("refund", "refunds", "money", "back", "reimbursed", "repaid"),
    ("parcel", "parcels", "shipping", "delivery", "delivered", "courier"),
    ("cat", "cats", "kitten", "purrs"),
    ("invoice", "invoices", "bill", "billing"),
)
"""Words of one line mean the same to the embedder."""

SHOP = """\
# Shop handbook

## Returns

Customers are reimbursed within 14 days. Ask for the form.

## Delivery

A courier brings every order. The policy on refund of postage is with the courier.

## Billing

The invoice comes by mail. The code ERR-1042 means that an invoice was not found.

## Office

The cat sleeps on the invoice. The cat is not for sale, and no refund is given for the cat.
"""


@dataclass(frozen=True, kw_only=True)
class MeaningEmbedder:
    """One dimension a meaning, and a last one for everything else."""

    name: str = "meanings"
    asked: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    counter: CallCounter | None = None

    @property
    def identity(self) -> str:
        return self.name

    def check(self) -> None: ...

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        self.asked.append(tuple(texts))
        if self.counter is not None:
            self.counter.count(f"embed {len(texts)}")
        return [_vector(text) for text in texts]

    async def close(self) -> None: ...


def _vector(text: str) -> list[float]:
    words = [word.strip(".,?!").lower() for word in text.split()]
    meant = [float(sum(word in line for word in words)) for line in MEANINGS]
    return [*meant, 0.1]


def write(folder: Path, **files: str) -> None:
    """Files by their stems: `shop_md` is shop.md."""
    for name, text in files.items():
        (folder / ".".join(name.rsplit("_", 1))).write_text(text, encoding="utf-8")


def chunks_of(folder: Path, source: str, **settings: Any) -> list[Chunk]:
    """The chunks of a source."""
    wanted = SourceSettings(source=source, folder=folder, **settings)
    return read_chunks(wanted, find_files(wanted))


async def opened(
    folder: Path, source: str = "shop.md", embedder: Embedder | None = None, **settings: Any
) -> Index:
    """An index, by itself."""
    usual: dict[str, Any] = {"chunking": "structure"}
    wanted = SourceSettings(source=source, folder=folder, **{**usual, **settings})
    return await Indexes().open(wanted, embedder=embedder, effects=DirectEffects())


async def shop(folder: Path, embedder: Embedder | None) -> Index:
    """The index of the handbook."""
    write(folder, shop_md=SHOP)
    return await opened(folder, embedder=embedder)


async def hits(index: Index, query: str, embedder: Embedder | None, **settings: Any) -> list[Hit]:
    """What is found."""
    wanted = SearchSettings(**settings)
    return await search(index, query, wanted, embedder=embedder, effects=DirectEffects())


def names(found: Sequence[Hit]) -> list[str]:
    """The last heading of each hit, in lower case."""
    return [hit.chunk.headings[-1].lower() for hit in found]


class EmbeddingServer:
    """An OpenAI-compatible endpoint for embeddings; a list of answers comes first, in order."""

    def __init__(self, *first: tuple[int, Any], headers: dict[str, str] | None = None) -> None:
        self.requests: list[HttpRequest] = []
        self._first = list(first)
        self._headers = headers or {}
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        """The address that clients are given."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # The client has gone, or the server is closing.
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (asked := await read_request(reader)) is not None:
            self.requests.append(asked)
            status, document = self._first.pop(0) if self._first else (200, vectors_for(asked))
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            writer.write(head(status, len(body), more=self._headers) + body)
            await writer.drain()


def vectors_for(asked: HttpRequest) -> dict[str, Any]:
    """Vectors by meaning, the last text first: clients have to put them in order."""
    texts = asked.json["input"]
    data = [{"index": at, "embedding": _vector(text)} for at, text in enumerate(texts)]
    used = {"prompt_tokens": sum(len(text.split()) for text in texts), "total_tokens": 0}
    return {"data": data[::-1], "model": asked.json["model"], "usage": used}
