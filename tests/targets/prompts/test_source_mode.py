"""Prompts written where the agent reads them: one candidate at a time, and back in the end."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.errors import BurnishError, ConfigError, RollbackError, RunLocked
from burnish.core.surfaces import TextSurface
from burnish.journal.once import DirectEffects
from burnish.system.restoration import borrowed_folder
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt
from burnish.testing import check_target
from tests.targets.calling_agents import TWO_TURNS
from tests.targets.prompts.prompt_files import (
    CASE,
    changed,
    names_in,
    output,
    prompt_file,
    ran,
    reader,
)


async def loaded(path: Path, **more: Any) -> PromptsTarget:
    return await PromptsTarget.load(reader(path), TargetPrompt().add_path("system", path), **more)


async def test_the_contract(tmp_path: Path) -> None:
    target = await loaded(prompt_file(tmp_path, text="Be {tone}.\n"), max_chars=50)
    await check_target(target, [CASE, TWO_TURNS])
    assert list(target.surfaces) == [
        TextSurface(id="system", max_chars=50, placeholders=("{tone}",))
    ]
    assert target.leaf
    await target.close()


async def test_the_agent_reads_the_candidate_and_the_file_is_put_back(tmp_path: Path) -> None:
    path = prompt_file(tmp_path, text=b"\xef\xbb\xbfBe brief.\r\n")
    path.chmod(0o640)
    target = await loaded(path)
    assert target.baseline.values == {"system": "Be brief.\r\n"}
    assert "Be long." in await output(target, {"system": "Be long.\n"})
    assert path.read_bytes() == b"\xef\xbb\xbfBe long.\r\n"
    await target.close()
    assert path.read_bytes() == b"\xef\xbb\xbfBe brief.\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert target.left_alone == ()
    assert list(borrowed_folder().iterdir()) == []
    assert names_in(tmp_path) == ["system.md"]


async def test_the_baseline_and_a_target_that_never_ran_touch_nothing(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    before = path.stat()
    target = await loaded(path)
    assert await output(target, {}) == "Be brief.\n|Who are you?"
    await target.close()
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not borrowed_folder().exists()


async def test_no_candidate_is_written_after_the_end(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    target = await loaded(path)
    await output(target, {"system": "x"})
    await target.close()
    await target.close()
    with pytest.raises(BurnishError, match="already restored"):
        await output(target, {"system": "y"})
    assert path.read_text() == "Be brief.\n"


async def test_cases_of_one_candidate_overlap_and_candidates_do_not(tmp_path: Path) -> None:
    path, inside = prompt_file(tmp_path), list[str]()
    most: dict[str, int] = {}

    async def agent(query: str) -> str:
        text = path.read_text()
        inside.append(text)
        assert set(inside) == {text}
        most[text] = max(most.get(text, 0), len(inside))
        for _ in range(5):
            await asyncio.sleep(0)
        assert path.read_text() == text
        inside.remove(text)
        return text

    target = await PromptsTarget.load(
        CallableTarget(agent=agent), TargetPrompt().add_path("system", path)
    )
    texts = [f"text {number % 3}" for number in range(30)]
    outcomes = await asyncio.gather(*(ran(target, {"system": text}) for text in texts))
    assert [outcome.output for outcome in outcomes] == texts
    assert min(most.values()) > 1
    await target.close()
    assert path.read_text() == "Be brief.\n"


async def test_whoever_has_the_turn_already_does_not_wait_for_itself(tmp_path: Path) -> None:
    target = await loaded(prompt_file(tmp_path))
    mine, other = changed(target, {"system": "mine"}), changed(target, {"system": "other"})
    async with asyncio.timeout(120), target.held(mine):
        waiting = asyncio.create_task(target.run(other, CASE, draw=0, effects=DirectEffects()))
        await asyncio.sleep(0)
        given = await target.run(mine, CASE, draw=0, effects=DirectEffects())
    assert given.value.output == "mine|Who are you?"
    assert (await waiting).value.output == "other|Who are you?"
    await target.close()


async def test_a_cancelled_run_and_close_put_back(tmp_path: Path) -> None:
    path, started = prompt_file(tmp_path), asyncio.Event()

    async def agent(query: str) -> str:
        started.set()
        await asyncio.sleep(60)
        return ""

    target = await PromptsTarget.load(
        CallableTarget(agent=agent), TargetPrompt().add_path("system", path)
    )
    run = asyncio.create_task(output(target, {"system": "x"}))
    await started.wait()
    assert path.read_text() == "x"
    run.cancel()
    await target.close()
    assert path.read_text() == "Be brief.\n"
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_steps_name_the_fields(tmp_path: Path) -> None:
    target = await loaded(prompt_file(tmp_path))
    outcome = await ran(target, {}, TWO_TURNS)
    assert [step.surfaces for step in outcome.trace.steps] == [("system",), ("system",)]
    await target.close()


async def test_what_it_describes_and_exports(tmp_path: Path) -> None:
    target = await loaded(prompt_file(tmp_path, text="The secret of tea."))
    assert target.description.kind == "prompts"
    told = json.dumps(dict(target.description.config))
    assert "system.md" in told
    assert "reader" in told
    assert "secret" not in told
    exported = target.export(changed(target, {"system": "new\n"}), tmp_path)
    assert exported == {"system.md": b"new\n"}


async def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    with pytest.raises(ConfigError, match="the text has 10 characters, 5 are allowed"):
        await loaded(path, max_chars=5)
    with pytest.raises(ConfigError, match=r"frozen\.rule: no such prompt field"):
        await loaded(path, frozen={"rule": ["x"]})
    with pytest.raises(ConfigError, match="the frozen part 'polite' is gone"):
        await loaded(path, frozen={"system": ["polite"]})
    with pytest.raises(ConfigError, match="there are no prompt fields"):
        await PromptsTarget.load(reader(path), TargetPrompt())
    target = await loaded(path)
    assert target.check(changed(target, {})) == []
    with pytest.raises(ConfigError, match="the text is empty"):
        await loaded(prompt_file(tmp_path, "empty", " \n"))


# -- somebody else ---------------------------------------------------------------------------


async def test_what_somebody_else_wrote_is_left_alone(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    target = await loaded(path)
    await output(target, {"system": "candidate"})
    path.write_text("edited by hand")
    with pytest.raises(ConfigError, match="it was changed while candidates were tried"):
        await output(target, {"system": "another"})
    await target.close()
    assert path.read_text() == "edited by hand"
    assert target.left_alone == (f"{path}: somebody changed it meanwhile, so it was left alone",)


async def test_a_deleted_file_stays_deleted(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    target = await loaded(path)
    await output(target, {"system": "candidate"})
    path.unlink()
    await target.close()
    assert not path.exists()
    assert "somebody deleted it" in target.left_alone[0]


async def test_a_file_that_changed_since_the_start_is_not_overwritten(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    target = await loaded(path)
    path.write_text("edited by hand")
    with pytest.raises(ConfigError, match="it was changed after the run was set up"):
        await output(target, {"system": "candidate"})
    await target.close()
    assert path.read_text() == "edited by hand"


async def test_two_runs_on_one_file_are_refused(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    (tmp_path / "link.md").symlink_to(path)
    one, two = await loaded(path), await loaded(tmp_path / "link.md")
    await output(one, {})
    with pytest.raises(RunLocked, match=r"the prompt file .*link.md is in use by process \d+"):
        await output(two, {})
    await output(one, {"system": "candidate"})
    with pytest.raises(RunLocked, match="which has a candidate in it"):
        await loaded(path)
    await one.close()
    assert await output(two, {"system": "mine"}) == "mine|Who are you?"
    await two.close()
    assert path.read_text() == "Be brief.\n"


async def test_a_file_that_cannot_be_put_back_is_said_and_tried_again(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    target = await loaded(path)
    await output(target, {"system": "candidate"})
    path.unlink()
    path.mkdir()
    with pytest.raises(RollbackError, match=r"system\.md.*could not be put back"):
        await target.close()
    assert [record.suffix for record in borrowed_folder().iterdir()] == [".json"]


async def test_files_can_be_loaded_without_waiting(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    prompts = TargetPrompt().add_path("system", path)
    target = PromptsTarget.load_files(reader(path), prompts)
    assert target.baseline.values == {"system": "Be brief.\n"}
    assert target.estimate(Case.single("x")).calls == 1
