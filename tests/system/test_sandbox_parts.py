"""Parts of the sandbox that need no process: what is kept of output, the environment, the words."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.errors import ConfigError
from burnish.system.sandbox import (
    CommandLimits,
    LandlockProbe,
    Mode,
    Probe,
    probe_bubblewrap,
    probe_landlock,
    resolve,
)
from burnish.system.sandbox.isolation import Capture, EndedBy, failure_reason
from burnish.system.sandbox.walls import Walls, clean_environment, fenced, walled, with_python

LANDLOCK = probe_landlock()


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
        "GIT_CEILING_DIRECTORIES", "GIT_OPTIONAL_LOCKS", "HF_TOKEN", "TASK",
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


NO_LANDLOCK = LandlockProbe(reason="the kernel has no Landlock")
NO_NAMESPACES = Probe(reason="no namespaces", remedy="allow it: sudo sysctl -w x=1")


def test_without_any_isolation_auto_says_why_and_what_to_install() -> None:
    probe = probe_bubblewrap("no-such-bwrap")
    assert not probe.works
    isolation = resolve("auto", probe, NO_LANDLOCK)
    assert isolation.kind == "none"
    assert "there is no program 'no-such-bwrap'" in isolation.summary
    assert "the kernel has no Landlock" in isolation.summary
    assert "install" in isolation.notice
    assert "bubblewrap" in isolation.remedy


def test_without_bubblewrap_landlock_is_used_and_says_what_it_leaves_open() -> None:
    isolation = resolve("auto", NO_NAMESPACES, LandlockProbe(abi=7))
    assert (isolation.kind, isolation.abi) == ("landlock", 7)
    assert "bubblewrap does not work here: no namespaces" in isolation.summary
    assert "UDP and sockets of services" in isolation.summary
    assert isolation.notice.endswith("allow it: sudo sysctl -w x=1")
    assert isolation.protects_burnish


def test_an_early_landlock_leaves_more_open() -> None:
    isolation = resolve("auto", NO_NAMESPACES, LandlockProbe(abi=3))
    assert "the network and sockets" in isolation.summary
    assert "can signal other processes" in isolation.summary
    assert not isolation.protects_burnish


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("bwrap", "bubblewrap does not work here: no namespaces"),
        ("required", "isolation is required, but bubblewrap does not work here: no namespaces"),
        ("landlock", "Landlock does not work here: the kernel has no Landlock"),
    ],
)
def test_isolation_that_is_asked_for_and_does_not_work_is_refused(mode: Mode, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        resolve(mode, NO_NAMESPACES, NO_LANDLOCK)
    assert mode == "landlock" or "sudo sysctl -w x=1" in str(refused.value)


def test_required_is_content_with_landlock() -> None:
    assert resolve("required", NO_NAMESPACES, LandlockProbe(abi=7)).kind == "landlock"


def test_none_asks_nobody() -> None:
    assert resolve("none").kind == "none"


def test_walls_hide_first_and_open_last(tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "data" / "run"
    inside = secret / "workspace"
    inside.mkdir(parents=True)
    walls = Walls(private=tmp_path, cwd=inside, writable=[inside], readable=[data], hidden=[secret])
    argv = walled("bwrap", walls)
    assert argv.index(str(data)) < argv.index(str(secret)) < argv.index(str(inside))
    assert "--share-net" not in argv
    assert "--die-with-parent" in argv
    assert argv[-3:] == ["--chdir", str(inside), "--"]


@pytest.mark.parametrize("private", ["/tmp", "/dev/shm"])
def test_what_lies_in_a_private_folder_of_the_command_is_opened_in_it(
    private: str, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir=private) as folder:
        walls = Walls(private=tmp_path, cwd=tmp_path, readable=[Path(folder)])
        argv = walled("bwrap", walls)
        opened = len(argv) - argv[::-1].index(folder)
    assert opened > argv.index(private)


def test_what_nobody_lists_is_not_there(tmp_path: Path) -> None:
    walls = Walls(private=tmp_path, cwd=tmp_path, path=os.environ["PATH"])
    assert not any(Path.home().is_relative_to(root) for root in walls.roots)
    assert Path("/") not in walls.roots
    assert Path("/usr") in walls.roots


def test_landlock_gets_rules_around_what_is_hidden(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("open", "deep/open", "deep/secret"):
        (data / name).mkdir(parents=True)
    (data / "way").symlink_to(data / "deep/secret")
    hidden = data / "deep/secret"
    walls = Walls(private=tmp_path, cwd=tmp_path / "data/open", readable=[data], hidden=[hidden])
    rules = json.loads(fenced(walls, abi=7)[-2])
    granted = {path for path in rules["read"] if path.startswith(str(data))}
    assert granted == {str(data / "open"), str(data / "deep/open")}
    assert rules["tcp"] is False


@pytest.mark.skipif(not LANDLOCK.abi, reason="the kernel has no Landlock")
def test_rules_may_be_longer_than_an_argument(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for number in range(2000):
        (data / f"{number:0100}").mkdir(parents=True)
    hidden = data / f"{7:0100}"
    walls = Walls(private=tmp_path, cwd=tmp_path, readable=[data], hidden=[hidden])
    command = [*fenced(walls, abi=LANDLOCK.abi), "/bin/true"]
    assert sum(map(len, command)) > 128 * 1024
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize(
    ("ended_by", "code", "words"),
    [
        ("itself", 0, ""),
        ("itself", 3, "the command ended with exit code 3"),
        ("itself", 139, "the command ended with signal 11 (SIGSEGV)"),
        ("timeout", 137, "the command ran for more than 1.5 s"),
        ("memory", 137, "the command used more than 64 MiB of memory"),
        ("processes", 137, "the command ran more than 9 processes at once"),
        ("disk", 137, "the command wrote more than 5 MiB to disk"),
        ("flood", 137, "the command wrote more than 2 MiB of output"),
        ("lost", 137, "the process that watched the command was killed"),
    ],
)
def test_why_a_command_is_not_ok(ended_by: EndedBy, code: int, words: str) -> None:
    limits = CommandLimits(
        seconds=1.5, memory_bytes=64 << 20, processes=9, disk_bytes=5 << 20, flood_bytes=2 << 20
    )
    assert failure_reason(ended_by, code, limits) == words
