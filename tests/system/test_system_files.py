"""Files are whole or absent, and refusals are explained."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from burnish.core.errors import FileTrouble
from burnish.system import (
    append_line,
    link_atomic,
    read_bytes,
    read_text,
    remove_stale_temporaries,
    write_atomic,
)


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", ["grün\r\n", b"\x00\xff", "", "x" * 300_000])
@pytest.mark.parametrize("durable", [True, False])
def test_a_written_file_holds_exactly_its_content(
    tmp_path: Path, content: str | bytes, durable: bool
) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "before")
    write_atomic(path, content, durable=durable)
    assert read_bytes(path) == (content.encode() if isinstance(content, str) else content)
    assert names_in(tmp_path) == ["a.txt"]


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_atomic(path, "x")
    assert read_text(path) == "x"


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("old")
    path.chmod(0o750)
    write_atomic(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_given_mode_wins(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_atomic(path, "new", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    write_atomic(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "prompt.md").symlink_to("shared/prompt.md")
    write_atomic(tmp_path / "prompt.md", "new")
    assert (tmp_path / "prompt.md").is_symlink()
    assert read_text(tmp_path / "shared/prompt.md") == "new"


def test_readers_see_the_old_or_the_new_content_only(tmp_path: Path) -> None:
    path = tmp_path / "a"
    contents = {letter * 50_000 for letter in "ab"}
    write_atomic(path, "a" * 50_000)
    seen: set[str] = set()

    def read_often() -> None:
        seen.update(read_text(path) for _ in range(200))

    reader = threading.Thread(target=read_often)
    reader.start()
    while reader.is_alive():
        for content in contents:
            write_atomic(path, content, durable=False)
    reader.join()
    assert seen <= contents


def test_writing_where_a_folder_is_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileTrouble, match="a part of its path is a file") as caught:
        write_atomic(tmp_path / "file" / "a", "x")
    assert str(tmp_path / "file" / "a") in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "words"),
    [("missing/a", "it does not exist"), ("folder", "it is a folder"), ("n" * 300, "too long")],
)
def test_a_refused_write_leaves_nothing_behind(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileTrouble, match=words):
        write_atomic(tmp_path / name, "x")
    assert names_in(tmp_path) == ["folder"]


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileTrouble, match="not a regular file"):
        write_atomic(pipe, "x")
    assert pipe.is_fifo()


def test_a_lone_surrogate_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble, match="character 2"):
        write_atomic(tmp_path / "a", "ab\ud800")
    assert not names_in(tmp_path)


def test_a_write_that_does_not_fit_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, "old")
    code = (
        "import resource, sys; from pathlib import Path; from burnish.system import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_atomic(Path(sys.argv[1]), 'x' * 5000)"
    )
    ended = run(code, path)
    assert "FileTrouble" in ended.stderr
    assert "size limit" in ended.stderr
    assert read_text(path) == "old"
    assert names_in(tmp_path) == ["a"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_called_a_full_disk() -> None:
    with pytest.raises(FileTrouble, match="the disk is full") as caught:
        append_line(Path("/dev/full"), "x")
    assert "Free some space" in caught.value.remedy


UNPRIVILEGED = (
    "import os, sys; from pathlib import Path\n"
    "from burnish.core.errors import FileTrouble\n"
    "from burnish.system import read_text, write_atomic\n"
    "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    "try: {call}\n"
    "except FileTrouble as error: print(error)\n"
)


@pytest.mark.parametrize(
    "call", ["read_text(Path(sys.argv[1]))", "write_atomic(Path(sys.argv[1]), 'x')"]
)
def test_a_forbidden_file_is_called_forbidden(tmp_path: Path, call: str) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "a").write_text("x")
    folder.chmod(0o000)
    ended = run(UNPRIVILEGED.format(call=call), folder / "a")
    folder.chmod(0o700)
    assert "permission denied" in ended.stdout, ended.stderr


def test_a_link_is_made_and_moved(tmp_path: Path) -> None:
    link = tmp_path / "best"
    link_atomic(link, "trial-1")
    link_atomic(link, "trial-2")
    assert link.readlink() == Path("trial-2")
    assert names_in(tmp_path) == ["best"]


def test_a_refused_link_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    with pytest.raises(FileTrouble, match="it is a folder"):
        link_atomic(tmp_path / "best", "trial-1")
    assert names_in(tmp_path) == ["best"]


def test_lines_are_appended_whole_by_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    def write(letter: str) -> None:
        for _ in range(50):
            append_line(path, letter * 5000)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(read_text(path).splitlines()) == sorted(
        c * 5000 for c in "abcd" for _ in range(50)
    )


def test_text_that_is_not_utf8_is_refused_with_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(FileTrouble, match="at byte 3"):
        read_text(path)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble, match="it does not exist"):
        read_text(tmp_path / "a")
    with pytest.raises(FileTrouble, match="it is a folder"):
        read_bytes(tmp_path)


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from burnish.system.files import put_in_place\n"
        "def make(spare): spare.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "put_in_place(Path(sys.argv[1]), make)"
    )
    assert run(code, tmp_path / "a").returncode == -9
    living = tmp_path / f".{os.getppid()}-{'0' * 16}.burnish-tmp"
    for path in (living, tmp_path / ".hidden", tmp_path / ".1-x.burnish-tmp"):
        path.write_text("x")
    assert len(names_in(tmp_path)) == 4
    remove_stale_temporaries(tmp_path)
    assert names_in(tmp_path) == sorted([living.name, ".hidden", ".1-x.burnish-tmp"])


def test_a_folder_that_is_not_there_has_nothing_stale(tmp_path: Path) -> None:
    remove_stale_temporaries(tmp_path / "missing")
