"""`--second-judge`: it reaches the run, and is refused where no model judges."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.metrics.judged import judged_parts
from burnish.models.factory import Models
from burnish.projects.launch import LoadedProject, load_project
from burnish.testing.doubles import ScriptedBackend

AGENT = """\
name: clerk
model: {provider: openai, name: agent}
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: METRIC}]
  optimizer:
    loss: {METRIC: 1.0}
    axes: {textual: [{path: instructions}]}
    proposer: {provider: openai, name: writer}
    holdout_eval_policy: skip
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
  - {input: "Is it shut?", ground_truth: "no"}
  - {input: "Is it far?", ground_truth: "no"}
  - {input: "Is it near?", ground_truth: "yes"}
"""


def loaded(folder: Path, metric: str) -> LoadedProject:
    path = folder / "agent.yaml"
    path.write_text(AGENT.replace("METRIC", metric), encoding="utf-8")
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "yes")})
    return load_project(path, {"second_judge": "openai:other"}, models=models)


def test_every_judged_metric_has_the_second_judge(tmp_path: Path) -> None:
    setup = loaded(tmp_path, "fluency").setup
    names = {
        kind: [judge.client.ref.label for part in judged_parts(metrics[0]) for judge in
               part.panel.judges]
        for kind, metrics in (("first", setup.metrics), ("second", setup.second_metrics))
    }  # fmt: skip
    assert names == {"first": ["openai:agent"], "second": ["openai:other"]}


def test_nothing_to_judge_again_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no metric of this run is judged by a model"):
        loaded(tmp_path, "equality")
