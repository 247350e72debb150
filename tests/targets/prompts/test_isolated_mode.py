"""Prompts that the agent asks for: nothing is written, and candidates overlap."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.core.protocols import Target
from burnish.system.files import state_folder
from burnish.targets.callables import CallableTarget, CommandTarget, HttpTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt
from burnish.targets.user_code import prompt, prompts_folder
from burnish.testing import check_target
from tests.targets.calling_agents import TWO_TURNS, endpoint
from tests.targets.prompts.prompt_files import CASE, Store, names_in, output, prompt_file, ran


async def isolated(agent: Target, prompts: TargetPrompt, **more: Any) -> PromptsTarget:
    return await PromptsTarget.load(agent, prompts, mode="isolated", **more)


async def outputs(target: PromptsTarget, texts: Sequence[str]) -> list[str]:
    return list(await asyncio.gather(*(output(target, {"system": text}) for text in texts)))


async def test_the_contract_and_that_nothing_is_touched(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    store, before = Store({"rule": "old"}), path.stat()

    async def agent(query: str) -> str:
        return f"{prompt('system', path)}|{prompt('rule')}|{query}"

    prompts = store.add(TargetPrompt().add_path("system", path), "rule")
    target = await isolated(CallableTarget(agent=agent), prompts)
    await check_target(target, [CASE, TWO_TURNS])
    assert await output(target, {"system": "s", "rule": "r"}) == "s|r|Who are you?"
    assert store.writes == []
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    await target.close()
    assert list(state_folder().iterdir()) == []


async def test_candidates_overlap_and_see_their_own_texts(tmp_path: Path) -> None:
    together = asyncio.Barrier(3)

    async def agent(query: str) -> str:
        await together.wait()
        return await asyncio.create_task(ask())

    async def ask() -> str:
        return prompt("system")

    prompts = TargetPrompt().add_path("system", prompt_file(tmp_path))
    target = await isolated(CallableTarget(agent=agent), prompts)
    async with asyncio.timeout(120):
        assert await outputs(target, ["a", "b", "c"]) == ["a", "b", "c"]


async def test_functions_that_are_not_async_see_their_own_texts_too(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=120)

    def agent(query: str) -> str:
        together.wait()
        return (prompts_folder() / "system.md").read_text() + prompt("system")

    prompts = TargetPrompt().add_path("system", prompt_file(tmp_path))
    target = await isolated(CallableTarget(agent=agent), prompts)
    assert await outputs(target, ["a", "b", "c"]) == ["aa", "bb", "cc"]
    await target.close()


async def test_steps_name_the_fields_that_were_asked_for(tmp_path: Path) -> None:
    async def agent(query: str) -> str:
        return prompt("one")

    prompts = TargetPrompt().add_path("one", prompt_file(tmp_path, "one"))
    prompts.add_path("two", prompt_file(tmp_path, "two"))
    target = await isolated(CallableTarget(agent=agent), prompts)
    outcome = await ran(target, {})
    assert [step.surfaces for step in outcome.trace.steps] == [("one",)]


def test_outside_of_a_run_an_agent_works_unchanged(tmp_path: Path) -> None:
    path = prompt_file(tmp_path, text=b"\xef\xbb\xbfBe brief.\r\n")
    assert prompt("system", path) == "Be brief.\r\n"
    assert prompt("system", default="Be kind.") == "Be kind."
    assert prompts_folder(tmp_path) == tmp_path
    with pytest.raises(KeyError, match=r"no run is active, so there is no prompt .system."):
        prompt("system")
    with pytest.raises(LookupError, match="there is no folder of prompts"):
        prompts_folder()


async def test_a_name_that_is_no_field_is_the_agents_error(tmp_path: Path) -> None:
    async def agent(query: str) -> str:
        return prompt("sytem")

    prompts = TargetPrompt().add_path("system", prompt_file(tmp_path))
    target = await isolated(CallableTarget(agent=agent), prompts)
    with pytest.raises(KeyError, match=r"no prompt field .sytem.: there are system"):
        await output(target, {})


@pytest.mark.slow
async def test_commands_find_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    path = prompt_file(tmp_path, text=b"Be brief.\r\n")
    skill = prompt_file(tmp_path / "skills", "tea", "Make tea.")
    show = (
        "import os, pathlib, sys\n"
        "home = pathlib.Path(os.environ['BURNISH_PROMPTS'])\n"
        "print(home == pathlib.Path(sys.argv[1]),"
        " [(str(f.relative_to(home)), f.read_bytes()) for f in sorted(home.rglob('*.md'))])"
    )
    agent = CommandTarget(command=(sys.executable, "-S", "-c", show, "{prompts}"))
    prompts = TargetPrompt().add_path("system", path).add_path("skill", skill)
    store = Store({"rule": "No milk."})
    target = await isolated(agent, store.add(prompts, "rule"))
    said = await outputs(target, ["a\n", "b"])
    rest = "('rule.md', b'No milk.'), ('skills/tea.md', b'Make tea.')"
    assert said == [
        f"True [{rest}, ('system.md', b'a\\r\\n')]",
        f"True [{rest}, ('system.md', b'b')]",
    ]
    assert path.read_bytes() == b"Be brief.\r\n"
    folders = state_folder() / "isolated"
    assert len(list(folders.iterdir())) == 2
    await target.close()
    assert list(folders.iterdir()) == []


@pytest.mark.slow
async def test_a_command_in_source_mode_is_told_where_the_files_lie(tmp_path: Path) -> None:
    path = prompt_file(tmp_path)
    agent = CommandTarget(command=("cat", "{prompts}/system.md"))
    target = await PromptsTarget.load(agent, TargetPrompt().add_path("system", path))
    assert await output(target, {"system": "new"}) == "new"
    await target.close()
    with pytest.raises(ConfigError, match="there is no folder for"):
        await agent.run(agent.baseline, CASE, draw=0, effects=None)  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
async def test_endpoints_are_sent_the_texts(tmp_path: Path) -> None:
    prompts = TargetPrompt().add_path("system", prompt_file(tmp_path))
    prompts.add_path("rule", prompt_file(tmp_path, "rule", "No {{input}}, ${HOME}!"))
    body: Json = {"system": "{{prompts.system}}", "ask": "{{ prompts.rule }} {{input}}"}
    async with endpoint(lambda asked: asked.json | {"style": asked.headers["x-style"]}) as here:
        agent = HttpTarget(url=here.url, headers={"X-Style": "v={{prompts.system}}"}, body=body)
        target = await isolated(agent, prompts)
        outcomes = await asyncio.gather(
            *(ran(target, {"system": text}) for text in ("a\nb", "é 日本語"))
        )
    assert [outcome.data for outcome in outcomes] == [
        {"system": "a\nb", "ask": "No {{input}}, ${HOME}! Who are you?", "style": "v=a%0Ab"},
        {
            "system": "é 日本語",
            "ask": "No {{input}}, ${HOME}! Who are you?",
            "style": "v=%C3%A9%20%E6%97%A5%E6%9C%AC%E8%AA%9E",
        },
    ]


async def test_an_endpoint_that_would_never_see_a_field_is_refused(tmp_path: Path) -> None:
    prompts = TargetPrompt().add_path("system", prompt_file(tmp_path))
    plain = HttpTarget(url="http://127.0.0.1:9/chat")
    with pytest.raises(ConfigError, match="would never see the field 'system'"):
        await isolated(plain, prompts)
    unknown = HttpTarget(url=plain.url, body={"a": "{{input}}", "b": "{{prompts.sytem}}"})
    with pytest.raises(ConfigError, match="no prompt field 'sytem'"):
        await PromptsTarget.load(unknown, prompts)
    with pytest.raises(ConfigError, match=r"there are no texts for \{\{prompts.sytem\}\}"):
        await unknown.run(unknown.baseline, CASE, draw=0, effects=None)  # pyright: ignore[reportArgumentType]
    await PromptsTarget.load(plain, prompts)


async def test_files_outside_of_the_root_are_refused(tmp_path: Path) -> None:
    async def agent(query: str) -> str:
        return str(prompts_folder())

    (tmp_path / "a").mkdir()
    prompts = TargetPrompt().add_path("system", prompt_file(tmp_path / "a"))
    with pytest.raises(ConfigError, match="is not in"):
        await isolated(CallableTarget(agent=agent), prompts, root=tmp_path / "b")
    target = await isolated(CallableTarget(agent=agent), prompts, root=tmp_path)
    folder = await output(target, {"system": "x"})
    assert (Path(folder) / "a" / "system.md").read_text() == "x"
    await target.close()
    assert names_in(state_folder() / "isolated") == []
