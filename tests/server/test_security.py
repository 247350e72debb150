"""Who is let in, and what nobody can ask for."""

import json
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from burnish.core.errors import BurnishError, ConfigError
from burnish.models.references import is_loopback
from burnish.server import Security, TokenBook, create_app
from burnish.server.manager import ServiceLimits
from burnish.server.security import name_of
from burnish.server.service import Serving
from burnish.server.tokens import FILE, TokenFile, TokenScope
from tests.server.world import listening, manager_of

API = "/api/v1"
SEED = "/promptiter/v1/apps/desk/structure"


@pytest.mark.slow
async def test_no_web_page_reaches_a_loopback_service(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        port = client.base_url.port
        run = f"{API}/apps/toy/runs"
        rebound = await client.post(run, headers={"host": f"evil.example:{port}"}, json={})
        foreign = await client.post(run, headers={"origin": "http://evil.example"}, json={})
        null = await client.get(SEED, headers={"origin": "null"})
        same = await client.get(SEED, headers={"origin": f"http://127.0.0.1:{port}"})
        preflight = await client.options(
            run, headers={"origin": "http://evil.example", "access-control-request-method": "POST"}
        )
        listed = (await client.get(f"{API}/runs", headers={"host": "localhost"})).json()
    assert (rebound.status_code, rebound.json()["error"]["code"]) == (403, "foreign_host")
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "foreign_origin")
    assert (null.status_code, null.json()) == (
        403,
        {"error": "pages of this origin are not allowed"},
    )
    assert same.status_code == 200
    assert preflight.status_code == 403
    assert listed["runs"] == [], "a page started a run"
    for answer in (rebound, foreign, null, same, preflight):
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.slow
async def test_an_allowed_origin(tmp_path: Path) -> None:
    friend = "https://friend.example"
    security = Security(origins=frozenset({friend}))
    async with listening(create_app(manager_of(tmp_path), security=security)) as client:
        asked = {"origin": friend, "access-control-request-method": "POST"}
        preflight = await client.options(f"{API}/apps/toy/runs", headers=asked)
        answer = await client.get(SEED, headers={"origin": friend})
    assert preflight.status_code == 204
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-origin"] == friend


@pytest.mark.slow
async def test_tokens_and_their_scopes(tmp_path: Path) -> None:
    path = tmp_path / FILE
    reader = TokenFile(path=path).add("reader", TokenScope.READ)
    book = TokenBook(("a-long-secret-of-the-operator",), path)
    app = create_app(manager_of(tmp_path), security=Security(tokens=book))
    async with listening(app) as client:

        async def status(token: str, method: str = "GET", where: str = f"{API}/runs") -> int:
            headers = {"authorization": token} if token else {}
            return (await client.request(method, where, headers=headers)).status_code

        runner = TokenFile(path=path).add("runner")  # while the service runs
        assert [await status(token) for token in ("", "Bearer x", f"Basic {reader}")] == [401] * 3
        assert [await status(f"Bearer {each}") for each in (reader, runner)] == [200] * 2
        assert await status("Bearer a-long-secret-of-the-operator") == 200
        cancel = f"{API}/apps/toy/runs/x/cancel"
        assert await status(f"Bearer {reader}", "POST", cancel) == 403
        assert await status(f"bearer {runner}", "POST", cancel) == 404
        assert await status("", where=SEED) == 401
        assert await status("", where=f"{API}/health") == 200
        assert await status("", where=f"{API}/metrics") == 401
        asked = await client.get(f"{API}/runs")
    assert asked.headers["www-authenticate"] == "Bearer"
    assert reader not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each["scope"] for each in json.loads(path.read_text())] == ["read", "run"]


@pytest.mark.slow
async def test_large_bodies_are_refused(tmp_path: Path) -> None:
    limits = ServiceLimits(body_bytes=1000)

    async def parts() -> AsyncGenerator[bytes, None]:
        for _ in range(10):
            yield b"x" * 200

    async with listening(create_app(manager_of(tmp_path, limits=limits))) as client:
        said = await client.post(f"{API}/apps/toy/runs", content=b"x" * 1001)
        unsaid = await client.put(f"{API}/datasets/a.jsonl", content=parts())
        seed = await client.post("/promptiter/v1/apps/desk/runs", content=b"x" * 1001)
        whole = await client.put(f"{API}/datasets/a.jsonl", content=b'{"input": "a"}\n')
    assert [said.status_code, unsaid.status_code, seed.status_code] == [413] * 3
    assert seed.json() == {"error": "request body too large"}
    assert whole.status_code == 201


@pytest.mark.slow
async def test_no_path_leads_out_of_the_data_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"input": "secret"}\n')
    async with listening(create_app(manager_of(tmp_path))) as client:
        new = {"id": "r", "settings": {"max_trials": 1}}
        place = (await client.post(f"{API}/apps/toy/runs", json=new)).headers["location"]
        await client.get(f"{place}/stream")
        folder = tmp_path / "data" / "runs" / "toy" / "r"
        (folder / "link").symlink_to(secret)
        (tmp_path / "data" / "datasets").mkdir()
        (tmp_path / "data" / "datasets" / "link.jsonl").symlink_to(secret)
        tried = [
            f"{place}/files/..%2F..%2F..%2F..%2Fsecret.jsonl",
            f"{place}/files/{secret}",
            f"{place}/files/link",
            f"{place}/files/journal.db",
            f"{place}/files/%00",
            f"{API}/datasets/..%2F..%2Fsecret.jsonl",
            f"{API}/datasets/link.jsonl",
            f"{API}/apps/..%2Ftoy/runs/r",
            f"{API}/apps/toy/runs/..%2Fr/files",
        ]
        for address in tried:
            answer = await client.get(address)
            assert answer.status_code in (404, 422), (address, answer.status_code)
            assert "secret" not in answer.text.replace("secret.jsonl", "")


def test_other_addresses_demand_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        with pytest.raises(ConfigError, match="token"):
            Serving(apps={}, data=tmp_path, host=host).security()
    open_to_all = Serving(apps={}, data=tmp_path, host="0.0.0.0", tokens=("x" * 20,)).security()
    assert open_to_all.tokens is not None
    TokenFile(path=tmp_path / FILE).add("runner")
    assert Serving(apps={}, data=tmp_path, host="::").security().tokens is not None
    assert Serving(apps={}, data=tmp_path / "other").security().tokens is None
    with pytest.raises(ConfigError, match="16 characters"):
        TokenBook(("short",))


def test_names_of_hosts() -> None:
    assert [name_of(h) for h in ("LocalHost:80", "[::1]:80", "a.b", "::1")] == [
        "localhost", "::1", "a.b", "::1",
    ]  # fmt: skip
    loopback = ["127.0.0.1", "127.8.8.8", "::1", "localhost"]
    assert [is_loopback(h) for h in [*loopback, "10.0.0.1", "evil"]] == [True] * 4 + [False] * 2


def test_a_damaged_file_of_tokens_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(BurnishError, match="damaged"):
        TokenBook((), tmp_path / FILE)
