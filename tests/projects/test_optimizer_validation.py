"""What is wrong with an optimizer block is said before the start, all of it, with its place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.models.errors import ModelRefused
from burnish.models.references import ModelRef
from burnish.projects import load_project
from burnish.runs.setup import Setup
from tests.projects.optimizer_world import (
    Change,
    EchoBackend,
    echo,
    echo_models,
    optimizer,
    write_cases,
    write_world,
)


def prepared(path: Path, *, priced: bool = True, **flags: float | str) -> Setup:
    models = echo_models(echo(), priced=priced)
    return load_project(path, flags, environ={}, models=models).setup


def problems(path: Path, *, priced: bool = True, **flags: float | str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        prepared(path, priced=priced, **flags)
    return [str(problem) for problem in error.value.problems]


def said(**values: Any) -> Change:
    """Other values in the optimizer block."""
    return lambda data: optimizer(data).update(values)


def numeric(*axes: dict[str, Any]) -> Change:
    return lambda data: optimizer(data)["axes"].update(numeric=list(axes))


def textual(path: str, max_chars: int = 400) -> Change:
    axis = {"path": path, "max_chars": max_chars}
    return lambda data: optimizer(data)["axes"].update(textual=[axis])


def tool(field: str, name: str = "archive", **more: Any) -> Change:
    return numeric({"path": f"tools[name={name}].{field}", **more})


def without(*names: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        for name in names:
            del optimizer(data)[name]

    return change


TEMPERATURE = {"path": "model.temperature", "range": [0.0, 1.0]}
NUMERIC = "axes.numeric[0]"

MISTAKES: dict[str, tuple[Change | Sequence[Change], str, str]] = {
    "no holdout": (
        without("holdout_cases_file"),
        "holdout_cases_file is missing: train cases are learned from and holdout cases decide",
        "holdout_eval_policy: skip",
    ),
    "no files": (
        without("train_cases_file", "holdout_cases_file"),
        "train_cases_file and holdout_cases_file are missing",
        "burnish data split",
    ),
    "no such file": (
        said(train_cases_file="nowhere.yaml"),
        "optimizer.train_cases_file: cannot read",
        "nowhere.yaml: it does not exist",
    ),
    "not cases": (said(train_cases_file="agent.yaml"), "train_cases_file: agent.yaml", "_cases'"),
    "few cases": (
        said(min_holdout_cases=7),
        "holdout has 3 cases but needs at least 7",
        "lower min_holdout_cases",
    ),
    "unknown metric": (said(loss={"equalty": 1}), "no metric 'equalty'", "'equality'?"),
    "no weight": (said(loss={"equality": 0}), "optimizer.loss.equality: ", "more than 0"),
    "no loss": (said(loss={}), "optimizer.loss: ", "at least 1"),
    "unknown constraint": (
        said(constraints=[{"metric": "cost", "op": "<=", "value": 1}]),
        "constraints[0].metric: there is no metric or number 'cost'",
        "did you mean 'cost_usd'?",
    ),
    "no operator": (
        said(constraints=[{"metric": "cost_usd", "op": "=<", "value": 1}]),
        "constraints[0].op",
        "'<='",
    ),
    "noise without repeats": (
        said(repeats=1),
        "optimizer.repeats: model.temperature makes answers vary",
        "set it to 2 or more",
    ),
    "both kinds of noise": (
        [numeric(TEMPERATURE, {"path": "model.top_p", "range": [0.5, 1.0]}), said(repeats=1)],
        "model.temperature and model.top_p makes answers vary",
        "2 or more",
    ),
    "strategy": (said(strategy="evolve"), "no strategy 'evolve'", "there are: auto, backprop"),
    "twice": (said(max_cycles=3), "max_cycles is set twice", "keep one"),
    "phase twice": (said(numeric_phase={}), "numeric_phase is set twice", "keep one"),
    "no trials": (
        said(budget={"numeric_phase": {"max_trials": 0}}),
        "budget.numeric_phase.max_trials",
        "1",
    ),
    "unknown key": (said(xyz=1), "unknown key 'xyz'", "known keys: loss, penalties"),
    "near key": (said(repeat=2), "unknown key 'repeat'", "did you mean 'repeats'?"),
    "nothing to tune": (said(axes={}), "there is nothing to tune", "--suggest-axes"),
    "no such path": (
        numeric({"path": "model.temprature", "range": [0, 1]}),
        f"{NUMERIC}.path: 'model.temprature': there is no 'temprature'",
        "did you mean 'temperature'?",
    ),
    "no such tool": (
        tool("top_k", "archives", range=[1, 9], type="int"),
        "nothing has name 'archives'",
        "there are: archive, mixed, near",
    ),
    "no path": (numeric({"path": "tools[", "range": [0, 1]}), "not a path", "top_k"),
    "axis twice": (
        [numeric(TEMPERATURE, TEMPERATURE)],
        "axes.numeric[1].path: 'model.temperature' already has an axis",
        "keep one",
    ),
    "instructions twice": (
        lambda data: optimizer(data)["axes"].update(
            textual=[{"path": "instructions"}, {"path": "instructions.inline"}]
        ),
        "axes.textual[1].path: 'instructions.inline' already has an axis",
        "keep one",
    ),
    "empty range": (
        numeric({"path": "model.temperature", "range": [1.0, 0.5]}),
        f"{NUMERIC}.range: the range [1, 0.5] is empty",
        "lower number comes first",
    ),
    "one value": (
        numeric({"path": "model.temperature", "range": [0.9, 0.9]}),
        "the range [0.9, 0.9] is empty",
        "",
    ),
    "no range": (
        numeric({"path": "model.temperature"}),
        "expected the lowest and the highest number",
        "range: [0.0, 1.0]",
    ),
    "range of words": (
        numeric({"path": "model.temperature", "range": ["a", "b"]}),
        "expected the lowest and the highest number",
        "range: [0.0, 1.0]",
    ),
    "not whole": (
        tool("top_k", "mixed", range=[2.5, 20], type="int"),
        "the range [2.5, 20] does not consist of whole numbers",
        "type: float",
    ),
    "float for a whole number": (
        tool("top_k", "mixed", range=[3, 20]),
        "does not load with",
        "set type: int",
    ),
    "out of the file's bounds": (
        tool("top_k", "mixed", range=[3, 200], type="int"),
        "the file does not load with 200",
        "change the axis",
    ),
    "start outside": (
        numeric({"path": "model.temperature", "range": [0.0, 0.5]}),
        "the current value is out of range: 0.9 is outside [0, 0.5]",
        "widen the range",
    ),
    "no start": (
        tool("min_score", "mixed", range=[0.0, 0.5]),
        "'tools[name=mixed].min_score' has no value to start from",
        "min_score: 0.0",
    ),
    "type": (numeric({**TEMPERATURE, "type": "log"}), f"{NUMERIC}.type", "float"),
    "one choice": (
        numeric({"path": "model.name", "choices": ["m"]}),
        "expected two or more choices",
        "choices: [semantic, hybrid]",
    ),
    "choice twice": (
        numeric({"path": "model.name", "choices": ["m", "m"]}),
        "expected two or more choices, each once",
        "",
    ),
    "choices and a range": (
        numeric({"path": "model.name", "choices": ["m", "n"], "range": ["m", "n"]}),
        "there are already choices",
        "keep one",
    ),
    "choices of a number": (
        numeric({"path": "model.temperature", "type": "float", "choices": [0.1, 0.9]}),
        "type float does not take choices",
        "type: categorical",
    ),
    "start is no choice": (
        numeric({"path": "model.name", "choices": ["n", "o"]}),
        "'m' is not one of: n, o",
        "widen the range",
    ),
    "a choice that does not load": (
        tool("search_mode", "mixed", choices=["hybrid", "psychic"]),
        "the file does not load with psychic",
        "",
    ),
    **{
        f"read in: {name}": (
            tool(name, "mixed" if name != "chunk_size" else "near", range=[1, 2]),
            f".{name}' cannot be tuned: it takes effect when documents are indexed",
            "remove it",
        )
        for name in (
            "chunking_strategy",
            "max_chunk_tokens",
            "chunk_overlap",
            "chunk_size",
            "contextual_embeddings",
            "embedding_model",
            "source",
        )
    },
    "without effect": (
        tool("enable_reranking", choices=[True, False]),
        "cannot be tuned: burnish reads it but does not use it",
        "remove it",
    ),
    **{
        f"not hybrid: {name}": (
            tool(name, range=[0.1, 0.8]),
            "it only has an effect in hybrid search, but the search_mode of this tool is keyword",
            "remove it",
        )
        for name in ("semantic_weight", "keyword_weight", "exact_weight", "rrf_k")
    },
    "never sent": (textual("description"), "it does not affect what the agent is asked", "remove"),
    "measured": (
        numeric({"path": "evaluations.optimizer.repeats", "range": [0, 1]}),
        "cannot be tuned: it says how the agent is measured",
        "remove it",
    ),
    "not of the agent": (
        numeric({"path": "execution.llm_timeout", "range": [1, 90]}),
        "it says how cases are run",
        "remove it",
    ),
    "deferred": (tool("defer_loading", choices=[True, False]), "it does not reach the model", ""),
    "provider": (
        numeric({"path": "model.provider", "choices": ["openai", "local"]}),
        "provider and address depend on the name",
        "",
    ),
    "demonstrations": (textual("demonstrations"), "axes.demonstrations", ""),
    "too long": (
        textual("instructions", 10),
        "axes.textual[0].max_chars: the text has 19 characters now, 10 are allowed",
        "allow 19 or more",
    ),
    "no text": (textual("model.max_tokens"), "'model.max_tokens' contains no text", ""),
    "nothing to show": (
        lambda data: optimizer(data).update(train_cases_file="talks.yaml"),
        "no case of train can be a demonstration",
        "remove the axis",
    ),
    "too many demonstrations": (
        lambda data: data.update(demonstrations=[{"input": str(n), "output": "x"} for n in "abc"]),
        "axes.demonstrations: 3 demonstrations, 2 are allowed",
        "allow more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_its_message(tmp_path: Path, name: str) -> None:
    changes, message, remedy = MISTAKES[name]
    told = [changes] if callable(changes) else changes
    path = write_world(tmp_path, *told, tools=True)
    talk = "- name: talk\n  turns:\n  - {input: a, ground_truth: b}\n  - {input: c}\n"
    (tmp_path / "talks.yaml").write_text(talk, encoding="utf-8")
    found = problems(path)
    assert len(found) == 1, found
    assert message in found[0]
    assert remedy in found[0]


def test_everything_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    path = write_world(
        tmp_path,
        numeric(
            {"path": "model.temprature", "range": [0, 1]}, {"path": "model.top_p", "range": []}
        ),
        textual("instructions", 3),
        said(loss={"nope": 1}, holdout_cases_file="gone.yaml", repeats=1),
    )
    found = problems(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    for problem in found:
        place = problem.split(" ")[0]
        assert place.startswith("agent.yaml:")
        number = int(place.removeprefix("agent.yaml:"))
        key = problem.split(" ")[1].rstrip(":").split(".")[-1]
        assert f'"{key}"' in lines[number - 1], problem
    assert [problem.split(" ")[1].removeprefix("evaluations.optimizer.") for problem in found] == [
        "axes.numeric[0].path:",
        "axes.numeric[1].range:",
        "axes.textual[0].max_chars:",
        "holdout_cases_file:",
        "loss.nope:",
    ]


def test_mistakes_of_agent_and_block_are_said_together(tmp_path: Path) -> None:
    def broken(data: dict[str, Any]) -> None:
        data["instrcutions"] = data.pop("instructions")
        optimizer(data)["repeats"] = 0

    told = "\n".join(problems(write_world(tmp_path, broken)))
    for part in ("instrcutions", "optimizer.repeats"):
        assert part in told


PLAIN = """\
name: echo
model: {provider: openai, name: m, temperature: 0.9, top_p: 0.9}
instructions: {file: system.md}
tools:
- {name: mixed, type: hierarchical_document, description: d, source: notes.md}
evaluations:
  metrics: [{type: standard, metric: equality}]
"""


def test_a_file_without_the_block_gets_one_that_works(tmp_path: Path) -> None:
    write_world(tmp_path)
    write_cases(tmp_path / "cases-train.yaml", "learned", 3)
    write_cases(tmp_path / "cases-holdout.yaml", "held", 2)
    write_cases(tmp_path / "cases-test.yaml", "sealed", 2)
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    with pytest.raises(ConfigError, match="does not say what to tune") as error:
        prepared(path)
    path.write_text(f"{PLAIN}{error.value.remedy}", encoding="utf-8")
    setup = prepared(path)
    assert {surface.id for surface in setup.target.surfaces} == {
        "demonstrations",
        "instructions",
        "model.temperature",
        "model.top_p",
        "tools[name=mixed].description",
        "tools[name=mixed].search_mode",
        "tools[name=mixed].semantic_weight",
        "tools[name=mixed].top_k",
    }
    assert [len(cases) for cases in vars(setup.dataset).values()] == [9, 6, 6]


def test_a_case_may_be_in_one_split_only(tmp_path: Path) -> None:
    found = problems(write_world(tmp_path, said(holdout_cases_file="train.yaml")))
    assert "train, holdout: case 'learned-rule-0' is in both" in found[0]
    assert found[-1].endswith("3 more cases have problems of the same kind")


@pytest.mark.parametrize(
    ("changes", "flags", "told"),
    [
        ([said(budget={"global": {"max_usd": 3}})], {}, "budget.global.max_usd: US dollars cannot"),
        (
            [],
            {"max_usd": 3.0},
            "--max-usd: US dollars cannot be limited, because",
        ),
        ([said(penalties={"cost_per_usd": 1})], {}, "the cost of a trial is unknown"),
        (
            [said(constraints=[{"metric": "cost_usd", "op": "<", "value": 1}])],
            {},
            "constraints[0]: cost_usd is unknown",
        ),
    ],
)
def test_what_needs_a_price_is_refused_without_one(
    tmp_path: Path, changes: list[Change], flags: dict[str, float], told: str
) -> None:
    path = write_world(tmp_path, *changes)
    limit = flags.get("max_usd")
    usd: dict[str, float | str] = {} if limit is None else {"max_usd": limit}
    found = problems(path, priced=False, **usd)
    assert len(found) == 1
    assert told in found[0]
    assert prepared(path, priced=True, **usd).budget.max_usd in (None, 3.0)


def test_one_unpriced_choice_of_a_model_is_enough(tmp_path: Path) -> None:
    path = write_world(tmp_path, numeric({"path": "model.name", "choices": ["m", "dear"]}))
    assert "the agent (openai:dear)" in problems(path, max_usd=1.0)[0]
    assert any("unknown prices: the agent" in note for note in prepared(path).notes)


def test_flags_are_named_where_they_are_wrong(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    found = problems(path, repeats=1, test=str(tmp_path / "no.yaml"))
    assert [problem.split(":")[0] for problem in found] == ["--test", "--repeats"]
    assert problems(path, strategy="evolve")[0].startswith("--strategy: no strategy 'evolve'")
    assert "not a reference to a model" in problems(path, critic="gpt")[0]


class NoTemperature(EchoBackend):
    """A model that takes no temperature above a half, and is not there under other names."""

    def check(self, ref: ModelRef) -> None:
        if ref.name not in ("m", "n"):
            raise ModelRefused(f"there is no {ref.label}", remedy="name another")
        if (ref.settings.temperature or 0) > 0.95:
            raise ModelRefused("it takes no such temperature", remedy="remove it")


def test_a_model_that_would_refuse_an_axis_is_found_out(tmp_path: Path) -> None:
    models = echo_models(NoTemperature(respond=lambda _, __: ""))
    path = write_world(
        tmp_path, numeric(TEMPERATURE, {"path": "model.name", "choices": ["m", "n", "o"]})
    )
    with pytest.raises(ConfigError) as error:
        load_project(path, {"critic": "openai:o"}, environ={}, models=models)
    told = str(error.value)
    for part in (
        "model.temperature 1.0: it takes no such temperature",
        "model.name o: there is no openai:o",
        "--critic: there is no openai:o",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ([numeric(), said(repeats=1)], "repeats is 1: a candidate then shows no noise"),
        ([said(budget={"numeric_phase": {"max_trials": 6}})], "below the usual warm-up of 10"),
        ([said(min_delta=0.01)], "min_delta has no effect"),
    ],
)
def test_what_is_allowed_but_unwise_is_a_note(
    tmp_path: Path, changes: list[Change], note: str
) -> None:
    assert any(note in each for each in prepared(write_world(tmp_path, *changes)).notes)


def test_weights_may_be_tuned_where_the_mode_may_become_hybrid(tmp_path: Path) -> None:
    path = write_world(
        tmp_path,
        numeric(
            {"path": "tools[name=archive].search_mode", "choices": ["keyword", "hybrid"]},
            {"path": "tools[0].semantic_weight", "range": [0.2, 0.8]},
        ),
        tools=True,
    )
    assert len(prepared(path).target.surfaces) == 4


def test_every_split_needs_the_metrics_of_the_loss(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    rows = [
        f"- name: held-{n}\n  input: q{n}\n  ground_truth: a{n}\n"
        "  evaluations: [{type: standard, metric: numeric}]\n"
        for n in range(6)
    ]
    (tmp_path / "holdout.yaml").write_text("".join(rows), encoding="utf-8")
    assert "no case of holdout has the metric 'equality'" in problems(path)[0]
