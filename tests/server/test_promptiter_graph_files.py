"""Graph files over PromptIter's routes: the file counts as it does at the command line."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.compat.promptiter import Engine, read_request
from burnish.compat.promptiter.plan import RunPlan
from burnish.runs.directory import Header, events, look_into, trial_rows
from burnish.server import Datasets, FileApp, create_app
from burnish.server.apps import engine_of
from burnish.testing.servers import HttpRequest, ScriptedServer
from tests.cli.console import START, tree
from tests.cli.served_echo import hosted
from tests.server.processes import serving
from tests.server.world import listening, manager_of

pytestmark = pytest.mark.slow
BASE = "/promptiter/v1/apps/desk"
KEY = "DESK_MODEL_KEY"
RUN: dict[str, Any] = {
    "train": [{"evalSetId": "lessons"}],
    "validation": [{"evalSetId": "exam"}],
    "TargetSurfaceIDs": ["desk/clerk#instruction"],
    "MaxRounds": 1,
}
EXACT = [{"type": "standard", "metric": "equality"}]
JUDGED = [{"type": "geval", "name": "kindness", "criteria": "It is kind."}]
OF_THE_SETS = [
    {
        "metricName": "final_response_avg_score",
        "threshold": 1.0,
        "criterion": {"finalResponse": {"text": {"matchStrategy": "exact"}}},
    }
]


def answer(request: HttpRequest) -> str:
    """The clerk says yes; the judge finds everything kind; the player has heard enough."""
    if request.json["model"] == "player":
        return json.dumps({"thought": "that will do", "done": True, "remark": ""})
    if request.json["model"] == "judge":
        verdict = {"score": 10, "steps": ["look"], "is_the_agent_response_valid": "valid"}
        return json.dumps({"reasoning": "it is", **verdict})
    return "yes"


def judge(key: str = KEY) -> Callable[[ScriptedServer], dict[str, Any]]:
    """A judge at the scripted endpoint."""
    return lambda server: model("judge", server, key)


def model(name: str, server: ScriptedServer, key: str = KEY) -> dict[str, Any]:
    """A model at the scripted endpoint."""
    return {"ref": f"openai:{name}", "base_url": server.base_url, "api_key": f"${{{key}}}"}


def write_desk(folder: Path, server: ScriptedServer, **more: Any) -> Path:
    """A graph of one clerk, and two eval sets where both doors look for them."""
    sets = folder / "data" / "desk"
    sets.mkdir(parents=True, exist_ok=True)
    for name in ("lessons", "exam"):
        cases = [
            {
                "evalId": f"{name}{n}",
                "conversation": [
                    {
                        "userContent": {"role": "user", "content": f"{name} {n}?"},
                        "finalResponse": {"role": "assistant", "content": "yes"},
                    }
                ],
            }
            for n in range(2)
        ]
        whole = {"evalSetId": name, "evalCases": cases}
        (sets / f"{name}.evalset.json").write_text(json.dumps(whole))
    model = {"provider": "openai", "name": "clerk", "endpoint": server.base_url}
    clerk = {"model": {**model, "api_key": f"${{{KEY}}}"}, "instructions": {"inline": "Answer."}}
    file = {"kind": "graph", "name": "desk", "nodes": {"clerk": clerk}, **more}
    path = folder / "graph.yaml"
    path.write_text(json.dumps(file))
    return path


def write_set_metrics(folder: Path, metrics: list[dict[str, Any]]) -> None:
    """The metrics files that PromptIter looks for beside its sets."""
    for name in ("lessons", "exam"):
        (folder / "data" / "desk" / f"{name}.metrics.json").write_text(json.dumps(metrics))


@asynccontextmanager
async def served(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> AsyncGenerator[tuple[httpx.AsyncClient, ScriptedServer]]:
    """The desk behind a socket, with the endpoint of its models."""
    monkeypatch.setenv(KEY, "a-key-of-the-operator")
    async with ScriptedServer(protocol="openai", answers=answer) as server:
        file = {name: value(server) if callable(value) else value for name, value in more.items()}
        path = write_desk(folder, server, **file)
        datasets = Datasets(folder=folder / "service" / "datasets")
        app = FileApp(name="desk", path=path, datasets=datasets)
        manager = manager_of(folder, app, data="service")
        async with listening(create_app(manager)) as client:
            yield client, server


async def ran(client: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    """The result of a run that ended well."""
    answered = await client.post(f"{BASE}/runs", json={"run": {**RUN, **more}})
    assert answered.status_code == 200, answered.text
    return answered.json()["result"]


def folder_of(result: dict[str, Any]) -> Path:
    """Where the run is."""
    return Path(result["Burnish"]["Folder"])


def scored(result: dict[str, Any]) -> list[str]:
    """The metrics that scored the baseline."""
    cases = result["BaselineValidation"]["EvalSets"][0]["Cases"]
    return [metric["MetricName"] for metric in cases[0]["Metrics"]]


async def test_metrics_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, metrics=EXACT) as (client, _):
        assert scored(await ran(client)) == ["equality"]
        write_set_metrics(tmp_path, OF_THE_SETS)
        assert scored(await ran(client)) == ["equality"], "the file decides, as for the CLI"


def test_the_command_serves_a_graph_from_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PromptIter's server example as `burnish serve`: shared metrics, a judge, a limit, other
    sub-paths and slim results; everything that is written is below `--data`."""
    monkeypatch.setenv(KEY, "a-key-of-the-operator")
    server = ScriptedServer(protocol="openai", answers=answer)
    with hosted(server):
        more = {"metrics_file": "metrics.yaml", "judge": model("judge", server)}
        write_desk(tmp_path, server, **more, budget={"max_calls": 40})
        (tmp_path / "metrics.yaml").write_text(json.dumps(EXACT + JUDGED))
        before = tree(tmp_path)
        flags = ("--sub-path", "structure=anatomy", "--omit=losses", "--omit=evaluation-cases")
        with serving(tmp_path, "--app", "desk=graph.yaml", "--data", "service", *flags) as service:
            here = service.client.base_url.copy_with(path="")
            found = service.client.get(f"{here}{BASE}/anatomy")
            assert found.json()["structure"]["EntryNodeID"] == "desk/clerk"
            assert service.client.get(f"{here}{BASE}/structure").status_code == 404
            ran = service.client.post(f"{here}{BASE}/runs", json={"run": RUN})
    assert ran.status_code == 200, ran.text
    result = ran.json()["result"]
    (exam,) = result["BaselineValidation"]["EvalSets"]
    assert (result["Status"], exam["Cases"]) == ("succeeded", None)
    assert all(each["Losses"] is None for each in result["Rounds"])
    folder = folder_of(result)
    assert begun(folder)["budget"]["max_calls"] == 40
    with look_into(folder) as journal:
        first = next(iter(trial_rows(journal))).trial
    assert first.holdout is not None
    assert set(first.holdout.measurement.values) >= {"equality", "kindness"}
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before
    # stderr.txt is what the test keeps of the command's own output.
    assert {name.split("/")[0] for name in after.keys() - before.keys()} == {
        "service",
        "stderr.txt",
    }


async def test_ids_are_trimmed_and_steps_have_their_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = {
        "train": [{"evalSetId": " lessons", "evalCaseIds": ["lessons0 "]}],
        "validation": [{"evalSetId": "exam\n"}],
        "TargetSurfaceIDs": [" desk/clerk#instruction "],
    }
    async with served(tmp_path, monkeypatch, metrics=EXACT) as (client, _):
        result = await ran(client, **spaced)
    (exam,) = result["BaselineValidation"]["EvalSets"]
    assert [case["EvalCaseID"] for case in exam["Cases"]] == ["exam0", "exam1"]
    (lessons,) = result["Rounds"][0]["Train"]["EvalSets"]
    assert [case["EvalCaseID"] for case in lessons["Cases"]] == ["lessons0"]
    trace = exam["Cases"][0]["Trace"]
    for usage in (trace["Usage"], trace["Steps"][0]["Usage"]):
        assert usage["prompt_tokens"] > 0 < usage["completion_tokens"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_metrics_of_the_sets_count_where_the_file_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch) as (client, _):
        write_set_metrics(tmp_path, OF_THE_SETS)
        assert scored(await ran(client)) == ["final_response_avg_score"]


async def test_metrics_file_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics.yaml").write_text(json.dumps(EXACT))
    async with served(tmp_path, monkeypatch, metrics_file="metrics.yaml") as (client, _):
        write_set_metrics(tmp_path, OF_THE_SETS)
        assert scored(await ran(client)) == ["equality"]
        (tmp_path / "metrics.yaml").write_text("[{type: standard, metric: equalty}]")
        wrong = await client.post(f"{BASE}/runs", json={"run": RUN})
    assert wrong.status_code == 400
    assert "did you mean 'equality'?" in wrong.json()["error"]


async def test_metrics_and_metrics_file_are_not_both_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics.yaml").write_text(json.dumps(EXACT))
    both = {"metrics": EXACT, "metrics_file": "metrics.yaml"}
    async with served(tmp_path, monkeypatch, **both) as (client, _):
        wrong = await client.post(f"{BASE}/async-runs", json={"run": RUN})
    assert wrong.status_code == 400
    assert "give metrics or metrics_file, not both" in wrong.json()["error"]


@pytest.mark.parametrize("home", ["file", "sets"])
async def test_the_judge_of_the_file(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It judges for metrics that name nobody, wherever these stand."""
    more = {"metrics": JUDGED} if home == "file" else {}
    async with served(tmp_path, monkeypatch, judge=judge(), **more) as (client, server):
        of_the_sets = {"metricName": "llm_final_response", "threshold": 1.0}
        write_set_metrics(tmp_path, [{**of_the_sets, "criterion": {"llmJudge": {}}}])
        await ran(client)
        judged = [each for each in server.requests if each.json["model"] == "judge"]
    assert judged
    assert {each.headers["authorization"] for each in judged} == {"Bearer a-key-of-the-operator"}


async def test_a_judge_that_cannot_be_asked_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyless = judge("NO_SUCH_JUDGE_KEY")
    async with served(tmp_path, monkeypatch, judge=keyless, metrics=JUDGED) as (client, server):
        unset = await client.post(f"{BASE}/runs", json={"run": RUN})
        own = {"kind": "promptiter", "promptiter": RUN}
        also = await client.post("/api/v1/apps/desk/runs", json=own)
        write_desk(tmp_path, server, metrics=JUDGED)
        nobody = await client.post(f"{BASE}/runs", json={"run": RUN})
        runs = (await client.get("/api/v1/runs")).json()["runs"]
    assert (unset.status_code, also.status_code, nobody.status_code) == (400, 422, 400)
    assert "NO_SUCH_JUDGE_KEY" in unset.json()["error"]
    assert "but no model is named" in nobody.json()["error"]
    assert not server.requests, "something was paid"
    assert runs == []


async def test_a_price_that_nobody_knows_is_the_clients_to_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, metrics=EXACT, budget={"max_usd": 1}) as (client, _):
        wrong = await client.post(f"{BASE}/runs", json={"run": RUN})
    assert wrong.status_code == 400
    assert "max_usd is set, but the price of a call is not known" in wrong.json()["error"]


@pytest.mark.parametrize(
    ("own", "request_limits", "limit"),
    [
        ({"max_calls": 3}, None, 3),
        ({"max_calls": 3}, {"MaxCalls": 1000}, 3),
        ({"max_calls": 1000}, {"MaxCalls": 3}, 3),
        ({}, {"MaxCalls": 3}, 3),
    ],
)
async def test_the_budget_of_the_file_can_only_be_made_stricter(
    own: dict[str, Any],
    request_limits: dict[str, Any] | None,
    limit: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(tmp_path, monkeypatch, metrics=EXACT, budget=own) as (client, server):
        result = await ran(
            client, **({} if request_limits is None else {"Burnish": request_limits})
        )
        assert len(server.preflights) + len(server.requests) == limit
    assert result["Burnish"]["EndedBecause"] == "max_calls"
    assert begun(folder_of(result))["budget"] == {"max_calls": limit}


async def test_every_limit_of_the_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"max_minutes": 5.0, "max_tokens": 900, "max_trials": 7, "patience": 3}
    request_limits = {"MaxMinutes": 60, "MaxTokens": 800, "MaxMetricCalls": 50}
    monkeypatch.setenv("BURNISH_MAX_CALLS", "40")
    async with served(tmp_path, monkeypatch, metrics=EXACT, budget=limits) as (client, _):
        result = await ran(client, Burnish=request_limits)
    stricter = {"max_tokens": 800, "max_metric_calls": 50, "max_calls": 40}
    assert begun(folder_of(result))["budget"] == {**limits, **stricter}


def begun(folder: Path) -> dict[str, Any]:
    """What a run recorded of itself when it began."""
    with look_into(folder) as reader:
        return dict(next(each for each in events(reader) if each.kind == "run_started").data)


def playing(server: ScriptedServer) -> dict[str, Any]:
    """Somebody who plays the user."""
    return model("player", server)


SCENARIO = {
    "evalId": "caller",
    "conversationScenario": {"startingPrompt": "Is it open?", "conversationPlan": "Ask once."},
}


@pytest.mark.parametrize("player", [True, False])
async def test_the_simulated_user_of_the_file(
    player: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"user_simulator": playing} if player else {}
    world = served(tmp_path, monkeypatch, metrics=JUDGED, judge=judge(), **more)
    async with world as (client, server):
        whole = {"evalSetId": "exam", "evalCases": [SCENARIO]}
        (tmp_path / "data" / "desk" / "exam.evalset.json").write_text(json.dumps(whole))
        answered = await client.post(f"{BASE}/runs", json={"run": RUN})
        asked = [each.json["model"] for each in server.requests]
    assert answered.status_code == (200 if player else 400), answered.text
    if player:
        assert "player" in asked
    else:
        assert "there is no model to simulate its user" in answered.json()["error"]
        assert not asked


@pytest.mark.parametrize("role", ["proposer", "patcher", "user_simulator"])
async def test_a_model_without_a_key_is_refused_at_once(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(server: ScriptedServer) -> dict[str, Any]:
        keyless = model("writer", server, "NO_SUCH_WRITER_KEY")
        return keyless if role == "user_simulator" else {role: keyless}

    more = {"user_simulator" if role == "user_simulator" else "optimizer": block}
    async with served(tmp_path, monkeypatch, metrics=EXACT, **more) as (client, server):
        refused = await client.post(f"{BASE}/runs", json={"run": RUN})
        runs = (await client.get("/api/v1/runs")).json()["runs"]
    assert refused.status_code == 400
    assert role in refused.json()["error"]
    assert "NO_SUCH_WRITER_KEY" in refused.json()["error"]
    assert not server.requests, "something was paid"
    assert runs == []


async def test_a_graph_whose_own_key_is_missing_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, metrics=EXACT) as (client, _):
        monkeypatch.delenv(KEY)
        refused = await client.post(f"{BASE}/async-runs", json={"run": RUN})
        runs = (await client.get("/api/v1/runs")).json()["runs"]
    assert refused.status_code == 400
    assert KEY in refused.json()["error"]
    assert runs == []


SETTINGS: dict[str, Any] = {
    "seed": 7,
    "concurrency": 3,
    "repeats": 2,
    "time_limit": 20,
    "retry": {"attempts": 2, "first_wait": 0},
    "optimizer": {
        "gate": "sigma",
        "max_rounds_without_acceptance": 5,
        "guards": {"protected": ["exam1"], "floors": {"equality": 0.5}},
        "loss_hints": [{"case": "lessons0", "metric": "equality", "reason": "be kind"}],
        "loss_targets": {"equality": "clerk"},
        "patch_parallelism": False,
    },
}


def planned(engine: Engine, body: dict[str, Any]) -> RunPlan:
    """What a request comes to."""
    request = read_request(body, strict=True)[0]
    evaluation, defaults = engine.evaluation, engine.defaults
    return RunPlan.of(request, engine.target, engine.stages, evaluation, engine.budget, defaults)


async def test_what_the_file_says_holds_where_the_request_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, metrics=EXACT, **SETTINGS) as (client, server):
        engine = engine_of(tmp_path / "graph.yaml", "desk")
        silent = planned(engine, RUN)
        result = await ran(client)
        asked = [each.json["messages"][-1]["content"] for each in server.requests]
        await engine.close()
    settings, defaults = silent.settings, silent.defaults
    assert (defaults.seed, defaults.concurrency, settings.repeats) == (7, 3, 2)
    assert defaults.case_policy.time_limit == 20
    assert defaults.case_policy.retry.attempts == 2
    assert (settings.gate, settings.max_rounds_without_acceptance) == ("sigma", 5)
    assert settings.guards.protected == ("exam/exam1",)
    assert settings.guards.floors == {"equality": 0.5}
    assert [hint.case for hint in settings.loss_hints] == ["lessons/lessons0"]
    assert settings.loss_targets == {"equality": "desk/clerk"}
    assert (settings.patch_parallelism, settings.max_rounds) == (1, 1)
    assert asked.count("exam 0?") == 2, "each case is run as often as the file says"
    assert Header.read(folder_of(result)).seed == 7


async def test_what_the_request_says_stands_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"Seed": 8, "Repeats": 1, "Gate": "min_gain", "MetricFloors": {"equality": 0.1}}
    body = {**RUN, "Burnish": options, "EvaluationOptions": {"EvalCaseParallelism": 2}}
    async with served(tmp_path, monkeypatch, metrics=EXACT, **SETTINGS):
        engine = engine_of(tmp_path / "graph.yaml", "desk")
        plan = planned(engine, body)
        await engine.close()
    assert (plan.defaults.seed, plan.defaults.concurrency) == (8, 2)
    assert (plan.settings.repeats, plan.settings.gate) == (1, "min_gain")
    assert plan.settings.guards.floors == {"equality": 0.1}
    assert plan.settings.guards.protected == ("exam/exam1",)


async def test_a_guard_of_the_file_that_no_set_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards = {"guards": {"protected": ["exam7"]}}
    async with served(tmp_path, monkeypatch, metrics=EXACT, optimizer=guards) as (client, _):
        refused = await client.post(f"{BASE}/runs", json={"run": RUN})
    assert refused.status_code == 400
    assert "there is no case of holdout 'exam7'" in refused.json()["error"]


async def test_both_doors_make_the_same_run_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file, one request: at the command line, and over HTTP."""
    more = {
        "metrics_file": "metrics.yaml",
        "judge": judge(),
        "budget": {"max_calls": 60, "max_tokens": 5000, "patience": 4},
        **{key: SETTINGS[key] for key in ("seed", "concurrency", "repeats", "time_limit", "retry")},
        "optimizer": {"gate": "sigma", "candidates_per_round": 2},
    }
    (tmp_path / "metrics.yaml").write_text(json.dumps(EXACT + JUDGED))
    begins = {"SurfaceID": "desk/clerk#instruction", "Value": {"Text": "Answer as before."}}
    profile = {"StructureID": "", "Overrides": [begins]}
    request = {**RUN, "InitialProfile": profile, "MaxRounds": 3, "Burnish": {"MaxCalls": 50}}
    (tmp_path / "request.json").write_text(json.dumps(request))
    async with served(tmp_path, monkeypatch, **more) as (client, _):
        write_set_metrics(tmp_path, OF_THE_SETS)
        command = [sys.executable, "-c", START, "optimize", "graph.yaml", "-o", "cli"]
        process = await asyncio.create_subprocess_exec(
            *command, "--request", "request.json", cwd=tmp_path, env={**os.environ}
        )
        assert await process.wait() == 0
        answered = await client.post(f"{BASE}/runs", json={"run": request})
        assert answered.status_code == 200, answered.text
    folders = tmp_path / "cli", folder_of(answered.json()["result"])
    cli, http = (Header.read(folder) for folder in folders)
    differing = {name for name, each in cli.inputs.items() if http.inputs[name] != each}
    # PromptIter names a case with its set, weighs sets, and has no sealed test.
    assert differing == {"data", "objective", "test repeats"}, "another metric, setting or role"
    for folder, app in zip(folders, ("desk", "desk"), strict=True):
        with look_into(folder) as journal:
            first = next(iter(trial_rows(journal))).trial
        assert first.candidate.values["desk/clerk#instruction"] == "Answer as before."
        (one, *_) = sorted((folder / "evalset_results" / app).glob("*_baseline.*"))
        written = json.loads(one.read_text())
        assert written["evalSetId"] == "exam"
        assert [case["evalId"] for case in written["evalCaseResults"]] == ["exam0", "exam1"]
    assert not (tmp_path / "results").exists(), "a service writes below its data alone"
    assert cli.seed == SETTINGS["seed"]
    assert (cli.seed, cli.strategy, cli.cases) == (http.seed, http.strategy, http.cases)
    assert begun(folders[0])["budget"] == begun(folders[1])["budget"]
    assert begun(folders[0])["budget"] == {"max_calls": 50, "max_tokens": 5000, "patience": 4}
