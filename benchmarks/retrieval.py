"""Retrieval: how long an index takes to build and open, and one hybrid query over it."""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure
from burnish.core.protocols import Effects
from burnish.journal.once import DirectEffects
from burnish.retrieval import Index, Indexes, SearchSettings, SourceSettings, Vector, search

_CHUNKS = 10_000
_WORDS_IN_CHUNK = 120
_VOCABULARY = 8_000
_DIMENSIONS = 384
_QUERIES = 200


class RandomEmbedder:
    """Vectors by chance: what a query costs does not depend on what they mean."""

    identity = "random"

    def __init__(self) -> None:
        self._random = random.Random(0)

    def check(self) -> None:
        """Chance is always there."""

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """A vector for each text."""
        import numpy as np

        del effects
        numbers = np.random.default_rng(self._random.getrandbits(32))
        return list(numbers.standard_normal((len(texts), _DIMENSIONS), dtype=np.float32))

    async def close(self) -> None:
        """There is nothing to let go of."""


def figures() -> list[Figure]:
    """Everything this file measures."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Figure]:
    words = _words(random.Random(1))
    _write_corpus(folder, words, random.Random(2))
    built, _ = await _opened(folder)
    opened, index = await _opened(folder)
    seconds = sorted(await _queries(index, words))
    what = f"{index.size:,} chunks: "
    return [
        Figure(what=f"{what}one hybrid query, p50", value=_ms(seconds, 0.50), unit="ms", goal=20),
        Figure(what=f"{what}one hybrid query, p95", value=_ms(seconds, 0.95), unit="ms", goal=50),
        Figure(what=f"{what}index built, embeddings aside", value=built, unit="s"),
        Figure(what=f"{what}index opened", value=opened, unit="s"),
    ]


def _ms(ordered: list[float], share: float) -> float:
    return 1000 * ordered[int(share * (len(ordered) - 1))]


def _words(chance: random.Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(chance.choices(letters, k=chance.randint(2, 10))) for _ in range(_VOCABULARY)]


def _sentence(words: list[str], chance: random.Random, length: int) -> str:
    """Words as often as in a language: few very often, most of them seldom."""
    picks = (int(len(words) * chance.random() ** 4) for _ in range(length))
    return " ".join(words[pick] for pick in picks)


def _write_corpus(folder: Path, words: list[str], chance: random.Random) -> None:
    lines = (
        f"## {number}\n\n{_sentence(words, chance, _WORDS_IN_CHUNK)}" for number in range(_CHUNKS)
    )
    (folder / "corpus.md").write_text("\n\n".join(lines), encoding="utf-8")


async def _opened(folder: Path) -> tuple[float, Index]:
    settings = SourceSettings(source="corpus.md", folder=folder, chunking="structure")
    started = time.perf_counter()
    index = await Indexes().open(settings, embedder=RandomEmbedder(), effects=DirectEffects())
    return time.perf_counter() - started, index


async def _queries(index: Index, words: list[str]) -> list[float]:
    chance = random.Random(3)
    settings, embedder, effects = SearchSettings(), RandomEmbedder(), DirectEffects()
    seconds: list[float] = []
    for _ in range(_QUERIES):
        query = _sentence(words, chance, 8)
        started = time.perf_counter()
        await search(index, query, settings, embedder=embedder, effects=effects)
        seconds.append(time.perf_counter() - started)
    return seconds
