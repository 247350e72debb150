"""Agent files: every block read, every mistake said, every ignored key named."""

from pathlib import Path

import pytest

from burnish.core.cases import Attachment, Case, Turn
from burnish.core.errors import ConfigError
from burnish.targets.agent.attachments import pinned
from burnish.targets.agent.files import load_agent
from tests.targets.agent_world import AGENT, PLAIN, write_agent


def test_a_whole_file_loads(tmp_path: Path) -> None:
    agent = load_agent(write_agent(tmp_path))
    assert agent.block.name == "analyst"
    assert (agent.instructions.text, agent.instructions.version) == ("You are an analyst.\n", "3")
    assert [tool.name for tool in agent.block.tools] == ["subtract", "archive"]
    assert [case.input for case in agent.cases] == ["7 - 5?"]
    assert agent.block.execution.llm_timeout == 60
    assert agent.block.ignored() == []


def test_defaults_are_those_of_the_seed(tmp_path: Path) -> None:
    model = load_agent(write_agent(tmp_path, PLAIN)).block.model
    assert (model.temperature, model.max_tokens) == (0.3, 1000)


@pytest.mark.parametrize(
    ("provider", "extra", "label"),
    [
        ("openai", "", "openai:m"),
        ("azure_openai", ", endpoint: 'https://x.openai.azure.com'", "azure:m"),
        ("azure_openai", ", base_url: 'https://x.openai.azure.com'", "azure:m"),
        ("anthropic", "", "anthropic:m"),
        ("ollama", "", "ollama:m"),
        ("google", "", "google:m"),
        ("local", "", "local:m"),
    ],
)
def test_providers_are_references(tmp_path: Path, provider: str, extra: str, label: str) -> None:
    text = PLAIN.replace("provider: openai, name: m", f"provider: {provider}, name: m{extra}")
    assert load_agent(write_agent(tmp_path, text)).block.model.reference().label == label


MISTAKES = [
    ("name: analyst", "nam: analyst", "unknown key 'nam' — did you mean 'name'?"),
    ("instructions: {inline: You are an analyst.}", "instructions: You are it.", "write `inline:`"),
    ("{inline: You are an analyst.}", "{inline: x, file: y}", "give either file or inline"),
    ("{inline: You are an analyst.}", "{file: nowhere.md}", "instructions.file"),
    ("provider: openai", "provider: openia", "provider"),
    ("provider: openai", "provider: azure_openai", "azure_openai needs a base_url"),
    ("name: m}", "name: m, temperature: 3}", "temperature"),
    ("name: m}", "name: m, api_key: $sk-live-42}", "neither a key nor the name of a variable"),
    ("name: m}", "name: m, auth_provider: vertex}", "auth_provider 'vertex' is not supported"),
]


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES)
def test_mistakes_are_said(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in PLAIN
    path = write_agent(tmp_path, PLAIN.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_agent(path).block.model.reference()
    assert words in str(caught.value)
    assert "sk-live" not in str(caught.value)


TOOLS = [
    ("{name: t, type: mcp, description: d, transport: sse, url: u}", "'sse' is not supported"),
    ("{name: t, type: mcp, description: d, transport: websocket}", "is not supported"),
    ("{name: t, type: mcp, description: d}", "stdio needs a command"),
    ("{name: t, type: function, description: d, file: f.py}", "function: required"),
    ("{name: a b, type: function, description: d, file: f.py, function: f}", "name"),
    ("{name: t, type: prompt, description: d, parameters: {}}", "give either template or file"),
    ("{name: t, type: skill, description: d}", "type"),
    (
        "{name: t, type: hierarchical_document, description: d, source: s, semantic_weight: 0.9}",
        "must add up to 1",
    ),
    ("{name: t, type: vectorstore, description: d, source: s, top_k: 500}", "top_k"),
    ("{name: t, type: vectorstore, description: d, source: s, vector_field: v}", "id_field"),
]


@pytest.mark.parametrize(("tool", "words"), TOOLS)
def test_mistakes_in_tools_are_said(tmp_path: Path, tool: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_agent(write_agent(tmp_path, f"{PLAIN}tools:\n  - {tool}\n"))
    assert words in str(caught.value)


def test_two_tools_of_one_name(tmp_path: Path) -> None:
    tool = "  - {name: t, type: vectorstore, description: d, source: s}\n"
    with pytest.raises(ConfigError, match="two tools have the same name: t"):
        load_agent(write_agent(tmp_path, f"{PLAIN}tools:\n{tool}{tool}"))


def test_what_has_no_effect_is_named(tmp_path: Path) -> None:
    text = (
        PLAIN
        + """\
tools:
  - name: docs
    type: hierarchical_document
    description: d
    source: data/filing.md
    database: {provider: qdrant, connection_string: "${QDRANT}"}
    keyword_index: {provider: opensearch}
    enable_reranking: true
claude: {permission_mode: plan}
observability: {enabled: true}
deployment: {target: aws}
execution: {cache_dir: .cache, llm_timeout: 30}
"""
    )
    agent = load_agent(write_agent(tmp_path, text))
    told = "\n".join(agent.block.ignored())
    for word in ("claude", "observability", "deployment", "database", "keyword_index",
                 "enable_reranking", "cache_dir"):  # fmt: skip
        assert word in told
    assert "llm_timeout" not in told


def test_variables_are_expanded_where_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOW_WARM", "0.7")
    monkeypatch.setenv("WHICH", "big")
    text = PLAIN.replace("name: m", 'name: "${WHICH}-model", temperature: "${HOW_WARM}"')
    agent = load_agent(write_agent(tmp_path, text))
    assert (agent.block.model.name, agent.block.model.temperature) == ("big-model", 0.7)
    assert agent.data["model"] == {
        "provider": "openai",
        "name": "${WHICH}-model",
        "temperature": "${HOW_WARM}",
    }


def test_a_variable_that_is_not_set_is_said_with_its_place(tmp_path: Path) -> None:
    text = PLAIN.replace("name: m", 'name: "${NO_SUCH_THING}"')
    with pytest.raises(ConfigError, match="NO_SUCH_THING is not set") as caught:
        load_agent(write_agent(tmp_path, text))
    assert "model.name" in str(caught.value)


def test_a_key_is_not_looked_for_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANALYST_KEY", raising=False)
    agent = load_agent(write_agent(tmp_path))
    assert agent.block.model.reference().api_key == "${ANALYST_KEY}"


def test_cases_and_a_file_of_cases_do_not_go_together(tmp_path: Path) -> None:
    text = f"{AGENT}test_cases: [{{input: a}}]\n"
    with pytest.raises(ConfigError, match="test_cases or test_cases_file"):
        load_agent(write_agent(tmp_path, text))


def test_everything_is_said_at_once(tmp_path: Path) -> None:
    text = PLAIN.replace("{inline: You are an analyst.}", "{file: gone.md}")
    text += "test_cases: [{input: a, ground_truth: 5}]\nresponse_format: no-schema.json\n"
    with pytest.raises(ConfigError) as caught:
        load_agent(write_agent(tmp_path, text))
    told = str(caught.value)
    assert "gone.md" in told
    assert "ground_truth" in told


@pytest.mark.parametrize(
    ("whole", "text", "front"),
    [
        ("Plain.\n", "Plain.\n", ""),
        ("---\nversion: 1\n---\n\nText.\n", "Text.\n", "---\nversion: 1\n---\n\n"),
        ("---\n---\nText.", "Text.", "---\n---\n"),
        ("--- not front\nText.", "--- not front\nText.", ""),
        ("Text.\n---\na: b\n---\n", "Text.\n---\na: b\n---\n", ""),
    ],
)
def test_frontmatter_is_not_sent(tmp_path: Path, whole: str, text: str, front: str) -> None:
    path = write_agent(tmp_path)
    (tmp_path / "prompts" / "system.md").write_text(whole, encoding="utf-8")
    found = load_agent(path).instructions
    assert (found.text, found.front) == (text, front)
    assert found.with_text(text) == whole


def test_a_version_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    (tmp_path / "prompts" / "system.md").write_text("Plain.\n", encoding="utf-8")
    assert load_agent(path).instructions.version.startswith("auto-")


def test_another_content_of_an_attached_file_is_another_case(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("one", encoding="utf-8")
    file = Attachment(kind="text", path="page.txt")
    case = Case(turns=(Turn(input="Sum it up", attachments=(file,)),))
    (before,) = pinned([case], tmp_path)
    (tmp_path / "page.txt").write_text("two", encoding="utf-8")
    (after,) = pinned([case], tmp_path)
    assert before.content_id != after.content_id
    assert before.question_id != after.question_id
