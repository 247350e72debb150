"""HoloDeck's config.yaml gives the models of an agent file what the file leaves out."""

from pathlib import Path

import pytest

from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.runs.build import kept_spec
from burnish.targets.agent.files import edit, load_agent

AGENT = """\
name: clerk
model: {provider: azure_openai, name: gpt-4o, temperature: 0.1}  # ours
instructions: {inline: Answer.}
evaluations:
  model: {provider: openai, name: judge, endpoint: "http://own.example/v1"}
  metrics: [{type: standard, metric: equality}]
"""
PROJECT = """\
providers:
  our-azure:
    provider: azure_openai
    name: gpt-4o-mini
    temperature: 0.9
    endpoint: https://team.openai.azure.com
    api_key: ${TEAM_KEY}
  openai: {provider: openai, name: x, base_url: "http://project.example/v1", max_tokens: 7}
execution: {llm_timeout: 75, verbose: true}
"""
USERS = """\
providers:
  azure_openai:
    provider: azure_openai
    name: gpt-4o
    endpoint: https://mine.openai.azure.com
    api_version: "2024-10-21"
execution: {llm_timeout: 20, parallel_test_cases: 6}
"""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, folder = tmp_path / "home", tmp_path / "project"
    (home / ".holodeck").mkdir(parents=True)
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / ".holodeck" / "config.yaml").write_text(USERS, encoding="utf-8")
    (folder / "config.yaml").write_text(PROJECT, encoding="utf-8")
    (folder / "agent.yaml").write_text(AGENT, encoding="utf-8")
    return folder / "agent.yaml"


def test_the_agent_file_is_first_then_the_projects_file_then_the_users(agent: Path) -> None:
    block = load_agent(agent).block
    ref = block.model.reference()
    assert (ref.provider, ref.name, ref.settings.temperature) == ("azure", "gpt-4o", 0.1)
    assert ref.base_url == "https://team.openai.azure.com"
    assert (ref.api_key, ref.api_version) == ("${TEAM_KEY}", "2024-10-21")
    assert block.evaluations is not None
    assert block.evaluations.model is not None
    judge = block.evaluations.model.reference()
    assert (judge.base_url, judge.settings.max_tokens) == ("http://own.example/v1", 7)


def test_a_reference_in_one_word_gets_it_too(agent: Path) -> None:
    block = "{provider: azure_openai, name: gpt-4o, temperature: 0.1}"
    agent.write_text(AGENT.replace(block, "azure:gpt-4o"), encoding="utf-8")
    spec = describe(Document.read(agent), {}, environ={}).spec
    ref = spec.target.document.model.reference()
    assert (ref.name, ref.base_url) == ("gpt-4o", "https://team.openai.azure.com")


@pytest.mark.parametrize(
    ("own", "expected"),
    [("", (75, 6)), ("execution: {parallel_test_cases: 2}\n", (75, 2))],
)
def test_how_cases_are_run_comes_from_there_too(
    agent: Path, own: str, expected: tuple[int, int]
) -> None:
    agent.write_text(AGENT + own, encoding="utf-8")
    spec = describe(Document.read(agent), {}, environ={}).spec
    execution = spec.target.document.execution
    assert (execution.llm_timeout, spec.execution.concurrency) == expected
    assert load_agent(agent).block.execution.llm_timeout == 75
    flags = describe(Document.read(agent), {"concurrency": 9}, environ={}).spec
    assert flags.execution.concurrency == 9


def test_a_candidate_keeps_it_and_no_file_of_the_agent_shows_it(agent: Path) -> None:
    loaded = load_agent(agent)
    edited = edit(loaded, {"model.temperature": 0.5})
    assert edited.block.model.reference().base_url == "https://team.openai.azure.com"
    assert "team.openai" not in loaded.tree.text


def test_a_resume_needs_no_config_file(agent: Path) -> None:
    """And a key that is written there in plain text is stored by its place."""
    key = "plain-key-0123456789"
    config = agent.parent / "config.yaml"
    config.write_text(PROJECT.replace("${TEAM_KEY}", key), encoding="utf-8")
    stored = kept_spec(describe(Document.read(agent), {}, environ={}))
    model = stored["target"]["document"]["model"]  # pyright: ignore
    assert model["endpoint"] == "https://team.openai.azure.com"  # pyright: ignore
    place = {"file": str(config.resolve()), "at": ["providers", "our-azure", "api_key"]}
    assert model["api_key"] == {"$written_in": place}  # pyright: ignore


def test_without_such_files_nothing_changes(agent: Path) -> None:
    (agent.parent / "config.yaml").write_text("debug: true\n", encoding="utf-8")
    (Path.home() / ".holodeck" / "config.yaml").unlink()
    agent.write_text(AGENT.replace("azure_openai", "openai"), encoding="utf-8")
    loaded = load_agent(agent)
    assert loaded.added == ()
    assert loaded.described == loaded.data
