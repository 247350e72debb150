"""`burnish doctor`: narrow, quick, for people and programs, and silent about keys."""

import re
from pathlib import Path

import pytest

from burnish.models.providers import BUILT_IN
from tests.cli.console import Burnish, child, finish

CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in (name for row in BUILT_IN for name in row.key_variables):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".git").mkdir()


def test_it_says_how_everything_stands(burnish: Burnish) -> None:
    said = burnish("doctor")
    assert said.code == 0
    for area in ("machine", "storage", "isolation", "libraries", "extras", "keys", "models"):
        assert area in said.lines
    assert re.search(r"^  ✓ Python +3\.1\d", said.out, re.MULTILINE)
    assert re.search(r"^  – OPENAI_API_KEY +not set\n +→ for openai:… models", said.out, re.M)
    whole = "everything that the offline demo needs is available" in said.lines
    assert whole or "for the offline demo: fetch it: `burnish models pull smollm2`" in said.lines


@pytest.mark.parametrize("deep", [False, True])
def test_it_fits_eighty_columns(burnish: Burnish, tmp_path: Path, deep: bool) -> None:
    if deep:
        folder = tmp_path / ("long-" * 15) / ("name-" * 15)
        folder.mkdir(parents=True)
        (folder / ".env").write_text("x\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("BURNISH_HOME", str(folder))
            said = burnish("doctor", "--online")
    else:
        said = burnish("doctor", "--online")
    assert max(map(len, said.lines)) <= 80


def test_for_programs(burnish: Burnish) -> None:
    said = burnish("doctor", "--json")
    assert said.code == 0
    assert said.json["healthy"] is True
    found = {each["name"]: each for each in said.json["findings"]}
    assert set(found["Python"]) == {"area", "name", "state", "told", "remedy", "needed"}
    assert found["ANTHROPIC_API_KEY"]["state"] == "absent"


def test_online_without_keys_asks_no_provider(burnish: Burnish) -> None:
    found = burnish("doctor", "--online", "--json").json["findings"]
    told = {each["name"]: each["told"] for each in found if each["area"] == "models"}
    assert told["openai:…"] == told["google:…"] == "not checked: there is no key"


def test_what_burnish_needs_and_has_not_is_exit_code_one(
    burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "file" / "home"))
    said = burnish("doctor")
    assert said.code == 1
    assert "✗ home" in said.out
    assert "set BURNISH_HOME" in said.out
    assert "does not work here until this is fixed: home" in said.out
    assert burnish("doctor", "--json").json["healthy"] is False


def test_it_leaves_the_folder_as_it_was(burnish: Burnish, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    burnish("doctor")
    assert sorted(tmp_path.rglob("*")) == before


def test_no_key_is_shown(burnish: Burnish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    second = "canary-in-the-file-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("SOME_PASSWORD", CANARY[::-1])
    (tmp_path / ".env").write_text(f"ANTHROPIC_API_KEY='{second}'\n")
    for args in ([], ["--json"]):
        said = burnish("doctor", *args)
        assert "OPENAI_API_KEY" in said.out
        assert "from environment" in said.out
        assert "from .env" in said.out
        for secret in (CANARY, CANARY[::-1], second):
            assert secret not in said.out + said.err
            assert secret[:6] not in said.out
            assert secret[-6:] not in said.out


def test_a_bad_dotenv_is_told_without_its_content(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"FINE=1\n{CANARY}\n")
    said = burnish("doctor")
    assert said.code == 0
    assert ".env:2" in said.out.replace("\n", "").replace(" ", "")
    assert CANARY not in said.out


@pytest.mark.slow
def test_it_is_a_program_of_its_own(tmp_path: Path) -> None:
    said = finish(child("doctor", cwd=tmp_path))
    assert (said.code, said.err) == (0, "")


def test_without_bubblewrap_it_says_how_to_install_it(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "bin/apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said = burnish("doctor").out
    assert "– bubblewrap" in said
    assert "sudo apt-get install bubblewrap" in said
    assert "Landlock" in said
