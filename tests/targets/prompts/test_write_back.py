"""Write-back: all or none, and only where nobody changed a field meanwhile."""

from pathlib import Path

import pytest

from burnish.core.errors import BurnishError, FileTrouble, RunLocked
from burnish.targets.prompts import PromptsTarget, TargetPrompt, write_back
from tests.targets.prompts.prompt_files import Store, output, prompt_file, reader


async def test_every_field_gets_its_text(tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path, text=b"old\r\n"), Store({"rule": "old"})
    prompts = store.add(TargetPrompt().add_path("system", path), "rule")
    before = await prompts.read_all()
    await write_back(prompts, {"system": "new\n", "rule": "new"}, expected=before)
    assert path.read_bytes() == b"new\r\n"
    assert store.texts == {"rule": "new"}


@pytest.mark.parametrize("changed", ["system", "rule"])
async def test_nothing_is_written_where_a_field_changed(changed: str, tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path), Store({"rule": "old"})
    prompts = store.add(TargetPrompt().add_path("system", path), "rule")
    before = await prompts.read_all()
    await prompts.write_all({**before, changed: "edited by hand"})
    now = await prompts.read_all()
    with pytest.raises(BurnishError, match=f"'{changed}'.*no field was written"):
        await write_back(prompts, {"system": "new", "rule": "new"}, expected=before)
    assert await prompts.read_all() == now


async def test_on_trouble_callbacks_are_put_back_too(tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path), Store({"a": "old a", "b": "old b"})
    store.trouble["bad"] = LookupError("no such key")
    prompts = store.add(store.add(TargetPrompt().add_path("system", path), "a"), "b")
    before = await prompts.read_all()
    with pytest.raises(LookupError, match="no such key"):
        await write_back(prompts, {"system": "new", "a": "new", "b": "bad"}, expected=before)
    assert await prompts.read_all() == before


async def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    first, lost = prompt_file(tmp_path, "first"), prompt_file(tmp_path, "lost")
    prompts = TargetPrompt().add_path("first", first).add_path("lost", lost)
    before = await prompts.read_all()
    lost.unlink()
    lost.mkdir()
    with pytest.raises(FileTrouble, match=r"lost\.md"):
        await write_back(prompts, dict.fromkeys(before, "new"), expected=before)
    assert first.read_text() == "Be brief.\n"


async def test_not_while_a_run_has_the_file(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    prompts = TargetPrompt().add_path("system", path)
    target = await PromptsTarget.load(reader(path), prompts)
    await output(target, {})
    with pytest.raises(RunLocked):
        await write_back(prompts, {"system": "new"}, expected={"system": "Be brief.\n"})
    await target.close()
    await write_back(prompts, {"system": "new"}, expected={"system": "Be brief.\n"})
    assert path.read_text() == "new"
