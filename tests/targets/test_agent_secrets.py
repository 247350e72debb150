"""What agents send to servers of tools and to models, and nobody may store."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.models.factory import Models
from burnish.system.files import Unreadable
from burnish.targets.agent.document_limits import full_address
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.runner import client_for
from burnish.targets.callables import HttpTarget
from burnish.targets.graph.files import load_graph
from burnish.targets.graph.target import GraphTarget
from burnish.targets.prompts.target import PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt
from tests.targets.agent_world import scripted, target, write_agent

TOOLS = """\
name: clerk
model: {provider: openai, name: m, base_url: "https://gate.example/v1?account=${GATE}"}
instructions: {inline: "You work for ${COMPANY}."}
tools:
  - {name: one, type: mcp, description: d, command: python,
     args: ["--login", "${ARGUMENT}"], env: {LOGIN: "${VARIABLE}"}, env_file: shelf.env}
  - {name: two, type: mcp, description: d, transport: http,
     url: "https://${PLACE}/mcp?account=${QUERY}", headers: {X-Login: "Bearer ${HEADER}"}}
"""
SENT = ("ARGUMENT", "VARIABLE", "QUERY", "HEADER")


@pytest.fixture(autouse=True)
def _values(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in (*SENT, "GATE", "COMPANY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    monkeypatch.setenv("PLACE", "shelf.example")
    monkeypatch.setenv("LOGIN_PLACE", "kim:open-sesame@shelf.example")


def test_what_tools_are_sent(tmp_path: Path) -> None:
    (tmp_path / "shelf.env").write_text("SHELF=value-of-file\nN=1\n", encoding="utf-8")
    made, _ = target(write_agent(tmp_path, TOOLS))
    assert {*made.secrets()} == {*(f"value-of-{name}" for name in SENT), "value-of-file"}


def test_what_models_are_sent(tmp_path: Path) -> None:
    (tmp_path / "shelf.env").touch()
    models = Models()
    client_for(models, load_agent(write_agent(tmp_path, TOOLS)).block)
    assert models.secrets() == ["value-of-GATE"]


def test_a_server_of_tools_with_a_login_in_its_address(tmp_path: Path) -> None:
    (tmp_path / "shelf.env").touch()
    text = TOOLS.replace("${PLACE}", "${LOGIN_PLACE}")
    with pytest.raises(ConfigError, match="tool two: the address has a user and password") as told:
        target(write_agent(tmp_path, text))
    assert "open-sesame" not in str(told.value)


def test_a_file_of_a_case_with_a_login_in_its_address() -> None:
    with pytest.raises(Unreadable) as told:
        full_address("https://${LOGIN_PLACE}/scan.pdf")
    assert "a user and password" in told.value.cause
    assert "open-sesame" not in str(told.value)


def test_what_agents_in_a_graph_send(tmp_path: Path) -> None:
    (tmp_path / "shelf.env").touch()
    write_agent(tmp_path, TOOLS)
    text = "kind: graph\nname: pair\nnodes: {clerk: {agent: agent.yaml}}\n"
    (tmp_path / "graph.yaml").write_text(text, encoding="utf-8")
    made = GraphTarget(load_graph(tmp_path / "graph.yaml"), scripted(lambda _, __: "ok")[0])
    assert {*made.secrets()} == {f"value-of-{name}" for name in SENT}


def test_what_an_agent_with_prompts_and_a_store_is_sent(tmp_path: Path) -> None:
    agent = HttpTarget(
        url="https://shop.example",
        headers={"X-Login": "${HEADER}"},
        body={"q": "{{input}}", "tone": "{{prompts.tone}}"},
    )
    (tmp_path / "tone.md").write_text("Be kind.", encoding="utf-8")
    prompts = TargetPrompt().add_path("tone", tmp_path / "tone.md")
    prompts.add_store("rules", "sql:postgresql://kim:${QUERY}@db.example/shop#prompts/rules")
    assert prompts.secrets() == ["value-of-QUERY"]
    tone = TargetPrompt().add_path("tone", tmp_path / "tone.md")
    target_of = PromptsTarget.load_files(agent, tone, home=tmp_path / "home", mode="isolated")
    assert target_of.secrets() == ["value-of-HEADER"]
