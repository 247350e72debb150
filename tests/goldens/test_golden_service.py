"""The service: what a run looks like over HTTP, and what wrong requests are told."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.core.errors import BurnishError
from burnish.server import Datasets, FileApp, create_app
from tests.goldens.harness import Goldens
from tests.goldens.mistakes import KINDS
from tests.projects.prompts.prompt_world import KEY
from tests.server.test_api import API, ended
from tests.server.world import RUN, desk_app, listening, manager_of, toy_app

pytestmark = pytest.mark.slow

SERVED = ("agent", "prompts", "graph", "task", "suite")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "unknown setting": {"colour": "red"},
    "misspelled setting": {"max_trails": 3},
    "wrong type": {"max_trials": "three"},
    "out of range": {"max_trials": 0},
    "not a number": {"max_usd": "nan"},
    "unknown strategy": {"strategy": "climbing"},
    "setting of the command line only": {"output_dir": "/tmp/x"},
    "setting of coordinate": {"max_cycles": 2, "max_trials": 1, "seed": 3},
    "setting of backprop": {"max_rounds": 2, "max_trials": 1, "seed": 3},
    "model that is not allowed": {"critic": "openai:other"},
    "dataset that is not there": {"train": "absent.jsonl"},
    "a path for a dataset": {"train": "../train.yaml"},
}
"""Some are right for one kind of file and wrong for another; nothing that is right is started."""


def _page(title: str, response: httpx.Response) -> str:
    is_json = response.headers.get("content-type", "").startswith("application/json")
    body = json.dumps(response.json(), indent=1, ensure_ascii=False) if is_json else response.text
    return f"=== {title} ===\n{response.status_code}\n{body.rstrip()}\n"


@pytest.mark.usefixtures("toy_plugin")
async def test_a_run(tmp_path: Path, goldens: Goldens) -> None:
    made: dict[str, str] = {}
    async with listening(create_app(manager_of(tmp_path, toy_app(tmp_path)))) as client:
        new = {"id": "mine", "settings": {"max_trials": 2}}
        answer = await client.post(f"{API}/apps/toy/runs", json=new)
        made["new.txt"] = _page("new", answer)
        place = answer.headers["location"]
        await ended(client, place)
        for name in ("", "/trials", "/candidates", "/files", "/events", "/report"):
            page = _page(f"GET {place}{name}", await client.get(f"{place}{name}"))
            made[f"{name.removeprefix('/') or 'run'}.txt"] = page
        made["apps.txt"] = _page("apps", await client.get(f"{API}/apps"))
    goldens.check("service/run", made)


async def test_a_run_of_promptiter(tmp_path: Path, goldens: Goldens) -> None:
    async with listening(create_app(manager_of(tmp_path, desk_app(tmp_path)))) as client:
        new = {"id": "mine", "kind": "promptiter", "promptiter": RUN}
        place = (await client.post(f"{API}/apps/desk/runs", json=new)).headers["location"]
        await ended(client, place)
        result = _page("result", await client.get(f"{place}/promptiter"))
        structure = _page("structure", await client.get(f"{API}/apps/desk/structure"))
    goldens.check("service/promptiter", {"result.txt": result, "structure.txt": structure})


@pytest.mark.parametrize("kind", SERVED)
async def test_wrong_requests(
    kind: str, tmp_path: Path, goldens: Goldens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file = KINDS[kind].write(tmp_path, ())
    datasets = Datasets(folder=tmp_path / "data" / "datasets")
    app = FileApp(name="app", path=file, datasets=datasets)
    pages: list[str] = []
    async with listening(create_app(manager_of(tmp_path, app))) as client:
        for title, settings in SETTINGS.items():
            if _is_right(app, settings):
                pages.append(f"=== {title} ===\nit would be started\n")
                continue
            answer = await client.post(f"{API}/apps/app/runs", json={"settings": settings})
            pages.append(_page(title, answer))
    goldens.check(f"service/errors-{kind}", {"errors.txt": "\n".join(pages)})


def _is_right(app: FileApp, settings: Mapping[str, Any]) -> bool:
    try:
        app.plan({"kind": "optimize", "settings": dict(settings)})
    except BurnishError:
        return False
    return True
