"""Candidates of agent files: values in their places, files that load, comments that stay."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.errors import ConfigError
from burnish.core.surfaces import ChoiceSurface, Demonstration, NumberSurface, TextSurface
from burnish.system import read_tree
from burnish.targets.agent.files import edit, load_agent, parse_path, rescaled, value_at
from burnish.targets.agent.target import AgentTarget
from tests.targets.agent_world import AGENT, scripted, target, with_values, write_agent


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.temperature", 0.3),
        ("model.max_tokens", 1000),
        ("tools[name=subtract].description", "a - b"),
        ("tools[1].top_k", 10),
        ("tools[name='archive'].rrf_k", 60),
        ("execution.llm_timeout", 60),
        ("instructions.file", "prompts/system.md"),
    ],
)
def test_a_path_leads_to_its_value(tmp_path: Path, path: str, value: object) -> None:
    assert value_at(load_agent(write_agent(tmp_path)).block, path) == value


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("model.temprature", "did you mean 'temperature'?"),
        ("tools[name=archiv].top_k", "nothing has name 'archiv'"),
        ("tools[7].top_k", "there is no item 7"),
        ("tools[name=archive].min_similarity_score", "there is no 'min_similarity_score'"),
        (".model", "not a path"),
        ("", "the path is empty"),
        ("model..name", "not a path"),
        ("tools[name=archive", "not a path"),
    ],
)
def test_a_path_that_leads_nowhere_says_so(tmp_path: Path, path: str, words: str) -> None:
    block = load_agent(write_agent(tmp_path)).block
    with pytest.raises(ConfigError) as caught:
        value_at(block, path)
    assert words in str(caught.value)


@settings(max_examples=50)
@given(st.text(max_size=20))
def test_any_text_is_a_path_or_is_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_path(text)


INSTRUCTIONS = TextSurface(id="instructions.inline")
WEIGHT = NumberSurface(id="tools[name=archive].semantic_weight", low=0, high=1)


def exported(made: AgentTarget, home: Path, **values: object) -> dict[str, bytes]:
    candidate = with_values(made.baseline, **values)  # pyright: ignore[reportArgumentType]
    assert not made.check(candidate)
    files = dict(made.export(candidate, home))
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    return files


@pytest.mark.parametrize("path", ["instructions", "instructions.inline", "instructions.file"])
def test_defect_000_2_instructions_in_a_file_can_be_tuned(tmp_path: Path, path: str) -> None:
    made, _ = target(write_agent(tmp_path), surfaces=[TextSurface(id=path)])
    assert made.baseline.values == {path: "You are an analyst.\n"}
    home = tmp_path / "results" / "best"
    exported(made, home, **{path: "Answer briefly.\n"})
    again = load_agent(home / "agent.yaml")
    assert again.instructions.text == "Answer briefly.\n"
    assert again.instructions.front == "---\nversion: 3\nauthor: Kim\n---\n"
    assert again.block.instructions.inline is None
    before = (tmp_path / "prompts" / "system.md").read_text(encoding="utf-8")
    assert "You are an analyst." in before, "the user's own file is as it was"


def test_inline_instructions_stay_inline(tmp_path: Path) -> None:
    text = AGENT.replace("{file: prompts/system.md}", "{inline: 'Be kind.'}")
    made, _ = target(write_agent(tmp_path, text), surfaces=[TextSurface(id="instructions")])
    home = tmp_path / "out"
    files = exported(made, home, instructions="Be brief.\nAnd: kind.\n")
    assert list(files) == ["agent.yaml"]
    assert load_agent(home / "agent.yaml").instructions.text == "Be brief.\nAnd: kind.\n"


def test_defect_000_3_one_weight_moves_its_siblings(tmp_path: Path) -> None:
    made, _ = target(write_agent(tmp_path), surfaces=[WEIGHT])
    home = tmp_path / "results" / "best"
    exported(made, home, **{WEIGHT.id: 0.75})
    tool = load_agent(home / "agent.yaml").block.tools[1]
    weights = [getattr(tool, key) for key in ("semantic_weight", "keyword_weight", "exact_weight")]
    assert weights == [0.75, 0.25, 0.0]


@given(
    st.tuples(*[st.floats(0, 1)] * 3),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 1), min_size=1),
)
def test_rescaled_weights_add_up_to_1(
    before: tuple[float, float, float], chosen: dict[str, float]
) -> None:
    found = rescaled(dict(zip("abc", before, strict=True)), chosen)
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-9)
    assert all(-1e-9 <= weight <= 1 + 1e-9 for weight in found.values())
    if len(chosen) < 3 and math.fsum(chosen.values()) <= 1:
        assert all(found[key] == pytest.approx(value, abs=1e-5) for key, value in chosen.items())


def test_defect_000_4_keys_stay_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANALYST_KEY", "sk-canary-0123456789")
    made, _ = target(write_agent(tmp_path), surfaces=[WEIGHT])
    home = tmp_path / "out"
    files = exported(made, home, **{WEIGHT.id: 0.5})
    text = files["agent.yaml"].decode()
    assert 'api_key: "${ANALYST_KEY}"' in text
    assert "canary" not in text
    assert "canary" not in str(made.description)


def test_defect_000_5_paths_lead_to_the_same_places_and_nothing_is_expanded(
    tmp_path: Path,
) -> None:
    made, _ = target(write_agent(tmp_path), surfaces=[WEIGHT])
    home = tmp_path / "results" / "optimizer" / "run" / "candidates" / "iter-03"
    text = exported(made, home, **{WEIGHT.id: 0.5})["agent.yaml"].decode()
    assert "file: ../../../../../prompts/system.md" in text
    assert "source: ../../../../../data/*.md" in text
    assert "test_cases_file: ../../../../../cases.yaml" in text
    assert "max_tokens" not in text, "defaults are not written out"
    assert "test_cases:" not in text
    again = load_agent(home / "agent.yaml")
    assert [case.input for case in again.cases] == ["7 - 5?"]
    AgentTarget(again, scripted(lambda _, __: "")[0])


def test_comments_order_and_quotes_stay(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    made, _ = target(path, surfaces=[NumberSurface(id="model.temperature", low=0, high=2)])
    text = made.export(with_values(made.baseline, **{"model.temperature": 0.9}), tmp_path)
    assert text["agent.yaml"].decode() == AGENT.replace("temperature: 0.3", "temperature: 0.9")


def test_the_baseline_is_the_file_as_it_is(tmp_path: Path) -> None:
    made, _ = target(write_agent(tmp_path), surfaces=[WEIGHT, INSTRUCTIONS])
    assert made.export(made.baseline, tmp_path) == {"agent.yaml": AGENT.encode()}


def test_a_field_that_is_not_there_yet_is_put_there(tmp_path: Path) -> None:
    surface = NumberSurface(id="execution.llm_timeout", low=1, high=600, integer=True)
    made, _ = target(write_agent(tmp_path), surfaces=[surface])
    assert made.baseline.values == {surface.id: 60}
    exported(made, tmp_path / "out", **{surface.id: 90})
    assert load_agent(tmp_path / "out" / "agent.yaml").block.execution.llm_timeout == 90


def test_a_candidate_that_does_not_load_is_turned_away_for_free(tmp_path: Path) -> None:
    surfaces = [
        ChoiceSurface(id="tools[name=archive].search_mode", choices=("hybrid", "fuzzy")),
        NumberSurface(id="tools[name=archive].top_k", low=1, high=1000, integer=True),
    ]
    made, backend = target(write_agent(tmp_path), surfaces=surfaces)
    bad = with_values(
        made.baseline,
        **{"tools[name=archive].search_mode": "fuzzy", "tools[name=archive].top_k": 900},
    )
    told = " ".join(map(str, made.check(bad)))
    assert "search_mode" in told
    assert "top_k" in told
    assert backend.asked == []


def test_a_candidate_brings_in_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that somebody sends or a model writes is never filled from the environment."""
    monkeypatch.setenv("SOME_SECRET", "s3cret-value-55")
    agent = load_agent(write_agent(tmp_path))
    name = "tools[name=subtract].description"
    with pytest.raises(ConfigError, match=r"it contains the variable \$\{SOME_SECRET\}") as caught:
        edit(agent, {name: "a - b, by ${SOME_SECRET}"})
    assert "s3cret-value-55" not in str(caught.value)
    assert edit(agent, {name: "a - b, by $SOME_SECRET"}).changes == {name: "a - b, by $SOME_SECRET"}


def test_demonstrations_are_written_and_read(tmp_path: Path) -> None:
    agent = load_agent(write_agent(tmp_path))
    demos = (Demonstration(input="1 - 1?", output="0", case="one"),)
    edited = edit(agent, {"demonstrations": demos})
    assert edited.demonstrations == demos


def test_json_files_are_agents_too(tmp_path: Path) -> None:
    write_agent(tmp_path)
    path = tmp_path / "agent.json"
    path.write_text(
        '{"name": "a", "model": {"provider": "openai", "name": "m"}, '
        '"instructions": {"inline": "Hi."}}',
        encoding="utf-8",
    )
    made, _ = target(path, surfaces=[TextSurface(id="instructions")])
    exported(made, tmp_path / "out", instructions="Ho.")
    assert read_tree(tmp_path / "out" / "agent.json").data == {
        "name": "a",
        "model": {"provider": "openai", "name": "m"},
        "instructions": {"inline": "Ho."},
    }
