"""Grids over HTTP: each column is a run in the queue, and the service compares them."""

import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.projects.clients import AllowedNames, NotAllowed
from burnish.projects.grid_axes import GridAxes
from burnish.server import create_app
from burnish.server.apps import FileApp
from burnish.server.launcher import Launcher
from burnish.server.manager import RunManager
from burnish.server.runs import Datasets
from burnish.server.shapes import EvaluationSettings
from burnish.server.work import RunWork
from burnish.system.borrowed_files import Borrowing
from burnish.system.files import state_folder
from burnish.system.restoration import borrowed_folder
from tests.server.test_api import API, ended, listening, manager_of

pytestmark = pytest.mark.slow

AGENT = """
from pathlib import Path

def call(query):
    return Path(__file__).with_name("s.md").read_text().strip()
"""
PROJECT = """\
kind: prompts
target: {python: grid_agent:call}
prompts: {system: s.md}
train: cases.csv
metrics: [{type: standard, metric: equality}]
"""
Grid = dict[str, Any]


@pytest.fixture(autouse=True)
def _own_agent(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """The module of an earlier test is not this one's."""
    monkeypatch.delitem(sys.modules, "grid_agent", raising=False)
    monkeypatch.setenv("EXAMPLE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("EXAMPLE_API_KEY", "none-is-needed")


def app_of(folder: Path, *allowed: str) -> FileApp:
    files = {"p.yaml": PROJECT, "s.md": "no\n", "cases.csv": "input,expected\na,yes\nb,yes\n"}
    for name, text in {**files, "grid_agent.py": AGENT}.items():
        (folder / name).write_text(text, encoding="utf-8")
    datasets = Datasets(folder=folder / "data" / "datasets")
    return FileApp(
        name="shop",
        path=folder / "p.yaml",
        datasets=datasets,
        allowance=AllowedNames.parse(allowed),
    )


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[httpx.AsyncClient, RunManager]]:
    manager = manager_of(folder, app_of(folder))
    async with listening(create_app(manager)) as client:
        yield client, manager


async def test_a_grid_is_started_and_read(tmp_path: Path) -> None:
    new: Grid = {"app": "shop", "id": "g", "values": {"system": ["yes", "no"]}}
    async with served(tmp_path) as (client, manager):
        made = await client.post(f"{API}/grids", json={**new, "settings": {"max_calls": 9}})
        assert made.status_code == 201, made.text
        assert [each["id"] for each in made.json()["columns"]] == ["g-1", "g-2"]
        for column in made.json()["columns"]:
            run = await ended(client, f"{API}/apps/shop/runs/{column['id']}")
            assert (run["status"], run["strategy"]) == ("succeeded", "measure"), run["error"]
        read = await client.get(made.headers["location"])
        again = await client.post(f"{API}/grids", json=new)
        spec = (await manager.get("shop", "g-2")).request
        listed = (await client.get(f"{API}/evaluations", params={"app": "shop"})).json()
        gone = await client.delete(f"{API}/apps/shop/runs/g-2")
        left = (await client.get(made.headers["location"])).json()
        unknown = await client.get(f"{API}/grids/shop/other")
    grid = read.json()
    assert (read.status_code, grid["finished"]) == (200, True)
    first, second = grid["report"]["columns"]
    assert (first["label"], first["score"], first["run"]) == ("system=yes", 1.0, "g-1")
    assert (second["label"], second["score"], second["passed"]) == ("system=no", 0.0, 0)
    assert second["change"]["difference"] == -1.0
    assert grid["report"]["reference"] == 1
    assert str(tmp_path) not in read.text
    assert again.status_code == 409
    assert isinstance(spec, dict)
    assert isinstance(spec["spec"], dict)
    assert spec["spec"]["budget"] == {"max_calls": 4}, "the columns share a limit"
    assert {each["id"] for each in listed["runs"]} == {"g-1", "g-2"}
    assert gone.status_code == 204
    assert [each["status"] for each in left["columns"]] == ["succeeded", "deleted"]
    assert left["report"]["columns"][1]["failure"] == "its run was deleted"
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({}, 422, "the grid has 1 column"),
        ({"values": {"system": []}}, 422, "body.values.system"),
        ({"values": {"system": ["yes"]}}, 422, "the grid has 1 column"),
        ({"values": {"sytem": ["yes", "no"]}}, 422, "sytem"),
        ({"values": {"system": ["yes", ""]}}, 422, "the text is empty"),
        ({"values": {"system": ["yes", 3]}}, 422, "values.system"),
        ({"values": {"system": [f"{n}" for n in range(25)]}}, 422, "body.values.system"),
        ({"models": ["openai:gpt-4o", "current"]}, 422, "no model that could be changed"),
        ({"values": {"system": ["yes", "no"]}, "settings": {"max_calls": 1}}, 422, "max_calls"),
        ({"values": {"system": ["yes", "no"]}, "settings": {"judge": "openai:x"}}, 403, "judge"),
        ({"candidates": ["/etc/passwd"]}, 422, "body.candidates"),
        ({"app": "nobody"}, 404, "nobody"),
    ],
)
async def test_what_is_no_grid_starts_nothing(
    tmp_path: Path, changes: Grid, status: int, words: str
) -> None:
    async with served(tmp_path) as (client, _):
        made = await client.post(f"{API}/grids", json={"app": "shop", "id": "g", **changes})
        listed = (await client.get(f"{API}/evaluations")).json()
    assert (made.status_code, words in made.text) == (status, True), made.text
    assert listed["runs"] == []


async def test_a_grid_that_cannot_be_started_whole_is_not_started(tmp_path: Path) -> None:
    """The third name is taken, so the first two columns are canceled."""
    taken = {"app": "shop", "id": "g-3"}
    new: Grid = {"app": "shop", "id": "g", "values": {"system": ["yes", "no", "maybe"]}}
    async with served(tmp_path) as (client, manager):
        await client.post(f"{API}/evaluations", json=taken)
        made = await client.post(f"{API}/grids", json=new)
        await ended(client, f"{API}/apps/shop/runs/g-3")
        others = [await ended(client, f"{API}/apps/shop/runs/g-{n}") for n in (1, 2)]
        assert not (await manager.get("shop", "g-3")).cancel_requested
    assert made.status_code == 409, made.text
    assert {each["status"] for each in others} <= {"canceled", "succeeded"}
    assert all(each["cancel_requested"] or each["status"] == "succeeded" for each in others)


async def test_a_run_that_holds_the_prompt_file_is_no_fault_of_the_file(tmp_path: Path) -> None:
    """Runs wait for each other; that the file is in use now is a conflict, not a bad request."""
    async with served(tmp_path) as (client, _):
        (tmp_path / "s.md").write_text("maybe")
        field = (tmp_path / "s.md").resolve()
        borrowing = Borrowing({field: b"no\n"}, borrowed_folder(state_folder()))
        borrowing.note({field: b"maybe"})
        made = await client.post(f"{API}/evaluations", json={"app": "shop", "id": "mine"})
        borrowing.put_back()
        later = await client.post(f"{API}/evaluations", json={"app": "shop", "id": "mine"})
        await ended(client, f"{API}/apps/shop/runs/mine")
    error = made.json()["error"]
    assert (made.status_code, error["code"]) == (409, "run_locked"), made.text
    assert "s.md is in use by process" in error["message"]
    assert later.status_code == 201, later.text


async def test_all_columns_are_checked_before_the_first_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first writes its text into the file that the others are read from."""
    new: Grid = {"app": "shop", "id": "g", "values": {"system": ["yes", "maybe", "no"]}}
    happened: list[str] = []
    plan, offer = FileApp.plan, Launcher.offer

    def planned(app: FileApp, request: Json, *, tighten: bool = False) -> RunWork:
        happened.append("checked")
        return plan(app, request, tighten=tighten)

    async def offered(launcher: Launcher, key: tuple[str, str], work: RunWork) -> None:
        happened.append("begun")
        await offer(launcher, key, work)

    async with served(tmp_path) as (client, _):
        with monkeypatch.context() as patch:
            patch.setattr(FileApp, "plan", planned)
            patch.setattr(Launcher, "offer", offered)
            made = await client.post(f"{API}/grids", json=new)
            assert happened[:6] == ["checked"] * 3 + ["begun"] * 3
    assert made.status_code == 201, made.text


def test_only_allowed_models_and_what_the_file_offers_may_vary(tmp_path: Path) -> None:
    agent = Path(__file__).parents[2] / "examples" / "cheaper"
    shutil.copytree(agent, tmp_path / "agent")
    datasets = Datasets(folder=tmp_path / "data")
    names = AllowedNames.parse(["openai:medium"])
    file = tmp_path / "agent" / "agent.yaml"
    app = FileApp(name="agent", path=file, datasets=datasets, allowance=names)

    def columns(axes: GridAxes) -> list[str]:
        jobs = app.columns(EvaluationSettings(), axes, "g", most=24)
        return [job.column.label for job in jobs if job.column is not None]

    assert columns(GridAxes(models=("openai:medium", "current"))) == ["openai:medium", "current"]
    with pytest.raises(NotAllowed, match="'openai:large' is not allowed here"):
        columns(GridAxes(models=("openai:large", "openai:medium")))
    with pytest.raises(ConfigError, match="not a reference to a model"):
        columns(GridAxes(models=("opnai:medium", "current")))
    with pytest.raises(NotAllowed, match="does not offer"):
        columns(GridAxes(settings={"max_tokens": (10, 10_000)}))
