"""The address of a model in an agent file: `base_url`, or `endpoint` as HoloDeck has it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.metrics.files import AgentMetric
from burnish.models.factory import ModelBlock
from burnish.projects.adopt_files import write_together
from burnish.projects.agent.dialect import file_changes
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.measurements import load_measurement, measured
from burnish.targets.agent.files import load_agent
from burnish.testing.servers import ScriptedServer

SPELLINGS = ("base_url", "endpoint")
ADDRESS = "http://127.0.0.1:9/v1"
KEY = "sk-of-a-test-0123456789"
ROLES = ("critic", "applier", "reflector", "proposer", "backwarder", "aggregator", "patcher")
FILE = """\
name: clerk
model: {provider: openai, name: m, SPELLING: "${CLERK_ADDRESS}"}  # ours
instructions: {inline: Answer.}
embedding_provider: {provider: openai, name: e, SPELLING: "${CLERK_ADDRESS}"}
user_simulator: {provider: openai, name: u, SPELLING: "${CLERK_ADDRESS}"}
evaluations:
  model: {provider: openai, name: j, SPELLING: "${CLERK_ADDRESS}"}
  metrics:
    - type: standard
      metric: fluency
      model: {provider: openai, name: f, SPELLING: "${CLERK_ADDRESS}"}
  optimizer:
    loss: {fluency: 1.0}
""" + "".join(
    f'    {role}: {{provider: openai, name: {role}, SPELLING: "${{CLERK_ADDRESS}}"}}\n'
    for role in ROLES
)
AZURE = """\
name: customer-support
model:
  provider: azure_openai
  name: our-gpt-4o
  endpoint: ${AZURE_ENDPOINT}
  api_key: ${AZURE_OPENAI_API_KEY}
  temperature: 0.7
instructions: {inline: Answer.}
evaluations:
  model: {provider: azure_openai, name: our-judge, endpoint: "${AZURE_ENDPOINT}"}
  metrics:
    - {type: standard, metric: equality}
    - {type: geval, name: polite, criteria: Is it polite?, evaluation_steps: [Look at it.]}
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("CLERK_ADDRESS", ADDRESS)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)


def write(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def models_in(path: Path) -> Iterator[ModelBlock | None]:
    """Every model that the file describes."""
    block = load_agent(path).block
    assert block.evaluations is not None
    (metric,) = block.evaluations.metrics
    yield from (block.model, block.embedding_provider, block.user_simulator)
    yield from (block.evaluations.model, _model_of(metric))
    roles = describe(Document.read(path), {}, environ={}).spec.roles
    yield from (roles.get(role) for role in ROLES)


def _model_of(metric: AgentMetric) -> ModelBlock | None:
    return getattr(metric, "model", None)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_both_spellings_are_one_address_wherever_a_model_is_described(
    tmp_path: Path, spelling: str
) -> None:
    blocks = list(models_in(write(tmp_path, FILE.replace("SPELLING", spelling))))
    assert len(blocks) == 5 + len(ROLES)
    assert {block and block.reference().address for block in blocks} == {ADDRESS}


@pytest.mark.parametrize("second", [ADDRESS, f"{ADDRESS}/", "${CLERK_ADDRESS}"])
def test_the_same_address_twice_is_one(tmp_path: Path, second: str) -> None:
    both = f'base_url: "{second}", endpoint'
    blocks = list(models_in(write(tmp_path, FILE.replace("SPELLING", both))))
    assert {block and block.reference().address for block in blocks} == {ADDRESS}


@pytest.mark.parametrize("place", ["model", "evaluations.model", "evaluations.optimizer.critic"])
def test_two_addresses_are_an_error_that_names_both(tmp_path: Path, place: str) -> None:
    key = f"{place.rpartition('.')[2]}: {{provider: openai"
    before, after = FILE.split(f"\n{'  ' * place.count('.')}{key}", 1)
    other = f"\n{'  ' * place.count('.')}{key}, base_url: 'http://127.0.0.1:8/v1'"
    path = write(tmp_path, f"{before}{other}{after}".replace("SPELLING", "endpoint"))
    with pytest.raises(ConfigError) as error:
        list(models_in(path))
    assert f"{place}: base_url and endpoint" in str(error.value)
    assert "keep one of them" in str(error.value)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_is_written_back_keeps_the_spelling(tmp_path: Path, spelling: str) -> None:
    text = FILE.replace("SPELLING", spelling)
    path = write(tmp_path, text)
    agent = load_agent(path)
    write_together(file_changes(agent, {"model.temperature": 0.7, "instructions": "Be brief."}))
    new = path.read_text(encoding="utf-8")
    assert load_agent(path).block.model.temperature == 0.7
    assert new.count(spelling) == text.count(spelling)
    assert "${CLERK_ADDRESS}" in new.splitlines()[1]
    assert ({*SPELLINGS} - {spelling}).pop() not in new


def test_an_azure_agent_of_holodeck_needs_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure() -> list[tuple[str, str, str, str]]:
        verdict = '{"score": 10, "reason": "it is"}'
        async with ScriptedServer(
            answers=lambda asked: "yes" if "our-gpt" in asked.json["model"] else verdict
        ) as server:
            monkeypatch.setenv("AZURE_ENDPOINT", f"{server.address}/")
            measurement = load_measurement(write(tmp_path, AZURE), {})
            found = await measured(measurement, None)
        assert found.score("equality") == 1.0
        return [(a.path, a.query, a.headers["api-key"], a.json["model"]) for a in server.requests]

    asked = asyncio.run(measure())
    assert asked[0] == ("/openai/v1/chat/completions", "", KEY, "our-gpt-4o")
    assert {each[:3] for each in asked} == {asked[0][:3]}
    assert {each[3] for each in asked} == {"our-gpt-4o", "our-judge"}
