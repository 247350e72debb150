"""The scheduled search: the script on real git and a real run, with a scripted model."""

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnish.testing.servers import HttpRequest, ScriptedServer
from tests.cli.served_echo import hosted
from tests.integrations.checkouts import (
    ACTION,
    Ran,
    clone_of_new_repository,
    git,
    publish,
    run_script,
)

pytestmark = pytest.mark.slow

AGENT = """\
name: till
model: {{provider: openai, name: small, endpoint: "{address}", api_key: "${{TILL_KEY}}"}}
instructions: {{inline: Reply with the total price.}}
evaluations:
  metrics:
    - {{type: standard, metric: equality}}
  optimizer:
    loss: {{equality: 1.0}}
    repeats: 1
    train_cases_file: train.yaml
    holdout_cases_file: holdout.yaml
    sealed_cases_file: test.yaml
    axes:
      demonstrations: {{max_demos: 1}}
"""
GH = """#!/bin/sh
printf '%s\\n' "$@" >> "$GH_CALLS"
"""
BRANCH = "burnish/agent"


def priced(request: HttpRequest) -> str:
    """The right answer, once there is an example in the conversation."""
    messages = request.json["messages"]
    price = re.findall(r"\d+", messages[-1]["content"])[0]
    return price if len(messages) > 2 else f"The total price is {price}."


def never_right(request: HttpRequest) -> str:
    del request
    return "I cannot tell."


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gh").write_text(GH)
    (tmp_path / "bin/gh").chmod(0o755)
    folder = clone_of_new_repository(tmp_path)
    for name, prices in (("train", 10), ("holdout", 20), ("test", 30)):
        lines = (
            f'- {{input: "{n} for {name}", ground_truth: "{n}"}}\n'
            for n in range(prices, prices + 6)
        )
        (folder / f"{name}.yaml").write_text("".join(lines))
    return folder


@pytest.fixture
def model() -> Generator[str]:
    with hosted(ScriptedServer(answers=priced)) as address:
        yield address


def write_agent(folder: Path, address: str) -> None:
    (folder / "agent.yaml").write_text(AGENT.format(address=address))
    publish(folder)


def search(folder: Path, **variables: str) -> Ran:
    home = folder.parent
    own = {
        "AGENT": "agent.yaml",
        "MAX_CALLS": "500",
        "ARGUMENTS": "-q",
        "TILL_KEY": "a key",
        "GITLAB_CI": "",
        "GITHUB_OUTPUT": str(home / "output"),
        "GH_CALLS": str(home / "calls"),
        "RUNNER_TEMP": str(home),
    }
    return run_script("optimise.sh", folder, **(own | variables))


def calls(folder: Path) -> list[str]:
    path = folder.parent / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_a_gain_becomes_a_request_and_a_second_run_renews_it(checkout: Path, model: str) -> None:
    write_agent(checkout, model)
    main = git(checkout, "rev-parse", "HEAD")
    ran = search(checkout)
    assert ran.code == 0, ran.said
    assert git(checkout, "ls-remote", "origin", "refs/heads/main").split()[0] == main
    assert git(checkout, "diff", "--name-only", "main", BRANCH) == "agent.yaml"
    assert "sealed test" in git(checkout, "log", "-1", "--format=%B", BRANCH)
    assert git(checkout, "status", "--porcelain", "--untracked-files=no") == ""
    assert git(checkout, "branch", "--show-current") == "main"
    words = calls(checkout)
    assert words[:4] == ["pr", "list", "--head", BRANCH]
    body = Path(words[-1]).read_text()
    assert "+demonstrations:" in body
    assert "improved" in body

    (checkout / "notes.txt").write_text("the base goes on")
    publish(checkout, "another")
    again = search(checkout)
    assert again.code == 0, again.said
    assert git(checkout, "rev-parse", f"{BRANCH}^") == git(checkout, "rev-parse", "main")

    git(checkout, "checkout", "--quiet", BRANCH)
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "by hand")
    git(checkout, "push", "--quiet", "origin", BRANCH)
    git(checkout, "checkout", "--quiet", "main")
    third = search(checkout)
    assert third.code == 1
    assert "has commits of others" in third.said
    assert git(checkout, "log", "-1", "--format=%s", f"origin/{BRANCH}") == "by hand"


def test_without_a_gain_nothing_is_pushed(checkout: Path) -> None:
    with hosted(ScriptedServer(answers=never_right)) as address:
        write_agent(checkout, address)
        ran = search(checkout)
    assert ran.code == 0, ran.said
    assert "required: improved; the run says nothing better was found" in ran.said
    assert "::notice::no gain is shown, so there is no pull request" in ran.said
    assert git(checkout, "ls-remote", "--heads", "origin").endswith("refs/heads/main")
    assert calls(checkout) == []


def test_a_search_that_can_show_no_gain_is_refused_before_it_pays(checkout: Path) -> None:
    write_agent(checkout, "http://127.0.0.1:9")
    agent = checkout / "agent.yaml"
    agent.write_text(agent.read_text().replace("    sealed_cases_file: test.yaml\n", ""))
    publish(checkout, "nothing is sealed")
    ran = search(checkout)
    assert ran.code == 1
    assert "a gain is required, and this run can show none: it has no sealed test" in ran.said


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"BRANCH": "main"}, "BRANCH is main itself"),
        ({"BRANCH": "release", "BASE": "release"}, "BRANCH is release itself"),
        ({"BRANCH": "two words"}, "is no name of a branch"),
        ({"MAX_CALLS": ""}, "there is no limit"),
    ],
)
def test_what_is_refused_before_anything_is_paid(
    checkout: Path, variables: dict[str, str], message: str
) -> None:
    write_agent(checkout, "http://127.0.0.1:9")
    ran = search(checkout, **variables)
    assert (ran.code, ran.said.count("error: ")) == (1, 1)
    assert message in ran.said


def test_the_workflow_runs_the_script() -> None:
    workflow: dict[str, Any] = yaml.safe_load((ACTION / "optimise.yml").read_text())
    steps = workflow["jobs"]["optimise"]["steps"]
    assert workflow["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert all("${{" not in step.get("run", "") for step in steps)
    [script] = [step for step in steps if "optimise.sh" in step.get("run", "")]
    text = (ACTION / "optimise.sh").read_text() + (ACTION / "platform.sh").read_text()
    assert all(name in text for name in script["env"] if name != "GH_TOKEN")
