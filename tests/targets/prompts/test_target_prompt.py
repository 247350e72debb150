"""TargetPrompt: its names, its sources, and that writing is all or nothing."""

import os
import shutil
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import FileTrouble, RollbackError
from burnish.targets.prompts import TargetPrompt
from tests.targets.prompts.prompt_files import Store, names_in, prompt_file


async def nothing(*_: Any) -> str:
    return ""


def test_fields_in_their_order_with_their_sources(tmp_path: Path) -> None:
    prompts = TargetPrompt().add_path("skill", "skill.md").add_path("system", tmp_path / "s.md")
    prompts = prompts.add_callback("rule", read=nothing, write=nothing)
    assert prompts.names() == ["skill", "system", "rule"]
    assert prompts.describe_source("skill") == "skill.md"
    assert prompts.describe_source("system") == str(tmp_path / "s.md")
    assert prompts.describe_source("rule") == "<callback>"
    with pytest.raises(KeyError, match="no prompt field 'x': there are skill, system, rule"):
        prompts.describe_source("x")


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a ",
        ".hidden",
        "..",
        "a/b",
        "a\\b",
        "../up",
        "a\nb",
        "a\0b",
        "c:x",
        "{x}",
        "é" * 101,
    ],
)
async def test_names_that_are_no_file_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a prompt field"):
        TargetPrompt().add_path(name, tmp_path / "s.md")
    with pytest.raises(ValueError, match="cannot be the name of a prompt field"):
        TargetPrompt().add_callback(name, read=nothing, write=nothing)


def test_a_name_is_taken_once_whatever_its_case(tmp_path: Path) -> None:
    prompts = TargetPrompt().add_path("system", tmp_path / "s.md")
    with pytest.raises(ValueError, match="the field 'system' already exists"):
        prompts.add_callback("system", read=nothing, write=nothing)
    with pytest.raises(ValueError, match="the field 'system' already exists, with another case"):
        prompts.add_path("System", tmp_path / "t.md")


def test_one_file_is_one_field(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    (tmp_path / "link.md").symlink_to(path)
    with pytest.raises(ValueError, match="'system' and 'other' are the same file"):
        TargetPrompt().add_path("system", path).add_path("other", tmp_path / "link.md")


def test_callbacks_must_be_async() -> None:
    def plain(*_: Any) -> Any:
        return ""

    class Asked:
        async def __call__(self) -> str:
            return ""

    @wraps(nothing)
    def decorated(*args: Any) -> Any:
        return nothing(*args)

    prompts = TargetPrompt()
    for read in (nothing, partial(nothing), Asked(), decorated, partial(decorated)):
        prompts.add_callback(f"field {len(prompts.names())}", read=read, write=nothing)
    with pytest.raises(TypeError, match="the read function of the prompt field 'x' is not async"):
        prompts.add_callback("x", read=plain, write=nothing)
    with pytest.raises(TypeError, match="the write function of the prompt field 'x' is not async"):
        prompts.add_callback("x", read=nothing, write=partial(plain))
    assert len(prompts.names()) == 5


async def test_what_is_read_and_written_again_is_the_same_bytes(tmp_path: Path) -> None:
    contents = [b"", b"a", b"a\n", b"a\r\nb\r\n", b"\xef\xbb\xbfa\r\n",
                b"\xef\xbb\xbf\xef\xbb\xbfx", "grüß\r\n{x}\nz".encode(), b"\n\n"]  # fmt: skip
    prompts = TargetPrompt()
    for number, content in enumerate(contents):
        prompts.add_path(f"f{number}", prompt_file(tmp_path, f"f{number}", content))
    texts = await prompts.read_all()
    assert texts["f4"] == "a\r\n"
    assert texts == prompts.read_files()
    await prompts.write_all(texts)
    assert [(tmp_path / name).read_bytes() for name in names_in(tmp_path)] == contents


async def test_a_new_text_keeps_mark_line_ends_mode_and_link(tmp_path: Path) -> None:
    real = prompt_file(tmp_path, "real", b"\xef\xbb\xbfold\r\n")
    real.chmod(0o640)
    link = tmp_path / "link.md"
    link.symlink_to("real.md")
    prompts = TargetPrompt().add_path("x", link)
    await prompts.write_all({"x": "new\nlines\n"})
    assert real.read_bytes() == b"\xef\xbb\xbfnew\r\nlines\r\n"
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_file_stays_its_owners(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    os.chown(path, 12345, 54321)
    await TargetPrompt().add_path("x", path).write_all({"x": "new"})
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


async def test_every_field_and_no_other(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    prompts = TargetPrompt().add_path("a", path).add_path("b", tmp_path / "b.md")
    with pytest.raises(ValueError, match="missing: b; unknown: c"):
        await prompts.write_all({"a": "x", "c": "y"})
    assert path.read_text() == "Be brief.\n"
    assert not (tmp_path / "b.md").exists()


async def test_a_file_that_fails_puts_those_before_it_back(tmp_path: Path) -> None:
    first, folder = prompt_file(tmp_path, "first", b"\xef\xbb\xbfone\r\n"), tmp_path / "folder.md"
    folder.mkdir()
    store = Store({"rule": "old"})
    prompts = TargetPrompt().add_path("first", first).add_path("new", tmp_path / "new.md")
    prompts = store.add(prompts.add_path("folder", folder), "rule")
    with pytest.raises(FileTrouble, match=r"folder\.md"):
        await prompts.write_all(dict.fromkeys(prompts.names(), "text"))
    assert first.read_bytes() == b"\xef\xbb\xbfone\r\n"
    assert names_in(tmp_path) == ["first.md", "folder.md"]
    assert store.writes == []


async def test_a_callback_that_fails_puts_the_files_back_and_no_callback(tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path), Store({"a": "1", "b": "2", "c": "3"})
    store.trouble["no"] = PermissionError("not yours")
    prompts = store.add(store.add(TargetPrompt(), "a"), "b").add_path("system", path)
    prompts = store.add(prompts, "c")
    with pytest.raises(PermissionError, match="not yours"):
        await prompts.write_all({"a": "new", "b": "no", "system": "candidate", "c": "new"})
    assert path.read_text() == "Be brief.\n"
    assert store.texts == {"a": "new", "b": "2", "c": "3"}


async def test_a_failed_rollback_names_each_field_and_skips_none(tmp_path: Path) -> None:
    kept = prompt_file(tmp_path, "kept")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        prompt_file(tmp_path / name)

    async def vanish(text: str) -> None:
        shutil.rmtree(tmp_path / "one")
        shutil.rmtree(tmp_path / "two")
        raise ConnectionError("the store is down")

    prompts = TargetPrompt().add_path("kept", kept)
    for name in ("one", "two"):
        prompts.add_path(name, tmp_path / name / "system.md")
    prompts.add_callback("rule", read=nothing, write=vanish)
    with pytest.raises(RollbackError, match="could not be restored") as raised:
        await prompts.write_all(dict.fromkeys(prompts.names(), "candidate"))
    assert set(raised.value.failures) == {"one", "two"}
    assert isinstance(raised.value.__context__, ConnectionError)
    assert kept.read_text() == "Be brief.\n"


async def test_what_a_read_function_gives_must_be_text() -> None:
    async def number() -> Any:
        return 7

    prompts = TargetPrompt().add_callback("x", read=number, write=nothing)
    with pytest.raises(TypeError, match="the prompt field 'x' returned int, not text"):
        await prompts.read("x")
    with pytest.raises(TypeError, match="must be awaited: x"):
        prompts.read_files()
