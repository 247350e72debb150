"""Requests with very many settings that nothing knows, on a real socket."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from burnish.server import create_app
from tests.server.world import RUN, listening, manager_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]
API = "/api/v1"
TOO_MANY = "keys; a block of settings has at most 1,000"
MOST_BYTES = 3_000
"""Of an answer, whatever was sent."""


def unknown(count: int) -> dict[str, Any]:
    return {f"unknown_setting_{n}": 1 for n in range(count)}


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (f"{API}/apps/toy/runs", {"settings": unknown(20_000)}),
    (f"{API}/apps/toy/runs", unknown(20_000)),
    (f"{API}/apps/toy/runs", {"kind": "evaluate", "evaluation": unknown(20_000)}),
    (f"{API}/apps/desk/runs", {"kind": "promptiter", "promptiter": {**RUN, **unknown(20_000)}}),
    (f"{API}/evaluations", {"app": "toy", "settings": unknown(20_000)}),
    (f"{API}/grids", {"app": "toy", "values": unknown(20_000)}),
    ("/api/experiments/x/refine", unknown(20_000)),
    ("/promptiter/v1/apps/desk/async-runs", {"run": {**RUN, **unknown(20_000)}}),
    ("/promptiter/v1/apps/desk/async-runs", {"run": {**RUN, "burnish": unknown(20_000)}}),
    ("/promptiter/v1/apps/desk/async-runs", {"run": RUN, **unknown(20_000)}),
]


async def test_a_flood_of_unknown_settings_is_refused_in_few_words(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        for path, body in REQUESTS:
            answer, health = await asyncio.gather(
                client.post(path, json=body), client.get(f"{API}/health")
            )
            assert answer.status_code == (400 if "promptiter/v1" in path else 422), answer.text
            assert TOO_MANY in answer.text, (path, answer.text)
            assert len(answer.content) < MOST_BYTES, path
            assert health.status_code == 200


async def test_some_unknown_settings_are_named_and_the_others_counted(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        for body in ({"settings": unknown(900)}, {"evaluation": unknown(900)}, unknown(900)):
            answer = await client.post(f"{API}/apps/toy/runs", json=body)
            problems = answer.json()["error"]["problems"]
            assert answer.status_code == 422
            assert len(problems) == 11
            assert all("unknown_setting_" in each["where"] for each in problems[:10])
            assert problems[10]["message"] == "and 890 more problems"
        refined = await client.post("/api/experiments/x/refine", json={"x": 1, **unknown(3)})
        long = await client.post(f"{API}/apps/toy/runs", json={"k" * 1_000_000: 1})
    assert refined.status_code == 404
    assert (long.status_code, len(long.content) < MOST_BYTES) == (422, True)


async def test_ignored_fields_are_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "burnish.server")
    async with listening(create_app(manager_of(tmp_path))) as client:
        for body in ({"run": {**RUN, **unknown(900)}}, {"run": RUN, **unknown(900)}):
            caplog.clear()
            answer = await client.post("/promptiter/v1/apps/desk/async-runs", json=body)
            assert answer.status_code in (201, 429)
            (line,) = [each.getMessage() for each in caplog.records if "unknown" in each.message]
            assert "'unknown_setting_9' and 890 more" in line
            assert "unknown_setting_10'" not in line
            assert len(line) < 600
