"""Agent files as HoloDeck's users have them: what loads, what is refused, what a run writes."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.models.roles import RewrittenText
from burnish.projects import load_project
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict
from burnish.reports.progress import HolodeckView, LineView
from burnish.runs.driver import drive
from burnish.runs.events import Event
from burnish.runs.setup import start
from burnish.strategies.coordinate.trials import Edit, EditRequest
from burnish.targets.agent.files import load_agent
from tests.projects.optimizer_world import echo, echo_models, write_world

AGENT = """\
name: clerk
model: {provider: ollama, name: llama3.2}
instructions: {inline: Answer.}
tools:
  - {name: notes, type: vectorstore, description: Search, source: notes.md}
evaluations:
  metrics:
    - {type: standard, metric: equality}
test_cases:
  - {name: first, input: "How many?", ground_truth: "3"}
"""


def read(folder: Path, old: str = "", new: str = "") -> Any:
    assert old in AGENT
    path = folder / "agent.yaml"
    path.write_text(AGENT.replace(old, new, 1) if old else AGENT, encoding="utf-8")
    return load_agent(path).block


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: clerk", "name: '  '", "name: expected text"),
        ("inline: Answer.", "inline: ' '", "instructions.inline: expected text"),
        ("description: Search,", "description: ' ',", "description: expected text"),
        ('ground_truth: "3"', 'ground_truth: ""', "case first: ground_truth is empty"),
        ('"How many?"', '" "', "case first: input is empty"),
        ("source: notes.md", "source: notes.md, embedding_dimensions: 0", "embedding_dimensions"),
        ("type: standard, ", "", "set the type: `type: standard`"),
        ("equality", 'equality, response_path: ".a"', "response_path: '.a' is not a path"),
        ("equality", 'equality, response_path: "a b"', "response_path: 'a b' is not a path"),
        ("equality", 'equality, response_path: "a[0]b"', "response_path: 'a[0]b' is not a path"),
        ("equality", 'equality, response_path: "a[x]"', "response_path: 'a[x]' is not a path"),
        ("equality", 'equality, response_path: "a..b"', "response_path: 'a..b' is not a path"),
    ],
)
def test_what_holodeck_refuses_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, old, new)
    assert words in str(raised.value)


def test_what_holodeck_takes_is_taken(tmp_path: Path) -> None:
    """A top_p of 0, an Azure model without a version, a metric path into JSON."""
    assert read(tmp_path, "name: llama3.2", "name: llama3.2, top_p: 0.0").model.top_p == 0
    azure = "{provider: azure_openai, name: gpt-4o, endpoint: 'https://x.openai.azure.com'}"
    block = read(tmp_path, "{provider: ollama, name: llama3.2}", azure)
    assert block.model.reference().provider == "azure"
    block = read(tmp_path, "equality", 'equality, response_path: "a.b[0].c"')
    assert block.evaluations.metrics[0].response_path == "a.b[0].c"


def test_a_case_may_leave_out_the_type_of_its_metrics(tmp_path: Path) -> None:
    own = '"3", evaluations: [{metric: numeric}]'
    assert read(tmp_path, '"3"', own).test_cases[0]["evaluations"] == [{"metric": "numeric"}]


def test_the_header_of_a_run_reads_like_holodecks(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    setup = load_project(path, {}, environ={}, models=echo_models(echo())).setup
    run = start(setup, folder=tmp_path / "run")
    run.directory.close()
    header = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert header["run_id"] == header["id"]
    assert header["baseline_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (header["train_cases_count"], header["holdout_cases_count"]) == (6, 3)
    config = header["optimizer_config"]
    assert config["loss_weights"] == {"equality": 1.0}
    assert config["axes"]["numeric"][0]["id"] == "model.temperature"
    assert config["budget"]["global"] == {"max_cycles": 2}
    assert config["budget"]["textual_phase"] == {"max_trials": 2, "patience": 2}
    assert (config["repeats"], config["holdout_eval_policy"]) == (2, "on_train_improve")
    assert {name: each["model"] for name, each in header["subagents"].items()} == {
        "critic": "openai:m",
        "applier": "openai:m",
    }
    assert Path(header["subagents"]["critic"]["agent_path"]).name == "critic.yaml"


TRIAL = {
    "trial_id", "cycle", "phase", "loss", "baseline_loss", "best_loss", "accepted", "params",
    "textual_axis", "edit_summary", "excluded_metrics", "error",
}  # fmt: skip


async def test_a_run_tells_its_progress_in_holodecks_words(tmp_path: Path) -> None:
    setup = load_project(write_world(tmp_path), {}, environ={}, models=echo_models(echo())).setup
    run = start(setup, folder=tmp_path / "run")
    lines: list[str] = []
    run.listen(HolodeckView(lines.append))
    try:
        await drive(run)
    finally:
        await run.close()
    events = [json.loads(line) for line in lines]
    assert {each["schema"] for each in events} == {"holodeck.optimize.progress/v1"}
    kinds = [each["event"] for each in events]
    assert kinds[:4] == ["run_started", "baseline", "cycle_started", "phase_started"]
    assert kinds[-2:] == ["cycle_completed", "run_completed"]
    begun = events[0]
    assert (begun["agent"], begun["max_cycles"]) == ("echo", 2)
    assert begun["axes"] == {
        "numeric": [{"path": "model.temperature", "type": "float", "range": [0.0, 1.0]}],
        "textual": [{"path": "instructions.inline", "max_chars": 400}],
    }
    trials = [each for each in events if each["event"] == "trial"]
    assert all(set(each) == {"schema", "event", *TRIAL} for each in trials)
    assert all(each["phase"] in ("numeric", "textual") for each in trials)
    numeric = next(each for each in trials if each["phase"] == "numeric")
    assert set(numeric["params"]) == {"model.temperature"}
    textual = next(each for each in trials if each["accepted"] and each["phase"] == "textual")
    assert textual["textual_axis"] == "instructions.inline"
    assert textual["edit_summary"] == "one word more"
    assert textual["best_loss"] == textual["loss"] < textual["baseline_loss"]
    assert events[2] == {
        "schema": begun["schema"], "event": "cycle_started", "cycle": 0, "of": 2,
    }  # fmt: skip
    assert events[-1]["artifacts"]["trials_jsonl"] == str(tmp_path / "run" / "trials.jsonl")


def test_the_first_line_names_the_agent_and_long_points_are_shown_whole() -> None:
    lines: list[str] = []
    view = LineView(lines.append, width=lambda: 80)
    view.event(_event("run_started", strategy="coordinate", target="agent", title="echo, openai:m"))
    note = "temperature 0.41, top_p 0.85, top_k 12, semantic_weight 0.55"
    view.event(_event("trial_recorded", phase="numeric", cycle=1, train=0.5, trial=1, note=note))
    assert lines[0].startswith("echo, openai:m · coordinate")
    assert lines[-1].strip() == note


def test_the_final_line_break_of_a_prompt_file_stays() -> None:
    """Models drop it: the applier's answer ends like the text that it replaces."""
    rewrite = RewrittenText[EditRequest, Edit](
        part="new_text", current=lambda request: request.current_text
    )
    request = EditRequest(axis="instructions", current_text="Old.\n", gradient="", max_chars="")
    edit = Edit(edit_type="replace", rationale="r", new_text="New.", diff_summary="d")
    assert rewrite.ended(edit, request).new_text == "New.\n"
    inline = request.model_copy(update={"current_text": "Old."})
    assert rewrite.ended(edit, inline).new_text == "New."


def _event(kind: str, **data: Any) -> Event:
    return Event(id="1", kind=kind, at="2026-01-01T00:00:00Z", data=data)


def test_a_case_without_a_name_is_known_by_what_it_asks() -> None:
    case = Case.single("How many\nlamps?", expected="3")
    row = CaseRow(case=case.id, asked=(case.input,), expected=("3",), verdict=CaseVerdict.PASS)
    assert row.title == f"How many lamps? ({case.id[:6]})"
    assert replace(row, case="lamps").title == "lamps"
