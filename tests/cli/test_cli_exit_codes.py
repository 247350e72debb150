"""How each command ends for a wrong configuration, a missing key and a missing extra."""

import re
import sys
from pathlib import Path

import pytest

from burnish.system.extras import install_command
from burnish.testing.servers import ScriptedServer
from tests.cli.console import Burnish
from tests.cli.served_echo import hosted

AGENT = """\
name: clerk
model: MODEL
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: equality}]
  optimizer:
    loss: {equality: 1.0}
    axes: {textual: [{path: instructions}]}
    proposer: MODEL
    train_cases_file: train.yaml
    holdout_cases_file: holdout.yaml
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
  - {input: "Is it shut?", ground_truth: "no"}
  - {input: "Is it far?", ground_truth: "no"}
  - {input: "Is it near?", ground_truth: "yes"}
"""
FLOW = """\
workflow: {name: report}
orchestration:
  engine: delegation_loop
  delegation_loop: {models: {manager: MODEL, worker: MODEL, critic: MODEL}}
"""
GRAPH = """\
kind: graph
name: desk
nodes:
  clerk: {agent: agent.yaml}
"""
CASES = "test_cases:\n" + "".join(
    f"  - {{input: 'Is {word} WORD?', ground_truth: '{answer}'}}\n"
    for word, answer in zip(
        ("an ear", "one", "grass", "it", "luck"), ("no", "yes") * 3, strict=False
    )
)
FILES = {
    "agent.yaml": AGENT,
    "flow.yaml": FLOW,
    "graph.yaml": GRAPH,
    "train.yaml": CASES.replace("WORD", "green"),
    "holdout.yaml": CASES.replace("WORD", "round"),
}
CAUSES = {
    "configuration": ("{provider: openai, nmae: m}", "nmae"),
    "key": ("openai:gpt-4o-mini", "OPENAI_API_KEY"),
    "extra": ("anthropic:claude-sonnet-4-6", install_command("anthropic")),
}
COMMANDS = {
    ("eval", "agent.yaml"): 3,
    ("test", "run", "agent.yaml"): 3,
    ("optimize", "agent.yaml"): 1,
    ("optimize", "agent.yaml", "--dry-run"): 1,
    ("test", "optimize", "agent.yaml"): 1,
    ("delegate", "flow.yaml", "--task", "Write."): 1,
}
WRONG_ONLY = {
    ("structure", "agent.yaml"): 1,
    ("structure", "graph.yaml"): 1,
}
"""Those that ask no model, and so need neither key nor extra."""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-a-test-0123456789")
    monkeypatch.setitem(sys.modules, "anthropic", None)


@pytest.mark.parametrize(
    ("cause", "command", "code"),
    [
        (cause, command, code)
        for cause in CAUSES
        for command, code in COMMANDS.items()
        if (cause, command[-1]) != ("extra", "--dry-run")
    ],
    ids=str,
)
def test_each_cause_has_the_commands_code(
    burnish: Burnish, tmp_path: Path, command: tuple[str, ...], code: int, cause: str
) -> None:
    _refused(burnish, tmp_path, command, code, cause)


@pytest.mark.parametrize("command", [("eval", "agent.yaml"), ("optimize", "agent.yaml")], ids=str)
def test_a_plan_names_the_extra_that_the_run_needs(
    burnish: Burnish, tmp_path: Path, command: tuple[str, ...]
) -> None:
    _write(tmp_path, "anthropic:claude-sonnet-4-6")
    said = burnish(*command, "--dry-run")
    assert (said.code, said.err) == (0, ""), said
    assert "anthropic:claude-sonnet-4-6 needs the extra 'anthropic'" in " ".join(said.out.split())
    assert f"          install it first: {install_command('anthropic')}" in said.lines
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("command", "code"), WRONG_ONLY.items(), ids=lambda value: str(value))
def test_a_wrong_file_has_the_commands_code(
    burnish: Burnish, tmp_path: Path, command: tuple[str, ...], code: int
) -> None:
    _refused(burnish, tmp_path, command, code, "configuration")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("opnai:m", "did you mean 'openai:m'"),
        ("openai:gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-6", install_command("anthropic")),
    ],
)
def test_a_model_on_the_command_line_has_the_commands_code(
    burnish: Burnish, tmp_path: Path, reference: str, words: str
) -> None:
    judged = AGENT.replace(
        "[{type: standard, metric: equality}]", "[{type: standard, metric: fluency}]"
    )
    text = judged.replace("MODEL", "{provider: openai, name: m, base_url: 'http://127.0.0.1:9'}")
    (tmp_path / "agent.yaml").write_text(text, encoding="utf-8")
    said = burnish("eval", "agent.yaml", "--judge", reference)
    assert said.code == 3, said
    assert words in said.err


@pytest.mark.parametrize("flag", ["--repeats", "--aa"])
def test_eval_bounds_how_often(burnish: Burnish, flag: str) -> None:
    said = burnish("eval", "agent.yaml", flag, "1000000000")
    assert said.code == 3
    assert re.search(rf"{flag}: .*at most 1,?000", said.err)


@pytest.mark.parametrize(
    ("prices", "code"),
    [("", 3), (", prices: {input_per_million: 1000, output_per_million: 2000}", 0)],
    ids=["unpriced", "priced"],
)
def test_a_limit_in_dollars_wants_a_price_for_an_endpoint_of_ones_own(
    burnish: Burnish, tmp_path: Path, prices: str, code: int
) -> None:
    with hosted(ScriptedServer(answers=["yes"])) as address:
        model = f"{{provider: openai, name: ours, base_url: '{address}'{prices}}}"
        text = AGENT.replace("MODEL", model).replace('"no"', '"yes"')
        (tmp_path / "agent.yaml").write_text(text, encoding="utf-8")
        said = burnish("eval", "agent.yaml", "--max-usd", "1", "-q")
    assert said.code == code, said
    assert "$0.0650" in said.out if prices else "price" in said.err, said


def _refused(
    burnish: Burnish, folder: Path, command: tuple[str, ...], code: int, cause: str
) -> None:
    model, words = CAUSES[cause]
    _write(folder, model)
    said = burnish(*command)
    assert said.code == code, said
    assert said.err.startswith("error: ")
    assert words in said.err
    assert "Traceback" not in said.err
    assert not list(folder.glob("results/*/*"))


def _write(folder: Path, model: str) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text.replace("MODEL", model), encoding="utf-8")
