"""The action for pull requests: its script on real git, with a `gh` that writes down its call."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integrations.checkouts import (
    ACTION,
    Ran,
    git,
    measured_checkout,
    replies,
    run_script,
)

pytestmark = pytest.mark.slow

GH = """#!/bin/sh
printf '%s\\n' "$@" >> "$GH_CALLS"
exit "${GH_CODE:-0}"
"""


@dataclass(frozen=True)
class Acted(Ran):
    summary: str
    outputs: dict[str, str]
    calls: list[str]
    """The words that `gh` was called with."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gh").write_text(GH)
    (tmp_path / "bin/gh").chmod(0o755)
    return measured_checkout(tmp_path)


def act(folder: Path, **variables: str) -> Acted:
    """Run the script as the action's step does."""
    home = folder.parent
    files = {name: home / name for name in ("output", "step_summary", "calls")}
    for path in files.values():
        path.write_text("")
    own = {
        "AGENT": "cases.jsonl",
        "BASELINE": "baseline.json",
        "ARGUMENTS": "--metrics 'metrics.yaml' -q",
        "COMMENT": "true",
        "GITLAB_CI": "",
        "GITHUB_BASE_REF": "main",
        "GITHUB_REF": "refs/pull/12/merge",
        "GITHUB_OUTPUT": str(files["output"]),
        "GITHUB_STEP_SUMMARY": str(files["step_summary"]),
        "GH_CALLS": str(files["calls"]),
        "RUNNER_TEMP": str(home),
    }
    ran = run_script("measure.sh", folder, **(own | variables))
    lines = files["output"].read_text().splitlines()
    return Acted(
        code=ran.code,
        said=ran.said,
        summary=files["step_summary"].read_text(),
        outputs=dict(line.split("=", 1) for line in lines),
        calls=files["calls"].read_text().splitlines(),
    )


def test_no_worse_than_the_base_branch(checkout: Path) -> None:
    ran = act(checkout, BURNISH_HTML="")
    assert ran.code == 0, ran.said
    assert "no regression" in ran.summary
    assert ran.calls[:5] == ["pr", "comment", "12", "--edit-last", "--create-if-none"]
    assert Path(ran.outputs["summary"]).read_text() == ran.summary
    assert json.loads(Path(ran.outputs["report"]).read_text())["summary"]["pass_rate"] == 0.875
    assert "<html" in Path(ran.outputs["page"]).read_text()


def test_worse_than_the_base_branch(checkout: Path) -> None:
    replies(checkout, wrong=8)
    ran = act(checkout)
    assert ran.code == 1
    assert "a regression: equality fell by 0.88" in ran.summary
    assert "Broken, 7 cases: `case 1`" in ran.summary


def test_a_pull_request_cannot_lower_the_bar(checkout: Path) -> None:
    replies(checkout, wrong=8)
    report = json.loads((checkout / "baseline.json").read_text())
    report["cases"] = []
    (checkout / "baseline.json").write_text(json.dumps(report))
    git(checkout, "add", "-A")
    git(checkout, "commit", "--quiet", "-m", "an easier baseline")
    assert act(checkout).code == 1


def test_without_a_baseline_every_case_has_to_pass(checkout: Path) -> None:
    ran = act(checkout, BASELINE="elsewhere.json")
    assert ran.code == 1
    assert "there is no elsewhere.json on main yet" in ran.said
    replies(checkout, wrong=0)
    assert act(checkout, BASELINE="elsewhere.json").code == 0


def test_on_a_push_nothing_is_posted(checkout: Path) -> None:
    ran = act(checkout, GITHUB_BASE_REF="", GITHUB_REF="refs/heads/main")
    assert (ran.code, ran.calls) == (0, []), ran.said


def test_a_comment_that_is_refused_does_not_fail_the_job(checkout: Path) -> None:
    ran = act(checkout, GH_CODE="1")
    assert ran.code == 0
    assert "::warning::the summary could not be posted" in ran.said


def test_a_wrong_file_keeps_its_exit_code(checkout: Path) -> None:
    ran = act(checkout, AGENT="$(touch hacked).yaml", BASELINE="")
    assert ran.code == 3
    assert ran.calls == []
    assert not (checkout / "hacked").exists()


def test_no_value_stands_in_the_text_of_a_script() -> None:
    action: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text())
    *steps, upload = action["runs"]["steps"]
    assert all("${{" not in step["run"] for step in steps)
    assert all("uses" not in step for step in steps)
    assert upload["uses"].startswith("actions/upload-artifact@")
    read = {
        value.removeprefix("${{ inputs.").removesuffix(" }}")
        for step in (*steps, {"env": {"name": upload["with"]["name"]}})
        for value in step["env"].values()
    }
    assert read == set(action["inputs"])
