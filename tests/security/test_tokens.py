"""Tokens: stored as hashes, with scopes, expiry and rotation; who may change whose runs."""

import json
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from burnish.cli.program import app as program
from burnish.core.errors import ConfigError, FileTrouble
from burnish.server import Security, TokenBook, create_app
from burnish.server.tokens import (
    FILE,
    Client,
    ClientLimits,
    ServiceRules,
    TokenFile,
    TokenScope,
    read_tokens,
)
from tests.server.processes import serving
from tests.server.world import RUN, desk_app, listening, manager_of, toy_app

API = "/api/v1"


@dataclass
class Clock:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_rotated_token_and_its_successor_share_an_account(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / FILE
    file = TokenFile(path=path, clock=clock)
    book = TokenBook((), path, ClientLimits(max_runs=2), clock=clock)
    old = file.add("team", limits=ClientLimits(max_usd=3.0))
    new = file.rotate("team", overlap=timedelta(hours=1), expires=timedelta(days=1))
    limits = ClientLimits(max_usd=3.0, max_runs=2)
    both = Client(account="team", scope=TokenScope.RUN, limits=limits)
    assert [book.client_of(each) for each in (old, new, "wrong")] == [both, both, None]
    clock.now += timedelta(hours=2)
    assert [book.client_of(each) for each in (old, new)] == [None, both]
    clock.now += timedelta(days=2)
    assert book.client_of(new) is None
    assert not book.usable
    assert not book.empty, "an expired token would open the service to everybody"
    assert file.revoke("team") == 2
    assert not book.empty


def test_what_is_stored_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / FILE
    token = TokenFile(path=path).add("reader", TokenScope.READ)
    stored = json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()
    book = TokenBook((), path)
    assert book.client_of(stored[0]["sha256"]) is None
    for name in ("reader", "local", "operator", "a b", "../x", "", "x" * 65, "x\n"):
        with pytest.raises(ConfigError):
            TokenFile(path=path).add(name)


def test_tokens_of_an_older_service_still_work(tmp_path: Path) -> None:
    path = tmp_path / FILE
    token = TokenFile(path=path).add("x")
    digest = json.loads(path.read_text())[0]["sha256"]
    path.write_text(json.dumps([{"sha256": digest, "scope": "run", "created_at": "", "name": ""}]))
    client = TokenBook((), path).client_of(token)
    assert client is not None
    assert client.account == f"token-{digest[:8]}"
    assert TokenFile(path=path).revoke(client.account) == 1


def test_the_command_line(tmp_path: Path) -> None:
    run, data = CliRunner(), ["--data", str(tmp_path)]
    token = run.invoke(program, ["tokens", "add", "team", "--max-usd", "2", *data]).output.strip()
    limited = run.invoke(program, ["tokens", "limit", "team", "--max-runs", "3", *data])
    assert "max_usd 2, max_runs 3" in limited.output
    successor = run.invoke(program, ["tokens", "rotate", "team", "--overlap", "1h", *data])
    listed = run.invoke(program, ["tokens", "list", *data]).output
    assert listed.count("team  run") == 2
    assert token not in listed
    assert successor.output.strip() not in listed
    assert "revoked 2" in run.invoke(program, ["tokens", "revoke", "team", *data]).output
    assert "no tokens" in run.invoke(program, ["tokens", "list", *data]).output
    wrong = run.invoke(program, ["tokens", "add", "x", "--expires", "soon", *data])
    assert isinstance(wrong.exception, ConfigError)


def test_a_limit_that_is_gone_is_named_and_the_tokens_stay(tmp_path: Path) -> None:
    path = tmp_path / FILE
    TokenFile(path=path).add("team", limits=ClientLimits(max_calls=3))
    stored = path.read_text().replace('"max_calls": 3', '"max_calls": 3, "per": "day"')
    path.write_text(stored)
    with pytest.raises(FileTrouble, match="limits that no longer exist: per") as told:
        read_tokens(path)
    assert "remove it: limits are totals" in told.value.remedy
    path.write_text(stored.replace('"per"', '"pre"'))
    with pytest.raises(FileTrouble, match="is damaged"):
        read_tokens(path)


@pytest.mark.slow
async def test_scopes_and_owners(tmp_path: Path) -> None:
    path = tmp_path / FILE
    file = TokenFile(path=path)
    reader = file.add("reader", TokenScope.READ)
    mine, other = file.add("mine"), file.add("other")
    admin = file.add("admin", TokenScope.ADMIN)
    security = Security(tokens=TokenBook((), path))
    manager = manager_of(tmp_path, desk_app(tmp_path), toy_app(tmp_path))
    async with listening(create_app(manager, security=security)) as client:

        async def status(token: str, method: str, where: str, **more: object) -> int:
            answer = await client.request(method, where, headers=bearer(token), **more)  # pyright: ignore[reportArgumentType]
            return answer.status_code

        assert (await client.get(f"{API}/health")).status_code == 200
        stranger = await client.get(f"{API}/ready")
        assert (stranger.status_code, stranger.json()["apps"]) == (200, [])
        assert (await client.get(f"{API}/ready", headers=bearer(reader))).json()["apps"]
        assert (await client.get(f"{API}/account")).status_code == 401
        new = {"id": "r", "settings": {"max_trials": 1}}
        runs, run = f"{API}/apps/toy/runs", f"{API}/apps/toy/runs/r"
        assert await status(reader, "POST", runs, json=new) == 403
        assert await status(mine, "POST", runs, json=new) == 201
        await manager.wait("toy", "r")
        for method, where in (
            ("POST", f"{run}/cancel"),
            ("POST", f"{run}/resume"),
            ("DELETE", run),
        ):
            assert await status(other, method, where) == 403, where
        iterated = await client.post(
            "/promptiter/v1/apps/desk/async-runs", json={"run": RUN}, headers=bearer(mine)
        )
        place = f"/promptiter/v1/apps/desk/async-runs/{iterated.json()['result']['ID']}"
        foreign = await client.post(f"{place}/cancel", headers=bearer(other))
        assert foreign.status_code == 403
        assert "another token" in foreign.json()["error"]
        dataset, case = f"{API}/datasets/a.jsonl", b'{"input": "a"}\n'
        assert await status(mine, "PUT", dataset, content=case) == 201
        assert await status(other, "PUT", dataset, content=case) == 403
        assert await status(other, "DELETE", dataset) == 403
        assert await status(mine, "PUT", dataset, content=case) == 201
        assert await status(admin, "DELETE", dataset) == 204
        assert await status(admin, "DELETE", run) == 204
        file.revoke("mine")  # while the service runs
        assert await status(mine, "GET", f"{API}/runs") == 401


@pytest.mark.slow
def test_a_service_that_others_reach_demands_a_token_and_says_its_rules(tmp_path: Path) -> None:
    refused = CliRunner().invoke(program, ["serve", "--host", "0.0.0.0", "--data", str(tmp_path)])
    assert isinstance(refused.exception, ConfigError)
    assert "no token would be required" in str(refused.exception)
    token = "the-operator-s-own-token"
    arguments = (
        "--data",
        "results/service",
        "--token",
        token,
        "--allow",
        "models",
        "--max-usd",
        "2",
    )
    with serving(tmp_path, *arguments) as process:
        stdout = process.process.stdout
        assert stdout is not None
        said = [stdout.readline().strip() for _ in range(4)]
        assert said == [
            "a token is required",
            "requests may name: models",
            "limits of each token: max_usd 2",
            "role: both, 4 runs at once",
        ]
        rules = ServiceRules.read(tmp_path / "results" / "service")
        assert rules is not None
        assert rules.lines() == said
        answer = httpx.get(f"{process.client.base_url}account", headers=bearer(token))
        assert (answer.json()["name"], answer.json()["scope"]) == ("operator", "admin")
