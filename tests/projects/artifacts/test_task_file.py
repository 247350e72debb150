"""Task files: every key of the original, defaults, and everything that is refused."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import TaskFile
from burnish.runs.spec import AnySpec
from burnish.system import YamlTree
from tests.projects.artifacts.task_world import TASK

EXAMPLE = """\
id: skill-quality
description: Optimize a skill markdown file against a rubric.
artifacts:
  include:
    - skills/writing/SKILL.md
  exclude:
    - work/**
  max_files_per_iteration: 2
mutation:
  mode: direct_edit
  allowed_file_types: [.md, .txt, .yaml, .py]
  max_changed_lines: 120
runner:
  command: "python scripts/run_skill_eval.py"
  cwd: "."
  timeout_seconds: 300
scorer:
  type: command
  command: "python scripts/score_skill.py"
  parse:
    format: json
    score_field: "score"
    metrics_field: "metrics"
objective:
  primary_metric: score
  direction: maximize
constraints:
  - metric: violation_count
    op: "<="
    value: 0
  - metric: required_sections_present
    op: "=="
    value: true
policy:
  keep_if: "better_primary"
  tie_breakers:
    - lower: violation_count
    - lower: length_tokens
  on_failure: discard
budget:
  max_iterations: 50
  max_failures: 10
logging:
  results_file: "work/results.jsonl"
  candidate_dir: "work/candidates"
"""


def parsed(**changes: Any) -> AnySpec:
    data = {key: value for key, value in {**TASK, **changes}.items() if value is not None}
    tree = YamlTree(path=Path("task.yaml"), data=data, text="")
    document = Document(path=Path("task.yaml"), tree=tree)
    return describe(document, {}, environ={}, dialect=TaskFile()).spec


def example(folder: Path, text: str = EXAMPLE) -> AnySpec:
    path = folder / "task.yaml"
    path.write_text(text, encoding="utf-8")
    return describe(Document.read(path), {}, environ={}, dialect=TaskFile()).spec


def refusal(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        parsed(**changes)
    return str(error.value)


def test_the_original_s_example_loads_with_every_field(tmp_path: Path) -> None:
    spec = example(tmp_path)
    assert spec.target.allowed_file_types == [".md", ".txt", ".yaml", ".py"]
    assert spec.target.runner.runner().timeout_seconds == 300
    assert spec.target.scorer.scoring().score_field == "score"
    objective = spec.objective.objective({})
    assert [str(each) for each in objective.constraints] == [
        "violation_count <= 0",
        "required_sections_present == 1",
    ]
    assert [(each.prefer, each.metric) for each in objective.tie_breakers] == [
        ("lower", "violation_count"),
        ("lower", "length_tokens"),
    ]


def test_what_the_original_s_example_says_is_what_a_short_file_gets(tmp_path: Path) -> None:
    short, long = parsed(mutation={}, budget={}), example(tmp_path)
    assert short.strategy.settings == long.strategy.settings
    assert short.target.logging == long.target.logging


def test_all_mistakes_are_said_at_once_with_line_and_nearest_key(tmp_path: Path) -> None:
    text = EXAMPLE.replace("max_changed_lines", "max_changed_line").replace("maximize", "up")
    text = text.replace('cwd: "."', 'cwd: "../elsewhere"').replace('op: "<="', 'op: "<<"')
    with pytest.raises(ConfigError) as error:
        example(tmp_path, text)
    words = str(error.value)
    assert len(error.value.problems) == 4
    assert "task.yaml:12 mutation.max_changed_line: unknown key" in words
    assert "did you mean 'max_changed_lines'?" in words
    assert "task.yaml:15 runner.cwd" in words
    assert "task.yaml:26 objective.direction" in words
    assert "task.yaml:29 constraints[0].op" in words


@pytest.mark.parametrize(
    "path", ["../x.md", "/etc/passwd", "a/../../x", "~/x.md", ".git/config", "a/.GIT/x", "a\\b"]
)
def test_paths_stay_inside_the_folder(path: str) -> None:
    assert "artifacts.include[0]" in refusal(artifacts={"include": [path]})
    assert "logging.results_file" in refusal(logging={"results_file": path})
    assert "logging.candidate_dir" in refusal(logging={"candidate_dir": path})
    assert "protect[0]" in refusal(protect=[path])


def test_there_must_be_something_to_edit_and_something_that_scores() -> None:
    assert "artifacts.include" in refusal(artifacts={"include": []})
    assert "exactly one of command" in refusal(scorer={"type": "command"})
    both = {"command": "x", "function": "m:f"}
    assert "exactly one of command" in refusal(scorer=both)


@pytest.mark.parametrize(
    ("scorer", "way"),
    [
        ({"command": "x"}, "command"),
        ({"function": "m:f"}, "python"),
        ({"type": "python_plugin", "function": "m:f"}, "python"),
        ({"type": "python", "function": "m:f"}, "python"),
        ({"metrics": [{"metric_name": "llm_final_response"}]}, "metrics"),
    ],
)
def test_scorers_are_known_by_their_keys(scorer: dict[str, Any], way: str) -> None:
    assert parsed(scorer=scorer).target.scorer.way == way


def test_a_scorer_that_says_one_thing_and_has_another_is_refused() -> None:
    told = refusal(scorer={"type": "python", "command": "x"})
    assert "type: python needs function, not command" in told
    assert "judge and reads only go with metrics" in refusal(
        scorer={"command": "x", "reads": "a.md"}
    )


def test_an_editor_is_a_model_or_a_program() -> None:
    assert "needs a command" in refusal(mutation={"mode": "command"})
    assert "command can only be set with mode: command" in refusal(mutation={"command": "agent"})
    told = refusal(mutation={"mode": "command", "command": "agent", "editor": "openai:m"})
    assert "editor has no effect" in told
    assert "keep one of them" in refusal(editor="openai:m")
    assert parsed(mutation={}, editor="openai:other").roles["editor"].name == "other"
    assert "'direct_edit' or 'command'" in refusal(mutation={"mode": "by hand"})


def test_tie_breakers_say_lower_or_higher() -> None:
    assert "lower or higher" in refusal(policy={"tie_breakers": [{}]})
    assert "lower or higher" in refusal(policy={"tie_breakers": [{"lower": "a", "higher": "b"}]})


def test_limits_are_said_in_round_numbers() -> None:
    limits = parsed(limits={"memory_mb": 64, "output_kb": 8}).target.limits.made()
    assert limits.memory_bytes == 64 * 2**20
    assert limits.output_bytes == 8192


def test_axes_are_numbers_or_choices() -> None:
    here = {"file": "c.yaml", "path": "a.b"}
    assert "low and high" in refusal(axes=[here])
    assert "low and high" in refusal(axes=[{**here, "low": 3, "high": 1}])
    assert "whole numbers" in refusal(axes=[{**here, "low": 0.5, "high": 2, "integer": True}])
    assert "cannot be combined with" in refusal(
        axes=[{**here, "low": 1, "high": 2, "choices": [1, 2]}]
    )
    assert "each once" in refusal(axes=[{**here, "choices": ["a", "a"]}])
    assert parsed(axes=[{**here, "low": 0, "high": 8}]).target.axes[0].surface().id == "c.yaml#a.b"


def test_what_edits_reads_is_checked_where_another_strategy_searches() -> None:
    refused = refusal(strategy="coordinate", mutation={"mode": "command"})
    assert "task.yaml mutation: mode: command needs a command" in refused
    lines = refusal(strategy="coordinate", mutation={"max_changed_lines": 0})
    assert "mutation.max_changed_lines: expected at least 1" in lines
    spec = parsed(strategy="coordinate")
    assert not hasattr(spec.strategy.settings, "max_changed_lines")


def test_a_holdout_must_be_something_else() -> None:
    assert "its own runner, scorer or both" in refusal(holdout={})
