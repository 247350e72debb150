"""Parts of the sandbox that need no process: what is kept of output, the environment, the words."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.errors import ConfigError
from burnish.system.sandbox import CommandLimits, CommandResult, Probe, probe_bubblewrap, resolve
from burnish.system.sandbox.isolation import Walls, clean_environment, walled, with_python
from burnish.system.sandbox.results import Capture, EndedBy, failure_reason


def captured(cap: int, *parts: bytes) -> Capture:
    capture = Capture(cap)
    for part in parts:
        capture.add(part)
    return capture


def test_short_output_is_kept_as_it_is() -> None:
    capture = captured(100, b"one\n", "zwölf\n".encode())
    assert capture.text() == "one\nzwölf\n"
    assert capture.left_out == 0


def test_long_output_keeps_its_head_and_its_tail() -> None:
    capture = captured(10, b"12345", b"x" * 1_000_000, b"67890")
    assert capture.text() == "12345\n[… 1,000,000 bytes left out …]\n67890"
    assert capture.total == 1_000_010


def test_a_character_is_never_cut_in_half() -> None:
    text = captured(9, "ä".encode() * 50).text()
    assert "�" not in text
    assert text.startswith("ää\n[…")
    assert text.endswith("…]\nää")


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 60))
def test_never_more_is_kept_than_the_cap(parts: list[bytes], cap: int) -> None:
    capture = captured(cap, *parts)
    whole = b"".join(parts)
    assert capture.total == len(whole)
    assert capture.left_out == max(0, len(whole) - cap)
    if not capture.left_out:
        assert capture.text() == whole.decode(errors="replace")
    else:
        head, _, tail = capture.text().partition(f"[… {capture.left_out:,} bytes left out …]")
        assert len(head) + len(tail) <= cap + 2


def test_the_environment_is_clean() -> None:
    user = {
        "PATH": "/opt/bin:relative:/usr/bin",
        "OPENAI_API_KEY": "sk-1",
        "HF_TOKEN": "t",
        "PYTHONPATH": "/evil",
        "LANG": "de_DE",
        "HOME": "/home/me",
    }
    made = clean_environment(
        tmp=Path("/t"), allow=["HF_TOKEN", "MISSING"], extra={"TASK": "1"}, environ=user
    )
    assert set(made) == {
        "PATH", "HOME", "TMPDIR", "LANG", "TZ", "PYTHONDONTWRITEBYTECODE",
        "GIT_CEILING_DIRECTORIES", "HF_TOKEN", "TASK",
    }  # fmt: skip
    assert made["HOME"] == "/t/home"
    assert made["LANG"] == "C.UTF-8"
    path = made["PATH"].split(os.pathsep)
    assert path[0] == str(Path(sys.executable).parent)
    assert "/opt/bin" in path
    assert "relative" not in path


def test_an_active_virtual_environment_comes_first() -> None:
    made = clean_environment(tmp=Path("/t"), environ={"VIRTUAL_ENV": "/project/.venv"})
    assert made["PATH"].startswith("/project/.venv/bin:")
    assert "VIRTUAL_ENV" not in made


def test_there_is_a_python_where_the_system_has_only_python3(tmp_path: Path) -> None:
    empty = {"PATH": str(tmp_path / "nothing")}
    made = with_python(empty, tmp_path / "bin", Path("/tmp/bin"))
    assert made["PATH"] == f"/tmp/bin{os.pathsep}{empty['PATH']}"
    assert (tmp_path / "bin/python").readlink() == Path(sys.executable)
    has_one = {"PATH": str(tmp_path / "bin")}
    assert with_python(has_one, tmp_path / "bin", Path("/tmp/bin")) == has_one


def test_a_repository_above_the_workspace_is_not_found() -> None:
    made = clean_environment(tmp=Path("/t"), roots=[Path("/repo/run/workspace")], environ={})
    assert made["GIT_CEILING_DIRECTORIES"] == "/repo/run"


def test_without_bubblewrap_auto_goes_without_and_says_why() -> None:
    probe = probe_bubblewrap("no-such-bwrap")
    assert not probe.works
    isolation = resolve("auto", probe)
    assert isolation.kind == "none"
    assert "there is no program 'no-such-bwrap'" in isolation.summary


def test_bubblewrap_that_is_asked_for_and_does_not_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="bubblewrap does not work here: no namespaces"):
        resolve("bwrap", Probe(reason="no namespaces"))


def test_none_asks_nobody() -> None:
    assert resolve("none").kind == "none"


def test_walls_hide_first_and_open_last(tmp_path: Path) -> None:
    secret, inside = tmp_path / "run", tmp_path / "run" / "workspace"
    inside.mkdir(parents=True)
    walls = Walls(private=tmp_path, cwd=inside, writable=[inside], hidden=[secret])
    argv = walled("bwrap", walls)
    assert argv.index("--ro-bind") < argv.index(str(secret)) < argv.index(str(inside))
    assert "--share-net" not in argv
    assert "--die-with-parent" in argv
    assert argv[-3:] == ["--chdir", str(inside), "--"]


@pytest.mark.parametrize(
    ("ended_by", "code", "words"),
    [
        ("itself", 0, ""),
        ("itself", 3, "the command ended with exit code 3"),
        ("itself", 139, "the command ended with signal 11 (SIGSEGV)"),
        ("timeout", 137, "the command ran for more than 1.5 s"),
        ("memory", 137, "the command used more than 64 MiB of memory"),
        ("processes", 137, "the command ran more than 9 processes at once"),
        ("flood", 137, "the command wrote more than 2 MiB of output"),
        ("lost", 137, "the process that watched the command was killed"),
    ],
)
def test_why_a_command_is_not_ok(ended_by: EndedBy, code: int, words: str) -> None:
    limits = CommandLimits(seconds=1.5, memory_bytes=64 << 20, processes=9, flood_bytes=2 << 20)
    assert failure_reason(ended_by, code, limits) == words


def test_a_signal_is_told_from_an_exit_code() -> None:
    def result(code: int) -> CommandResult:
        return CommandResult(
            exit_code=code, ended_by="itself", stdout="", stderr="", stdout_bytes=0,
            stderr_bytes=0, truncated=False, seconds=0, cpu_seconds=0, left_running=0,
            isolation="none", reason="",
        )  # fmt: skip

    assert result(0).ok
    assert result(0).signal is None
    assert result(1).signal is None
    assert result(255).signal is None
    assert result(139).signal == 11
