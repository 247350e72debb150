"""Agents of frameworks in programs: `optimize(agent)`, adapters of others, absent libraries."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient, Limits
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from burnish import Budget, Case, Result, aoptimize, evaluate, optimize
from burnish.core.errors import BurnishError, ConfigError, MissingExtra
from burnish.models.factory import Models
from burnish.projects.called_agents import loaded_agent
from burnish.runs.directory import RunRecord
from burnish.system.extras import install_command, installed_version
from burnish.targets.frameworks import adapter_for
from burnish.testing.doubles import ScriptedBackend
from burnish.testing.servers import HttpRequest, ScriptedServer

KEY = "sk-own-0123456789abcdef"
RULE = "Always confirm."
ONE_TRIAL = Budget(max_trials=1)
MODULE = """\
from burnish.targets.frameworks.adapters import AgentAdapter, AgentPart


class Parrot:
    def __init__(self, text):
        self.text = text


class ParrotAdapter(AgentAdapter):
    @property
    def library(self):
        return "parrots"

    def parts(self):
        yield AgentPart.text("text", self.agent.text)

    def with_values(self, values):
        return Parrot(values.get("text", self.agent.text))

    def talk(self, agent):
        return Talk(agent)


class Talk:
    def __init__(self, agent):
        self.agent = agent

    async def send(self, message, history):
        return f"{self.agent.text} {message}"
"""


def _confirms(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del messages
    right = RULE in (info.instructions or "")
    return ModelResponse(parts=[TextPart("yes" if right else "no idea")])


@pytest.mark.parametrize("strategy", ["reflective", "auto"])
def test_a_program_optimises_its_agent_and_resumes(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # texts are looked for in every loaded file below the folder
    rows = "\n".join(f"is number {n} open?,yes" for n in range(40))
    cases = tmp_path / "cases.csv"
    cases.write_text(f"input,expected\n{rows}\n", encoding="utf-8")
    agent = Agent(FunctionModel(_confirms), instructions="Answer the visitors.")
    new = json.dumps({"diagnosis": "it never confirms", "new_text": f"Answer. {RULE}"})
    writer = ScriptedBackend(respond=lambda _, __: new)

    def searched() -> Result:
        return optimize(
            agent,
            cases=cases,
            metric="equality",
            reflector="openai:writer",
            strategy=strategy,
            budget=Budget(max_trials=2),
            folder=tmp_path / "run",
            models=Models(backends={"openai": writer}),
        )

    result = searched()
    assert RunRecord.read(tmp_path / "run").header.strategy == strategy
    assert RULE in result.best["instructions"]
    assert result.improved
    asked = len(writer.asked)
    assert searched().best == result.best
    assert len(writer.asked) == asked


def _is_a_visitor(asked: HttpRequest) -> bool:
    return re.fullmatch(r"is number \d+ open\?", asked.json["messages"][-1]["content"]) is not None


def _answer(asked: HttpRequest) -> str:
    """As the agent if a visitor asks, else as the model that rewrites its text."""
    if _is_a_visitor(asked):
        return "yes" if RULE in json.dumps(asked.json) else "no idea"
    return json.dumps({"diagnosis": "it never confirms", "new_text": f"Answer. {RULE}"})


async def test_the_own_model_of_an_agent_is_asked_at_its_endpoint_with_its_key(
    tmp_path: Path, own_variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"is number {n} open?,yes" for n in range(40))
    (tmp_path / "cases.csv").write_text(f"input,expected\n{rows}\n", encoding="utf-8")
    async with ScriptedServer(answers=_answer) as own, ScriptedServer(answers=_answer) as usual:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-usual-0123456789abcdef")
        monkeypatch.setenv("OPENAI_BASE_URL", usual.base_url)
        # Its loop is that of the run, so nobody can close a connection later.
        client = AsyncClient(limits=Limits(max_keepalive_connections=0))
        provider = OpenAIProvider(base_url=own.base_url, api_key=KEY, http_client=client)
        agent = Agent(OpenAIChatModel("m", provider=provider), instructions="Answer the visitors.")
        run = tmp_path / "run"
        result = await aoptimize(
            agent, cases="cases.csv", metric="equality", budget=ONE_TRIAL, folder=run
        )
        keys = {asked.headers["authorization"] for asked in own.requests}
        assert {_is_a_visitor(asked) for asked in own.requests} == {True, False}
        assert [*usual.requests] == []
    assert RULE in result.best["instructions"]
    assert keys == {f"Bearer {KEY}"}
    files = [file for file in run.rglob("*") if file.is_file()]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


@pytest.mark.parametrize("address", ["https://visitor:secret@models.example.org/v1", None])
def test_a_role_needs_a_model_where_that_of_the_agent_cannot_be_told(
    address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"is number {n} open?,yes" for n in range(40))
    (tmp_path / "cases.csv").write_text(f"input,expected\n{rows}\n", encoding="utf-8")
    provider = OpenAIProvider(base_url=address, api_key=KEY)
    model = FunctionModel(_confirms) if address is None else OpenAIChatModel("m", provider=provider)
    agent = Agent(model, instructions="Answer the visitors.")
    with pytest.raises(ConfigError, match="there is no model to rewrite texts: ") as refused:
        optimize(agent, cases="cases.csv", metric="equality", budget=ONE_TRIAL)
    assert ("cannot tell where" if address is None else "a password") in str(refused.value)
    assert 'reflector="openai:gpt-5-mini"' in str(refused.value)
    assert "secret" not in str(refused.value)


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"builtins\.dict cannot be called"):
        optimize({}, cases="cases.csv")


@pytest.fixture
def parrots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A distribution with a framework, and an adapter for it behind an entry point."""
    info = tmp_path / "site" / "parrots-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n")
    points = "[burnish.agents]\nparrots.Parrot = parrots:ParrotAdapter\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    (tmp_path / "site" / "parrots.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield import_module("parrots")
    del sys.modules["parrots"]


def test_an_entry_point_brings_the_adapter_of_another_framework(parrots: Any) -> None:
    found = evaluate(
        parrots.Parrot("Hello"), cases=[Case.single("you", "Hello you")], metric="equality"
    )
    assert found.passed


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("agents", "openai-agents"),
        ("crewai", "crewai"),
        ("dspy", "dspy"),
        ("google", "google-adk"),
        ("google.adk", "google-adk"),
        ("langgraph", "langgraph"),
    ],
)
def test_an_absent_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    own = f"desk_without_{module.replace('.', '_')}"
    source = f"import {module}\nagent = 1\n"
    (tmp_path / f"{own}.py").write_text(source, encoding="utf-8")
    with pytest.raises(MissingExtra, match="is not installed") as missing:
        loaded_agent(f"{own}:agent", tmp_path)
    assert install_command(extra) in missing.value.remedy


def _class_of(module: str, name: str) -> Any:
    """An agent whose class has the name of a library's, and nothing else of it."""
    return type(name, (), {"__module__": module})()


def test_a_library_that_the_adapter_does_not_fit_is_a_clear_message() -> None:
    agent = _class_of("langgraph.pregel", "Pregel")
    with pytest.raises(BurnishError, match=r"failed: AttributeError: .*; installed is") as failed:
        evaluate(agent, cases=[Case.single("hello", "hello")], metric="equality")
    assert failed.value.remedy == install_command("langgraph")


@pytest.mark.parametrize("module", ["crewai", "dspy", "google.adk"])
def test_a_library_that_cannot_be_imported_is_a_clear_message(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"crewai": "Crew", "dspy": "Module", "google.adk": "BaseAgent"}[module]
    home = f"burnish.targets.frameworks.{module.replace('.', '_')}"
    monkeypatch.setitem(sys.modules, home, None)
    with pytest.raises(BurnishError, match="failed: ModuleNotFoundError") as failed:
        adapter_for(_class_of(module, kind))
    extra = module.replace(".", "-")
    assert failed.value.remedy == install_command(extra)


@pytest.mark.skipif(bool(installed_version("openai-agents")), reason="the SDK is here")
def test_a_package_of_ones_own_named_agents_is_not_the_sdk() -> None:
    assert adapter_for(_class_of("agents", "Agent")) is None
