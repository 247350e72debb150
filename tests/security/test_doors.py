"""Which fields a client may set: every field of every kind of file, asked for over a socket.

Made from the fields themselves: a field that is added is tested without another line.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.journal.limits import Budget
from burnish.projects.clients import AllowedNames, NotAllowed, admit
from burnish.projects.description import describe
from burnish.projects.dialects import Document, value_under
from burnish.runs.build import kept_spec
from burnish.server.application import create_app
from burnish.server.apps import FileApp
from burnish.server.manager import RunManager, ServiceLimits
from burnish.server.runs import Datasets
from burnish.server.shapes import JobRequest, RunSettings
from burnish.server.stores.accounts import Amounts
from burnish.server.stores.records import RunStatus
from burnish.server.work import LoopThread, RunContext, RunOutcome
from burnish.system.settings import Access, SettingField
from tests.compat.promptiter.desk import WRITE
from tests.projects.test_every_door import FILES, PAIRS, document, doors, is_there, sample
from tests.server.world import RUN, desk_app, listening, manager_of, toy_app

API = "/api/v1"
MANY = ServiceLimits(running=1, waiting=100_000, lease_seconds=30.0)


@dataclass
class Described:
    """Work that is described as every other, and not done."""

    strategy: str
    spec: Mapping[str, Json]
    request: Json = None
    budget: Budget = field(default_factory=Budget)
    thread: LoopThread | None = None

    def check_new(self) -> None: ...

    def limit(self, granted: Amounts) -> None: ...

    def so_far(self) -> Json:
        return None

    async def drive(self, context: RunContext) -> RunOutcome:
        return RunOutcome(status=RunStatus.SUCCEEDED)

    async def drop(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class DescribingApp(FileApp):
    """A file whose runs are described but not built; `environ` is the operator's."""

    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    def plan(self, request: Json, *, tighten: bool = False) -> Described:
        job = JobRequest.read(request)
        flags, changes = self.changes(job)
        document = Document.read(self.path)
        described = describe(document, flags, environ=self.environ, request=changes)
        return Described(strategy=described.spec.strategy.name, spec=kept_spec(described))


def every_field(folder: Path) -> Iterator[tuple[str, str, SettingField]]:
    """Each field of each model once, with a kind of file and a strategy that have it."""
    seen: set[tuple[object, ...]] = set()
    for kind, strategy in PAIRS:
        for each in doors(kind, strategy, folder).fields():
            owner = strategy if each.path[0] == "roles" else each.owner.__name__.partition("[")[0]
            if (key := (each.path, owner)) not in seen:
                seen.add(key)
                yield kind, strategy, each


@dataclass(frozen=True, kw_only=True)
class Site:
    """A service over every kind of file, and a client for it."""

    manager: RunManager
    client: httpx.AsyncClient

    async def ask(self, app: str, settings: dict[str, Any]) -> tuple[int, Any]:
        """The status, and the description of the run or the text of the refusal."""
        answer = await self.client.post(f"{API}/apps/{app}/runs", json={"settings": settings})
        if answer.status_code != 201:
            return answer.status_code, answer.text
        run_id = answer.json()["id"]
        stored: Any = (await self.manager.get(app, run_id, result=False)).request
        return 201, stored["spec"]


async def free(site: Site, app: str, each: SettingField, strategy: str) -> None:
    name, said = each.http_name, _sample(each)
    status, spec = await site.ask(app, {"strategy": strategy, name: said})
    assert status == 201, spec
    value = value_under(spec, each.path)
    assert value == said or is_there(value, each, said)


async def limit(site: Site, app: str, each: SettingField, strategy: str) -> None:
    name, said = each.http_name, _sample(each)
    by_operator = name == "max_trials"
    most = OPERATORS_TRIALS if by_operator else each.info.default
    is_bound = by_operator or each.door.http is Access.CEILING
    for value in (1 if isinstance(said, int) else 0.25, 9000 if isinstance(said, int) else 1.0):
        status, spec = await site.ask(app, {"strategy": strategy, name: value})
        assert status == 201, spec
        assert value_under(spec, each.path) == (min(value, most) if is_bound else value)


async def dataset(site: Site, app: str, each: SettingField, strategy: str) -> None:
    status, spec = await site.ask(app, {"strategy": strategy, each.http_name: "some.jsonl"})
    assert status == 201, spec
    assert "datasets/some.jsonl" in json.dumps(value_under(spec, each.path))
    secret = str(site.manager.places.data.parent / "secret.jsonl")
    for bad, code in (("../secret.jsonl", 422), (secret, 422), ("none.jsonl", 404)):
        status, text = await site.ask(app, {"strategy": strategy, each.http_name: bad})
        assert (status, "canary" in text) == (code, False)


async def named(site: Site, app: str, each: SettingField, strategy: str) -> None:
    settings = {"strategy": strategy, each.http_name: _sample(each)}
    assert (await site.ask(app, settings))[0] == 403
    status, spec = await site.ask(f"{app}-allowed", settings)
    assert status == 201, spec


async def closed(site: Site, app: str, each: SettingField, strategy: str) -> None:
    name = each.name or each.path[-1]
    status, text = await site.ask(app, {"strategy": strategy, name: _sample(each)})
    assert status == 422, text


RULES = {
    Access.OPERATOR: closed,
    Access.CLIENT: free,
    Access.LIMIT: limit,
    Access.CEILING: limit,
    Access.DATASET: dataset,
    Access.MODEL: named,
    Access.CODE: named,
}
OPERATORS_TRIALS = 5


def _apps(tmp_path: Path, datasets: Datasets) -> Iterator[DescribingApp]:
    allowances = {
        "": AllowedNames(),
        "-allowed": AllowedNames.parse(["openai:other", "module:function"]),
    }
    for kind in FILES:
        (folder := tmp_path / kind).mkdir()
        path = document(folder, kind).path
        for suffix, allowance in allowances.items():
            yield DescribingApp(
                name=f"{kind}{suffix}",
                path=path,
                datasets=datasets,
                environ={"BURNISH_MAX_TRIALS": str(OPERATORS_TRIALS)},
                allowance=allowance,
            )


@pytest.mark.slow
async def test_every_field_is_accepted_bound_or_refused_as_it_declares(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "secret.jsonl").write_text('{"input": "canary"}\n')
    apps = [*_apps(tmp_path, Datasets(folder=data / "datasets"))]
    manager, met = RunManager(apps, data=data, limits=MANY), Counter[Access]()
    async with listening(create_app(manager)) as client:
        site, case = Site(manager=manager, client=client), b'{"input": "x", "expected": "y"}\n'
        assert (await client.put(f"{API}/datasets/some.jsonl", content=case)).status_code == 201
        for kind, strategy, each in every_field(tmp_path):
            other = RunSettings.fields.get(each.http_name or each.name or each.path[-1])
            if each.name == "strategy" or (other is not None and other.path != each.path):
                continue  # another field has this name over HTTP
            # Tasks of workflows have routes of their own.
            access = each.door.http if other is not None else Access.OPERATOR
            met[access] += 1
            try:
                await RULES[access](site, kind, each, strategy)
            except AssertionError as error:
                raise AssertionError(f"{'.'.join(each.path)} ({access}): {error}") from error
    assert met.keys() == {*Access}
    assert met[Access.OPERATOR] > 100


def _sample(each: SettingField) -> Any:
    if each.door.http is Access.DATASET:
        return "some.jsonl"
    if each.path[-1] == "loss_hints":
        return [{"case": "a", "metric": "m", "reason": "r", "severity": "P0"}]
    if each.path[-1] == "floors":
        return {"key": 0.5}
    if each.path[-1] in ("target_score", "score_threshold"):
        return 0.25
    return sample(each)


CODE = (
    "unittest.__main__:main",
    "faulthandler:_sigsegv",
    "os:system",
    "subprocess:run",
    "/etc/passwd",
    "builtins:exec",
)


@pytest.mark.slow
async def test_code_that_clients_name_is_refused_and_not_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary.txt"
    (tmp_path / "evil.py").write_text(
        f"open({str(canary)!r}, 'w').write('ran')\ndef agent(): ...\n"
    )
    path = document(tmp_path, "prompts").path
    app = FileApp(name="prompts", path=path, datasets=Datasets(folder=tmp_path / "data"))
    async with listening(create_app(manager_of(tmp_path, app))) as client:
        for reference in (*CODE, "evil:agent"):
            body = {"settings": {"agent": reference}}
            answer = await client.post(f"{API}/apps/prompts/runs", json=body)
            assert answer.status_code == 403, (reference, answer.text)
        for body in (
            {"settings": {"agent": {"python": {"call": "evil:agent"}}}},
            {
                "settings": {
                    "reflector": {
                        "provider": "openai",
                        "name": "m",
                        "base_url": "http://127.0.0.1:9",
                    }
                }
            },
        ):
            assert (await client.post(f"{API}/apps/prompts/runs", json=body)).status_code == 422
    assert not canary.exists()
    for reference in CODE:
        with pytest.raises(ConfigError, match="cannot be allowed"):
            AllowedNames.parse([reference])


def test_what_the_operator_allows() -> None:
    every = AllowedNames.parse(["models"])
    assert every.permits(Access.MODEL, "openai:gpt-4o")
    assert not every.permits(Access.MODEL, "openai:x?base_url=http://evil.example")
    assert not every.permits(Access.CODE, "my_agent:run")
    one = AllowedNames.parse(["my_agent:run", "openai:o1"])
    assert one.permits(Access.CODE, "my_agent:run")
    assert not one.permits(Access.MODEL, "openai:gpt-4o")
    assert (str(every), str(AllowedNames())) == ("models", "nothing")
    with pytest.raises(ConfigError, match="metrics"):
        AllowedNames.parse(["metrics"])


def test_a_field_that_only_the_operator_may_set_is_admitted_nowhere(tmp_path: Path) -> None:
    for kind, _, each in every_field(tmp_path):
        if each.door.http is Access.OPERATOR:
            with pytest.raises(NotAllowed):
                admit(each, 1, operator={}, allowance=AllowedNames.parse(["models"]))
            assert kind


@pytest.mark.slow
async def test_promptiter_requests_are_cut_to_the_engine(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    app.engine.budget = Budget(max_calls=1000)
    async with listening(create_app(manager := manager_of(tmp_path, app))) as client:
        run = {
            **RUN,
            "EvaluationOptions": {"EvalCaseParallelism": 5000},
            "BackwardOptions": {"CaseParallelism": 5000},
            "Burnish": {"MaxCalls": 10**6},
        }
        started = await client.post("/promptiter/v1/apps/desk/async-runs", json={"run": run})
        assert started.status_code == 201, started.text
        run_id = started.json()["result"]["ID"]
        stored: Any = (await manager.get("desk", run_id, result=False)).request
        await manager.wait("desk", run_id)
    sent = stored["promptiter"]
    assert sent["EvaluationOptions"]["EvalCaseParallelism"] == 8
    assert sent["BackwardOptions"]["CaseParallelism"] == 16
    assert sent["Burnish"]["MaxCalls"] == 1000
    assert sent["TargetSurfaceIDs"] == [WRITE]
    assert "AcceptancePolicy" not in sent, "a default would override the file's"


@pytest.mark.parametrize(
    "bad", [{"MaxRounds": "3"}, {"MaxRounds": True}, {"Burnish": {"MaxUSD": "1"}}]
)
async def test_a_text_is_no_number(tmp_path: Path, bad: dict[str, Any]) -> None:
    async with listening(create_app(manager_of(tmp_path, desk_app(tmp_path)))) as client:
        body = {"run": {**RUN, **bad}}
        answer = await client.post("/promptiter/v1/apps/desk/async-runs", json=body)
    assert answer.status_code == 400
    assert "Input should be a valid" in answer.json()["error"]


@pytest.mark.slow
async def test_a_succeeded_run_is_not_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ServiceLimits(lease_seconds=0.5)
    manager = manager_of(tmp_path, toy_app(tmp_path), limits=limits)
    async with listening(create_app(manager)) as client:
        new = {"id": "r", "settings": {"max_trials": 1}}
        place = (await client.post(f"{API}/apps/toy/runs", json=new)).headers["location"]
        await client.get(f"{place}/stream")
        await manager.wait("toy", "r")
        again = await client.post(f"{place}/resume")
        shown = (await client.get(place)).json()
    assert (again.status_code, again.json()["error"]["code"]) == (409, "run_succeeded")
    assert shown["status"] == "succeeded"
    assert not [each.message for each in caplog.records if each.levelname == "WARNING"]
