"""Retrieval tools of an agent: every knob is really used, and sources are read once."""

from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.errors import ConfigError
from burnish.core.surfaces import NumberSurface, Value
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest
from burnish.targets.agent.target import AgentTarget
from tests.targets.agent_world import PLAIN, target, uses, with_values, write_agent

DOCS = {
    "pets.md": "# Cats\nA cat purrs when it is content.\n\n# Dogs\nA dog barks at strangers.\n",
    "money.md": "# Revenue\nRevenue rose 3 % in 2014.\n\n# Costs\nCosts fell; the cat food too.\n",
    "words.md": "# Purring\nTo purr is a verb. Content is a noun. Cat is short.\n",
}
TOOL = """\
tools:
  - name: archive
    type: hierarchical_document
    description: Search the archive
    source: data/*.md
    search_mode: keyword
    max_chunk_tokens: 100
    chunk_overlap: 0
"""


@pytest.fixture(autouse=True)
def _no_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    """No embedding model on this machine, whatever was pulled."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


def archive(folder: Path, tool: str = TOOL) -> Path:
    path = write_agent(folder, PLAIN + tool)
    (folder / "data" / "filing.md").unlink()
    for name, text in DOCS.items():
        (folder / "data" / name).write_text(text, encoding="utf-8")
    return path


def asking(query: str) -> object:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        return last.content if last.role == "tool" else uses("archive_search", query=query)

    return respond


async def found(made: AgentTarget, **values: Value) -> Outcome:
    candidate = with_values(made.baseline, **values)
    receipt = await made.run(candidate, Case.single("go"), draw=0, effects=DirectEffects())
    return receipt.value


def passages(outcome: Outcome) -> tuple[str, ...]:
    return outcome.trace.steps[0].tools[0].passages


async def test_what_is_found_reaches_the_model_and_the_metrics(tmp_path: Path) -> None:
    made, _ = target(archive(tmp_path), asking("cat purrs content"))  # pyright: ignore[reportArgumentType]
    outcome = await found(made)
    await made.close()
    assert "A cat purrs when it is content." in passages(outcome)[0]
    assert "[1]" in outcome.output
    assert "pets.md" in outcome.output


async def test_defect_000_6_no_knob_is_dead(tmp_path: Path) -> None:
    knobs = [
        NumberSurface(id="tools[name=archive].top_k", low=1, high=50, integer=True),
        NumberSurface(id="tools[name=archive].min_score", low=0, high=1),
    ]
    text = TOOL + "    top_k: 5\n    min_score: 0.0\n"
    made, _ = target(archive(tmp_path, text), asking("cat content purr"), knobs)  # pyright: ignore[reportArgumentType]
    whole = passages(await found(made))
    fewer = passages(await found(made, **{"tools[name=archive].top_k": 1}))
    strict = passages(await found(made, **{"tools[name=archive].min_score": 0.999}))
    await made.close()
    assert len(whole) > 1
    assert fewer == whole[:1]
    assert len(strict) < len(whole)


async def test_sources_are_read_once_for_all_candidates(tmp_path: Path) -> None:
    knob = NumberSurface(id="tools[name=archive].top_k", low=1, high=50, integer=True)
    made, _ = target(archive(tmp_path), asking("cat"), [knob])  # pyright: ignore[reportArgumentType]
    for top_k in (1, 2, 3):
        await found(made, **{knob.id: top_k})
    await made.close()
    kept = list((tmp_path / ".burnish" / "index").glob("*.db"))
    assert len(kept) == 1


def test_other_content_is_another_agent(tmp_path: Path) -> None:
    path = archive(tmp_path)
    before = target(path)[0].description.fingerprint
    (tmp_path / "data" / "pets.md").write_text("# Cats\nCats sleep.\n", encoding="utf-8")
    assert target(path)[0].description.fingerprint != before


def test_a_source_that_is_not_there_is_said_before_anything_is_paid(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-folder"):
        target(archive(tmp_path, TOOL.replace("data/*.md", "no-such-folder/*.md")))


def test_without_an_embedding_model_it_says_so(tmp_path: Path) -> None:
    made, _ = target(archive(tmp_path, TOOL.replace("keyword", "hybrid")))
    assert any("by keywords only" in note for note in made.notes)


def test_an_embedding_model_needs_somebody_who_has_it(tmp_path: Path) -> None:
    text = PLAIN.replace("provider: openai, name: m", "provider: anthropic, name: m")
    path = archive(tmp_path, TOOL + "    embedding_model: text-embedding-3-small\n")
    path.write_text(path.read_text(encoding="utf-8").replace(PLAIN, text), encoding="utf-8")
    with pytest.raises(ConfigError, match="add an embedding_provider"):
        target(path)
