"""Indexes: built once for each content, by one process, whole or not at all."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.journal.once import DirectEffects
from burnish.models.references import ModelRef
from burnish.retrieval import Index, Indexes, SourceSettings
from burnish.retrieval.embedders import EndpointEmbedder
from burnish.testing.doubles import CallCounter
from tests.journal.journals import effects_in, small_files
from tests.models.test_embedded_files import as_nobody, open_to_all
from tests.retrieval.corpus import (
    SHOP,
    EmbeddingServer,
    MeaningEmbedder,
    hits,
    names,
    opened,
    shop,
    write,
)


def spares(folder: Path) -> list[Path]:
    """What a writer began and did not finish."""
    return list((folder / ".burnish" / "index").glob(".*.burnish-tmp"))


def kept(folder: Path) -> list[Path]:
    """The index files beside the sources."""
    return sorted((folder / ".burnish" / "index").glob("*.db"))


async def test_the_same_content_is_built_and_embedded_once(tmp_path: Path) -> None:
    embedder = MeaningEmbedder()
    first = await shop(tmp_path, embedder)
    (path,) = kept(tmp_path)
    before = path.stat()
    again = await opened(tmp_path, embedder=embedder)
    assert (again.hash, again.path, again.size) == (first.hash, path, 4)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert len(embedder.asked) == 1
    assert (path.parent / ".gitignore").read_text() == "*\n"


async def test_touching_a_file_is_no_change(tmp_path: Path) -> None:
    embedder = MeaningEmbedder()
    await shop(tmp_path, embedder)
    os.utime(tmp_path / "shop.md", (1, 1))
    await opened(tmp_path, embedder=embedder)
    assert (len(kept(tmp_path)), len(embedder.asked)) == (1, 1)


async def test_other_content_settings_or_model_is_another_index(tmp_path: Path) -> None:
    await shop(tmp_path, MeaningEmbedder())
    await opened(tmp_path, embedder=MeaningEmbedder(name="another"))
    await opened(tmp_path, embedder=None)
    await opened(tmp_path, embedder=MeaningEmbedder(), chunking="token")
    await opened(tmp_path, embedder=MeaningEmbedder(), max_chunk_tokens=100)
    await opened(tmp_path, embedder=MeaningEmbedder(), chunk_overlap=7)
    assert len(kept(tmp_path)) == 6
    write(tmp_path, shop_md=SHOP + "\n## New\n\nA zebra came.\n")
    changed = await opened(tmp_path, embedder=MeaningEmbedder())
    assert len(kept(tmp_path)) == 7
    assert names(await hits(changed, "zebra", None, mode="keyword")) == ["new"]


async def test_open_indexes_are_shared_and_see_changes(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    indexes, embedder = Indexes(), MeaningEmbedder()
    settings = SourceSettings(source="shop.md", folder=tmp_path)

    async def once() -> Index:
        return await indexes.open(settings, embedder=embedder, effects=DirectEffects())

    first, second = await asyncio.gather(once(), once())
    assert first is second is await once()
    assert indexes.hash_of(settings, embedder) == first.hash
    assert len(embedder.asked) == 1
    write(tmp_path, shop_md="other")
    changed = await once()
    assert changed.hash != first.hash
    assert indexes.hash_of(settings, embedder) == changed.hash
    indexes.close()


async def test_the_folder_may_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    indexes = Indexes(tmp_path / "cache")
    settings = SourceSettings(source="shop.md", folder=tmp_path)
    index = await indexes.open(settings, embedder=None, effects=DirectEffects())
    assert index.path == tmp_path / "cache" / f"{index.hash}.db"
    assert not (tmp_path / ".burnish").exists()


async def test_an_index_is_the_same_wherever_its_folder_is(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = await shop(tmp_path / "one", MeaningEmbedder())
    second = await shop(tmp_path / "two", MeaningEmbedder())
    assert first.hash == second.hash
    assert kept(tmp_path / "one")[0].read_bytes() == kept(tmp_path / "two")[0].read_bytes()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "garbage": lambda whole: b"x" * 5000,
    "cut": lambda whole: whole[: len(whole) // 2],
    "header": lambda whole: b"\0" * 100 + whole[100:],
    "pages": lambda whole: whole[:8192] + b"\xff" * 8192 + whole[16384:],
    "tail": lambda whole: whole[:-4096] + b"\0" * 4096,
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_file_is_built_again(tmp_path: Path, name: str) -> None:
    embedder = MeaningEmbedder()
    before = await shop(tmp_path, embedder)
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[name](whole))
    after = await opened(tmp_path, embedder=embedder)
    assert len(embedder.asked) == 2
    assert path.read_bytes() == whole
    assert await hits(after, "refund", embedder) == await hits(before, "refund", embedder)


async def test_a_vector_with_a_changed_bit_is_noticed(tmp_path: Path) -> None:
    embedder = MeaningEmbedder()
    index = await shop(tmp_path, embedder)
    assert index.vectors is not None
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    at = whole.index(index.vectors[2].tobytes()) + 3
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    await opened(tmp_path, embedder=embedder)
    assert len(embedder.asked) == 2
    assert path.read_bytes() == whole


async def test_another_index_under_its_name_is_not_taken(tmp_path: Path) -> None:
    one = await shop(tmp_path, None)
    other = await opened(tmp_path, embedder=None, chunk_overlap=3)
    assert one.path is not None
    assert other.path is not None
    one.path.write_bytes(other.path.read_bytes())
    assert (await opened(tmp_path, embedder=None)).hash == one.hash
    assert one.hash.encode() in one.path.read_bytes()


async def readable_by_all(folder: Path) -> None:
    """So that anybody may look into the folder; and every module that is needed is loaded."""
    open_to_all(folder)
    (folder / "other").mkdir()
    await shop(folder / "other", MeaningEmbedder())


async def test_where_nothing_can_be_written_the_index_is_in_memory(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    embedder = MeaningEmbedder()
    await readable_by_all(tmp_path)
    with as_nobody():
        index = await opened(tmp_path, embedder=embedder)
    assert index.path is None
    assert not (tmp_path / ".burnish").exists()
    assert "in memory only" in index.notes[0]
    assert names(await hits(index, "refund", embedder, mode="semantic"))[0] == "returns"


async def test_a_whole_index_in_a_folder_that_cannot_be_written_is_used(tmp_path: Path) -> None:
    embedder = MeaningEmbedder()
    await readable_by_all(tmp_path)
    await shop(tmp_path, embedder)
    with as_nobody():
        index = await opened(tmp_path, embedder=embedder)
    assert index.path is not None
    assert len(embedder.asked) == 1


async def test_a_file_in_the_way_of_the_folder_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    (tmp_path / ".burnish").write_text("mine", encoding="utf-8")
    index = await opened(tmp_path)
    assert index.path is None
    assert (tmp_path / ".burnish").read_text(encoding="utf-8") == "mine"


CHILD = textwrap.dedent("""
    import asyncio, os, signal, sys
    from pathlib import Path
    from burnish.testing.doubles import CallCounter
    from tests.retrieval.corpus import MeaningEmbedder, hits, opened

    folder, mode = Path(sys.argv[1]), sys.argv[2]

    class Embedder(MeaningEmbedder):
        async def embed(self, texts, *, effects):
            made = await super().embed(texts, effects=effects)
            if len(texts) > 1:
                if mode == "killed embedding":
                    die()
                await asyncio.sleep(0.3)
            return made

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def die_before_it_is_renamed(file):
        if any(folder.glob(".burnish/index/.*.burnish-tmp")):
            die()
        flush(file)

    flush = os.fsync
    if mode == "killed writing":
        os.fsync = die_before_it_is_renamed

    async def main():
        embedder = Embedder(counter=CallCounter(path=folder / "calls"))
        index = await opened(folder, embedder=embedder)
        print(index.hash, (await hits(index, "refund", embedder))[0].chunk.id)

    asyncio.run(main())
""")


def child(folder: Path, mode: str) -> subprocess.Popen[str]:
    """Another process that opens the index of the same folder."""
    command = [sys.executable, "-c", CHILD, str(folder), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())


def built(folder: Path) -> int:
    """How often all chunks were embedded, in any process."""
    return CallCounter(path=folder / "calls").calls().count("embed 4")


@pytest.mark.slow
def test_of_several_processes_one_builds_and_all_search(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    children = [child(tmp_path, "plain") for _ in range(2)]
    said = [each.communicate(timeout=120)[0] for each in children]
    assert [each.returncode for each in children] == [0, 0]
    assert said[0] == said[1] != ""
    assert built(tmp_path) == 1
    assert len(kept(tmp_path)) == 1


@pytest.mark.crash
@pytest.mark.parametrize("when", ["killed embedding", "killed writing"])
async def test_a_killed_build_leaves_nothing_broken(tmp_path: Path, when: str) -> None:
    write(tmp_path, shop_md=SHOP + "\n".join(f"# N{n}\nnumber {n}" for n in range(3000)))
    killed = child(tmp_path, when)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert kept(tmp_path) == []
    assert len(spares(tmp_path)) == (when == "killed writing")
    embedder = MeaningEmbedder()
    index = await opened(tmp_path, embedder=embedder)
    assert index.path is not None
    assert spares(tmp_path) == []
    assert names(await hits(index, "cat", embedder))[0] == "office"


async def test_a_full_disk_leaves_nothing_broken(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    with small_files(10_000):
        index = await opened(tmp_path)
    assert index.path is None
    assert (kept(tmp_path), spares(tmp_path)) == ([], [])
    assert names(await hits(index, "courier", None)) == ["delivery"]


async def test_files_that_change_while_they_are_read_are_refused(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)

    class Meddling(MeaningEmbedder):
        @property
        def identity(self) -> str:
            # Asked for when the name is made, and again when the chunks were read.
            write(tmp_path, shop_md=SHOP + "x" * len(self.asked))
            self.asked.append(())
            return "meddling"

    with pytest.raises(ConfigError, match="changed while they were read"):
        await opened(tmp_path, embedder=Meddling())
    assert kept(tmp_path) == []


async def test_a_resumed_run_counts_what_building_cost(tmp_path: Path) -> None:
    write(tmp_path, shop_md=SHOP)
    settings = SourceSettings(source="shop.md", folder=tmp_path, chunking="structure")
    async with EmbeddingServer() as server:
        embedder = EndpointEmbedder(ref=ModelRef.parse("openai:small", base_url=server.base_url))
        spent: list[int] = []
        for _ in range(2):
            effects = effects_in(tmp_path)
            scope = effects.scope(trial=0)
            await Indexes().open(settings, embedder=embedder, effects=scope)
            spent.append(sum(spend.tokens_in for spend in scope.used.values()))
            effects.journal.close()
        await embedder.close()
        assert len(server.requests) == 1
    assert spent[0] == spent[1] > 0
