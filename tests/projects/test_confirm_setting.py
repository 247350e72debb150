"""`confirm`: on in burnish's own files, off in those of other systems, which can opt in."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.models.factory import Models
from burnish.projects.launch import LoadedProject, load_project
from burnish.testing.doubles import ScriptedBackend

AGENT = """\
name: clerk
model: {provider: openai, name: agent}
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: equality}]
  optimizer:
    loss: {equality: 1.0}
    axes: {textual: [{path: instructions}]}
    proposer: {provider: openai, name: writer}
    holdout_eval_policy: skip
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
  - {input: "Is it shut?", ground_truth: "no"}
"""
PROMPTS = """\
kind: prompts
target: {python: "json:dumps"}
prompts: {system: prompt.txt}
reflector: {provider: openai, name: writer}
metrics: [{type: standard, metric: equality}]
train: cases.yaml
holdout: held.yaml
budget: {max_metric_calls: 40}
"""


def loaded(folder: Path, text: str, **flags: bool) -> LoadedProject:
    """The project; `confirm=True` is the flag that switches it off, `--no-confirm`."""
    path = folder / "project.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "prompt.txt").write_text("Answer.", encoding="utf-8")
    for name in ("cases", "held"):
        rows = "\n".join(f'- {{input: "{name} {n}?", ground_truth: "yes"}}' for n in range(3))
        (folder / f"{name}.yaml").write_text(rows, encoding="utf-8")
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "yes")})
    return load_project(path, flags, models=models)


def test_an_optimizer_block_of_another_system_leaves_it_off(tmp_path: Path) -> None:
    assert not loaded(tmp_path, AGENT).setup.confirm
    opted = AGENT.replace("    loss:", "    confirm: true\n    loss:")
    assert loaded(tmp_path, opted).setup.confirm
    assert not loaded(tmp_path, opted, confirm=True).setup.confirm


def test_files_of_burnish_have_it_on(tmp_path: Path) -> None:
    assert loaded(tmp_path, PROMPTS).setup.confirm
    assert not loaded(tmp_path, f"confirm: false\n{PROMPTS}").setup.confirm
    assert not loaded(tmp_path, PROMPTS, confirm=True).setup.confirm


def test_the_least_budget_includes_it(tmp_path: Path) -> None:
    short = PROMPTS.replace("max_metric_calls: 40", "max_metric_calls: 15")
    with pytest.raises(ConfigError, match="including both again at the end"):
        loaded(tmp_path, short).setup.check(new=True)
    loaded(tmp_path, f"confirm: false\n{short}").setup.check(new=True)


def test_a_stored_description_keeps_what_was_chosen(tmp_path: Path) -> None:
    execution = loaded(tmp_path, AGENT).setup.project.spec["execution"]
    assert isinstance(execution, dict)
    assert execution["confirm"] is False
