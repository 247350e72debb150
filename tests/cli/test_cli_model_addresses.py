"""Where models are and whose key they get, in dry runs and in the first lines of a run."""

from pathlib import Path
from typing import Any

import pytest

from burnish.testing.servers import ScriptedServer
from tests.cli.console import Burnish
from tests.cli.served_echo import hosted
from tests.delegation.delegation_world import FLOW
from tests.projects.graph import graph_world
from tests.projects.optimizer_world import optimizer, write_world

HERE = "http://127.0.0.1:9/v1"
SECRET = "hunter2-of-a-gateway"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai-0123456789")
    monkeypatch.setenv("TEAM_KEY", "key-of-the-team-0123456789")


def models_in(lines: list[str], label: str = "models    ") -> list[str]:
    """The lines about models, those that were broken put together."""
    blank = " " * len(label)
    lines = [line for line in lines if "asked once before the start" not in line]
    about: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith(label):
            about.append(line.removeprefix(label))
        elif line.startswith(blank) and before.startswith(label):
            about[-1] += f" {line.strip()}"
    return about


def agent(folder: Path, **roles: dict[str, Any]) -> None:
    def change(data: dict[str, Any]) -> None:
        data["model"] |= {"base_url": HERE, "api_key": "${TEAM_KEY}"}
        del optimizer(data)["axes"]["numeric"]
        optimizer(data).update(strategy="reflective", budget={"global": {"max_trials": 2}})
        optimizer(data).update(roles)

    write_world(folder, change)


def test_a_plan_names_address_and_key_of_every_model(tmp_path: Path, burnish: Burnish) -> None:
    agent(tmp_path, reflector={"provider": "openai", "name": "writer"})
    planned = burnish("optimize", "--dry-run")
    assert planned.code == 0, planned
    assert models_in(planned.lines) == [
        f"agent: openai:m at {HERE}, key from TEAM_KEY",
        "reflector: openai:writer at https://api.openai.com/v1, key from OPENAI_API_KEY",
    ]
    assert all(len(line) <= 80 for line in planned.lines if line.startswith("models"))


def test_one_model_for_several_roles_is_one_line(tmp_path: Path, burnish: Burnish) -> None:
    agent(tmp_path)
    planned = burnish("optimize", "--dry-run")
    assert models_in(planned.lines) == [f"agent, reflector: openai:m at {HERE}, key from TEAM_KEY"]
    assert "          it is asked once before the start: 1 call" in planned.lines


def test_queries_of_addresses_are_not_shown(tmp_path: Path, burnish: Burnish) -> None:
    address = f"{HERE}?token={SECRET}"
    reflector = {"provider": "openai", "name": "writer", "base_url": address}
    agent(tmp_path, reflector=reflector)
    planned = burnish("optimize", "--dry-run")
    assert planned.code == 0, planned
    assert models_in(planned.lines)[1:] == [
        f"reflector: openai:writer at {HERE}, key from OPENAI_API_KEY"
    ]
    assert SECRET not in planned.out


def test_a_model_without_a_key(tmp_path: Path, burnish: Burnish) -> None:
    def change(data: dict[str, Any]) -> None:
        data["model"] = {"provider": "ollama", "name": "llama3"}

    write_world(tmp_path, change)
    planned = burnish("eval", "agent.yaml", "--cases", "train.yaml", "--dry-run")
    assert models_in(planned.lines) == ["agent: ollama:llama3 at http://localhost:11434/v1, no key"]


def test_a_grid_names_the_models_of_all_columns(tmp_path: Path, burnish: Burnish) -> None:
    agent(tmp_path)
    flags = ("--cases", "train.yaml", "--model", "openai:m", "--model", "openai:n", "--dry-run")
    planned = burnish("eval", "agent.yaml", *flags)
    assert planned.code == 0, planned
    assert models_in(planned.lines) == [
        f"agent: openai:{name} at {HERE}, key from TEAM_KEY" for name in "mn"
    ]


def test_graphs_and_teams_name_theirs(tmp_path: Path, burnish: Burnish) -> None:
    change = graph_world.optimizer(strategy="backprop", targets=["planner#instruction"])
    graph = graph_world.write_world(tmp_path, change)
    planned = burnish("optimize", str(graph), "--dry-run")
    (line,) = models_in(planned.lines)
    assert line.startswith("agent, backwarder, aggregator, patcher: openai:"), line
    flow = FLOW.replace(
        "worker: openai:hand", f"worker: {{ref: 'openai:hand', base_url: '{HERE}'}}"
    )
    Path("flow.yaml").write_text(flow, encoding="utf-8")
    delegated = burnish("delegate", "flow.yaml", "--task", "Write.", "--dry-run")
    home = "at https://api.openai.com/v1, key from OPENAI_API_KEY"
    lines = [line for line in delegated.lines if not line.startswith(" " * 9 + "max_")]
    assert models_in(lines, "models   ") == [
        f"manager: openai:boss {home}",
        f"worker: openai:hand at {HERE}, key from OPENAI_API_KEY",
        f"critic: openai:eye {home}",
    ]
    data = burnish("delegate", "flow.yaml", "--task", "Write.", "--dry-run", "--json").json
    assert data["addresses"][1] == {
        "roles": ["worker"],
        "model": "openai:hand",
        "address": HERE,
        "key": "OPENAI_API_KEY",
        "file": "",
    }


def test_a_run_says_it_in_its_first_lines(tmp_path: Path, burnish: Burnish) -> None:
    with hosted(ScriptedServer()) as url:

        def change(data: dict[str, Any]) -> None:
            data["model"] |= {"base_url": url, "api_key": "${TEAM_KEY}"}

        write_world(tmp_path, change)
        measured = burnish("eval", "agent.yaml", "--cases", "train.yaml", "-o", "run")
        first, second, *_ = measured.lines
        assert first.startswith("echo, openai:m · "), measured
        assert second == f"   agent: openai:m at {url}, key from TEAM_KEY"
        resumed = burnish("eval", "agent.yaml", "--resume", "run", "--progress", "json")
    begun = next(each for each in resumed.records if each["kind"] == "run_resumed")
    assert begun["data"]["models"] == [
        {
            "roles": ["agent"],
            "model": "openai:m",
            "address": url,
            "key": "TEAM_KEY",
            "file": "",
        }
    ]
