"""Prompts behind callbacks in source mode: written, put back, and whose fault it is if not."""

import asyncio
from pathlib import Path

import pytest

from burnish.core.errors import BurnishError, RollbackError
from burnish.system.restoration import borrowed_folder
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt
from tests.targets.prompts.prompt_files import Store, output, prompt_file, reader


async def test_callbacks_are_written_read_by_the_agent_and_put_back(tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path), Store({"rule": "old rule"})

    async def agent(query: str) -> str:
        return f"{path.read_text()}|{store.texts['rule']}"

    prompts = store.add(TargetPrompt().add_path("system", path), "rule")
    target = await PromptsTarget.load(CallableTarget(agent=agent), prompts)
    assert await output(target, {}) == "Be brief.\n|old rule"
    assert store.writes == []
    assert await output(target, {"rule": "new"}) == "Be brief.\n|new"
    await asyncio.gather(*(output(target, {"rule": "new"}) for _ in range(5)))
    assert await output(target, {"system": "s", "rule": "newer"}) == "s|newer"
    assert [text for _, text in store.writes] == ["new", "newer"]
    await target.close()
    assert store.texts == {"rule": "old rule"}
    assert path.read_text() == "Be brief.\n"
    assert list(borrowed_folder().iterdir()) == []


async def test_a_callback_that_cannot_be_written_is_not_the_agents_fault(tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path), Store({"rule": "old"})
    store.trouble = {"forbidden": PermissionError("not yours"), "down": ConnectionError("down")}
    prompts = store.add(TargetPrompt().add_path("system", path), "rule")
    target = await PromptsTarget.load(reader(path), prompts)
    with pytest.raises(BurnishError, match="could not be written: PermissionError: not yours"):
        await output(target, {"system": "s", "rule": "forbidden"})
    with pytest.raises(ConnectionError):
        await output(target, {"system": "s", "rule": "down"})
    assert path.read_text() == "Be brief.\n"
    assert await output(target, {"system": "s", "rule": "fine"}) == "s|Who are you?"
    store.texts["rule"] = "edited by hand"
    await target.close()
    assert store.texts["rule"] == "edited by hand"
    assert target.left_alone == ("rule: it was changed in the meantime, so it was left alone",)


async def test_a_callback_that_cannot_be_put_back_does_not_keep_the_files(tmp_path: Path) -> None:
    path, store = prompt_file(tmp_path), Store({"rule": "old", "other": "old other"})
    prompts = store.add(store.add(TargetPrompt().add_path("system", path), "rule"), "other")
    target = await PromptsTarget.load(reader(path), prompts)
    await output(target, {"system": "s", "rule": "new", "other": "new"})
    store.trouble["old"] = ConnectionError("down")
    with pytest.raises(RollbackError, match=r"'rule': .*ConnectionError: down"):
        await target.close()
    assert path.read_text() == "Be brief.\n"
    assert store.texts["other"] == "old other"
    store.trouble.clear()
    assert (await prompts.read_all())["rule"] == "new"


async def test_closed_while_a_callback_is_being_written(tmp_path: Path) -> None:
    path, texts, writing = prompt_file(tmp_path), ["old"], asyncio.Event()

    async def read() -> str:
        await asyncio.sleep(0)
        return texts[-1]

    async def write(text: str) -> None:
        if text == "slow":
            writing.set()
            await asyncio.sleep(60)
        texts.append(text)

    prompts = TargetPrompt().add_path("system", path).add_callback("rule", read=read, write=write)
    target = await PromptsTarget.load(reader(path), prompts)
    await output(target, {"system": "first", "rule": "quick"})
    run = asyncio.create_task(output(target, {"system": "second", "rule": "slow"}))
    await writing.wait()
    assert path.read_text() == "second"
    run.cancel()
    await target.close()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert path.read_text() == "Be brief.\n"
    assert texts[-1] == "old"
    assert list(borrowed_folder().iterdir()) == []
