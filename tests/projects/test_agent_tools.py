"""The tools that the test cases of an agent file expect, as its metrics read them."""

from pathlib import Path

import pytest

from burnish.models.factory import Models
from burnish.projects.measurements import load_measurement
from burnish.testing.doubles import ScriptedBackend

AGENT = """\
name: clerk
model: {provider: openai, name: m}
instructions: {inline: Answer.}
evaluations: {metrics: [{type: standard, metric: equality}]}
test_cases:
- {name: a, input: q, ground_truth: r, expected_tools: [search]}
"""


@pytest.mark.parametrize(
    ("tools", "measured"),
    [("[search]", True), ("[]", True), ("null", False), (None, False)],
)
def test_a_list_of_expected_tools_is_measured_also_where_it_is_empty(
    tmp_path: Path, tools: str | None, measured: bool
) -> None:
    told = "" if tools is None else f", expected_tools: {tools}"
    path = tmp_path / "agent.yaml"
    path.write_text(AGENT.replace(", expected_tools: [search]", told), encoding="utf-8")
    backend = ScriptedBackend(respond=lambda request, draw: "r")
    made = load_measurement(path, {}, models=Models(backends={"openai": backend}))
    names = [metric.name for metric in made.setup.metrics]
    assert names == ["equality", *(["expected_tools"] if measured else [])]
