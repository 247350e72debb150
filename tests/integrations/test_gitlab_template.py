"""The templates for GitLab: their scripts on real git, and its API on a real socket."""

import json
import re
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integrations.checkouts import ACTION, Ran, measured_checkout, replies, run_script
from tests.loopback import Answered, answering

pytestmark = pytest.mark.slow


@dataclass
class GitLab:
    """Its notes and merge requests, as far as the scripts ask for them."""

    address: str = ""
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tokens: set[str] = field(default_factory=set[str])

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> Answered:
        self.tokens.add(request.headers["PRIVATE-TOKEN"])
        rows = self.notes if "/notes" in request.path else self.requests
        if request.command == "GET":
            return 200, {}, json.dumps(rows[::-1]).encode()
        if request.command == "POST":
            place = len(rows)
            rows.append({"id": place, "iid": place, "web_url": f"https://lab/{place}"})
        else:
            place = int(request.path.rsplit("/", 1)[1])
        rows[place] |= json.loads(body)
        return 200, {}, json.dumps(rows[place]).encode()


@pytest.fixture
def lab() -> Generator[GitLab]:
    lab = GitLab()
    with answering(lab.answer) as address:
        lab.address = f"{address}/api/v4"
        yield lab


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return measured_checkout(tmp_path)


def job(folder: Path, lab: GitLab, **variables: str) -> Ran:
    """Run the script as a job of a merge request does."""
    own = {
        "AGENT": "cases.jsonl",
        "BASELINE": "baseline.json",
        "ARGUMENTS": "--metrics 'metrics.yaml' -q",
        "COMMENT": "true",
        "GITLAB_CI": "true",
        "CI_PROJECT_DIR": str(folder),
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "12",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_API_V4_URL": lab.address,
        "BURNISH_TOKEN": "of the project",
    }
    return run_script("measure.sh", folder, **(own | variables))


def test_a_merge_request_gets_one_comment_and_the_files(checkout: Path, lab: GitLab) -> None:
    lab.notes.append({"id": 0, "body": "of somebody else"})
    ran = job(checkout, lab)
    assert ran.code == 0, ran.said
    replies(checkout, wrong=8)
    ran = job(checkout, lab, BURNISH_HTML="")
    assert ran.code == 1, ran.said
    assert [note["body"].partition("\n")[0] for note in lab.notes] == [
        "of somebody else",
        "<!-- burnish cases.jsonl -->",
    ]
    assert "a regression: equality fell by 0.88" in lab.notes[1]["body"]
    assert lab.tokens == {"of the project"}
    names = {path.name for path in (checkout / "burnish-report").iterdir()}
    assert names >= {"report.html", "report.json", "summary.md", "results.xml"}


def test_a_comment_that_is_refused_does_not_fail_the_job(checkout: Path) -> None:
    ran = job(checkout, GitLab(address="http://127.0.0.1:9/api/v4"))
    assert ran.code == 0, ran.said
    assert "error: GitLab refused" in ran.said
    assert "warning: the summary could not be posted" in ran.said


def test_a_merge_request_is_opened_once_and_renewed(tmp_path: Path, lab: GitLab) -> None:
    (tmp_path / "text.md").write_text("why", encoding="utf-8")
    words = (str(ACTION / "gitlab.py"), "request", "burnish/agent", "main")
    env = {"CI_API_V4_URL": lab.address, "CI_PROJECT_ID": "7", "BURNISH_TOKEN": "t"}
    for title in ("first", "second"):
        command = [sys.executable, *words, title, "text.md"]
        subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
    [request] = lab.requests
    assert (request["source_branch"], request["target_branch"]) == ("burnish/agent", "main")
    assert (request["title"], request["description"]) == ("second", "why")


@pytest.mark.parametrize("name", ["gitlab.yml", "gitlab-optimise.yml"])
def test_no_value_stands_in_the_text_of_a_script(name: str) -> None:
    spec, jobs = yaml.safe_load_all((ACTION / name).read_text())
    [job] = jobs.values()
    assert not any("$[[" in line for line in (*job["before_script"], *job["script"]))
    assert all(value["expand"] is False for value in job["variables"].values())
    text = (ACTION / name).read_text()
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", text)) == set(spec["spec"]["inputs"])
    scripts = re.findall(r"\$BURNISH_FOLDER/([\w.]+)", " ".join(job["script"]))
    assert scripts
    assert all((ACTION / script).is_file() for script in scripts)
