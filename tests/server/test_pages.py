"""The pages of the service over HTTP: who gets in, what is shown, who may start and stop."""

import asyncio
import html
import json
import re
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from burnish.pages.document import Place as PagePlace
from burnish.pages.served import ServedPages
from burnish.runs.directory import LOCK
from burnish.runs.stoppers import STOP_FILE
from burnish.server import Datasets, FileApp, Security, TokenBook, create_app
from burnish.server.guards import HOURS, Sessions
from burnish.server.library import ServiceLibrary
from burnish.server.stores import RunStatus
from burnish.server.stores.records import StoredRun
from burnish.server.tokens import FILE, ClientLimits, TokenFile, TokenScope
from burnish.system import FileLock
from tests.delegation.refine.refining_world import Place
from tests.delegation.refine.run_folders import plain_run
from tests.server.guests import HTML, Guest, house, token_in
from tests.server.world import Door, knocked, listening, manager_of, until

pytest.importorskip("jinja2", reason="pages need the extra `view`")
pytest.importorskip("plotly", reason="pages need the extra `view`")
pytestmark = pytest.mark.slow

RUN = "/runs/toy/r"


async def test_a_stranger_is_sent_to_the_form_and_a_program_is_told(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest = home.guest()
        page = await guest.get(RUN)
        assert (page.status_code, page.headers["location"]) == (303, "/login?to=runs%2Ftoy%2Fr")
        program = await home.client.get("/")
        assert (program.status_code, program.json()["error"]["code"]) == (401, "unauthorized")
        with_token = {"Authorization": "Bearer a-long-secret-of-the-operator", **HTML}
        assert (await home.client.get("/", headers=with_token)).status_code == 404
        form = await guest.get("/login?to=runs/toy/r")
        assert 'value="runs/toy/r"' in form.text
        assert (await guest.get("/static/page.js")).status_code == 200
        assert (await guest.get("/static/other.js")).status_code == 404
        wrong = await guest.log_in("bt_not-a-token-of-anybody")
        assert wrong.status_code == 403
        assert "unknown, or it has expired" in wrong.text
        assert "set-cookie" not in wrong.headers


async def test_a_session_is_a_cookie_that_only_pages_look_at(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest, token = home.guest(), home.tokens.add("team")
        answer = await guest.log_in(token, to="runs/toy/r")
        assert answer.headers["location"] == "/runs/toy/r"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        assert token not in cookie
        assert (await guest.log_in(token, to="//evil.example")).headers["location"] == "/"
        page = await guest.get("/")
        assert page.status_code == 200
        assert "team (run)" in page.text
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert page.headers["referrer-policy"] == "same-origin"
        assert (await guest.get("/api/v1/runs")).status_code == 401
        assert (await guest.get("/login")).status_code == 303, "nobody logs in twice"
        assert (await guest.post("/logout", token="guess")).status_code == 403
        assert (await guest.send("/logout", "/")).status_code == 303
        assert (await guest.get("/")).status_code == 303


async def test_a_revoked_token_ends_its_sessions(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest = await home.known("team")
        assert (await guest.get("/")).status_code == 200
        home.tokens.revoke("team")
        assert (await guest.get("/")).status_code == 303


def test_a_session_ends_after_some_hours(tmp_path: Path) -> None:
    now = [0.0]
    book = TokenBook(("a-long-secret-of-the-operator",), tmp_path / FILE)
    sessions = Sessions(Security(tokens=book), clock=lambda: now[0])
    key = sessions.log_in("a-long-secret-of-the-operator")
    scope = {"server": ("127.0.0.1", 8080)}
    cookie = f"other={{x}}; burnish_8080={key}"
    assert sessions.visitor(scope, cookie) is not None
    assert sessions.visitor({"server": ("127.0.0.1", 8081)}, cookie) is None
    now[0] = HOURS * 3600
    assert sessions.visitor(scope, cookie) is None
    now[0] = 0.0
    assert sessions.visitor(scope, cookie) is None, "an ended session stays ended"


async def test_a_run_is_started_watched_and_shown(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest = await home.known("team")
        form = {"app": "toy", "kind": "optimize", "id": "r", "max_trials": "3"}
        started = await guest.send("/start", "/start", **form)
        assert (started.status_code, started.headers["location"]) == (303, f"{RUN}?done=start")
        heard = await guest.get(f"{RUN}/live")
        assert heard.headers["content-type"].startswith("text/event-stream")
        assert heard.text.endswith("event: ended\ndata: 1\n\n")
        assert "event: changed" in heard.text
        await until(home.manager, "toy", "r", RunStatus.SUCCEEDED)
        page = (await guest.get(RUN)).text
        assert 'id="verdict"' in page
        assert "data-live" not in page
        assert "Resume it" not in page, "its sealed test is read"
        assert f"{RUN}/trials/1" in page
        assert (await guest.get(f"{RUN}/trials/1")).status_code == 200
        assert (await guest.get(f"{RUN}/trials")).status_code == 200
        report = await guest.get(f"{RUN}/report.html")
        assert "attachment" in report.headers["content-disposition"]
        runs = (await guest.get("/?find=toy&status=succeeded")).text
        assert f'href="{RUN}"' in runs
        assert "No run fits" in (await guest.get("/?status=failed")).text
        for shown in (page, runs, report.text):
            assert str(tmp_path) not in shown
        for path in ("/runs/toy/none", "/runs/toy", "/runs/..%2F..%2Fetc/passwd", f"{RUN}/nothing"):
            lost = await guest.get(path)
            assert lost.status_code == 404, path
            assert "text/html" in lost.headers["content-type"]


async def test_measurements_that_are_compared_are_columns_of_a_grid(tmp_path: Path) -> None:
    (tmp_path / "echoed_agent.py").write_text(
        "async def answer(question: str) -> str:\n    return question\n"
    )
    file = tmp_path / "echo.yaml"
    file.write_text(
        "kind: python\ntarget: {call: 'echoed_agent:answer', usd_per_call: 0}\n"
        "cases: cases.jsonl\nmetrics: [{type: standard, metric: equality}]\n"
    )
    (tmp_path / "cases.jsonl").write_text('{"input": "a", "ground_truth": "a"}\n')
    datasets = Datasets(folder=tmp_path / "data" / "datasets")
    manager = manager_of(tmp_path, FileApp(name="echo", path=file, datasets=datasets))
    async with listening(create_app(manager)) as client:
        for name in ("first", "second"):
            await client.post("/api/v1/evaluations", json={"app": "echo", "id": name})
            await until(manager, "echo", name, RunStatus.SUCCEEDED)
        marked = {"run": ["echo/first", "echo/second"]}
        page = (await client.get("/compare", params=marked, headers=HTML)).text
    assert "2 columns over 1 case" in page
    assert "95 % interval" in page
    assert str(tmp_path) not in page


async def test_what_cannot_be_started_is_said_in_the_form(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest = await home.known("team")
        for change, words in (
            ({"max_trials": "many"}, "is no number"),
            ({"max_trials": "-3"}, "max_trials"),
            ({"id": "../up"}, "cannot name a run"),
        ):
            form = {"app": "toy", "kind": "optimize", "id": "mine", **change}
            answer = await guest.send("/start", "/start", **form)
            assert answer.status_code == 422
            assert words in answer.text
        assert (await guest.send("/start", "/start", app="none")).status_code == 404
        assert (await home.manager.list_runs()).runs == ()


async def test_stop_and_resume_with_more_budget(tmp_path: Path) -> None:
    door = Door()
    async with house(tmp_path, door) as home:
        guest, other = await home.known("team"), await home.known("others")
        await guest.send("/start", "/start", app="toy", kind="optimize", id="r", max_trials="4")
        await knocked(door)
        shown = (await guest.get(RUN)).text
        assert "Stop this run" in shown
        assert "Nothing is measured yet" in shown
        foreign = (await other.get(RUN)).text
        assert "Stop this run" not in foreign
        assert "belongs to another token" in foreign
        assert (await other.send(f"{RUN}/stop", "/start")).status_code == 403
        assert (await guest.send(f"{RUN}/resume", RUN, max_trials="6")).status_code == 409
        stopped = await guest.send(f"{RUN}/stop", RUN)
        assert stopped.headers["location"] == f"{RUN}?done=stop"
        await until(home.manager, "toy", "r", RunStatus.CANCELED)
        page = (await guest.get(f"{RUN}?done=stop")).text
        assert "Resume it" in page
        assert "killed" not in page, "the service knows better"
        assert "Stop this run" not in page
        assert (await guest.send(f"{RUN}/stop", "/start")).status_code == 409
        door.open.set()
        resumed = await guest.send(f"{RUN}/resume", RUN, max_trials="99")
        assert resumed.headers["location"] == f"{RUN}?done=resume"
        ended = await until(home.manager, "toy", "r", RunStatus.SUCCEEDED)
        assert isinstance(ended.request, dict)
        settings, spec = ended.request["settings"], ended.request["spec"]
        assert settings == {"max_trials": 99}
        assert isinstance(spec, dict)
        assert isinstance(spec["budget"], dict)
        assert spec["budget"]["max_trials"] == 8, "the limit of the file holds"
        assert ended.current_round == 8


async def test_a_token_for_reading_sees_no_buttons_and_may_send_nothing(tmp_path: Path) -> None:
    door = Door()
    async with house(tmp_path, door) as home:
        await home.manager.start("toy", {}, run_id="r")
        await knocked(door)
        reader = await home.known("reader", TokenScope.READ)
        page = (await reader.get(RUN)).text
        for words in ("Stop this run", "Resume it", "Start a run"):
            assert words not in page
        assert (await reader.get("/start")).status_code == 403
        below = f"{RUN}/refinements/any"
        for path in (
            *("/start", f"{RUN}/stop", f"{RUN}/resume", f"{RUN}/refine", f"{RUN}/adopt"),
            *(f"{RUN}/undo", f"{RUN}/tags", f"{below}/stop", f"{below}/resume"),
        ):
            answer = await reader.post(path, token=token_in(page), app="toy")
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only")
        assert (await reader.post("/logout", token=token_in(page))).status_code == 303
        assert not (await home.manager.get("toy", "r")).cancel_requested
        await home.manager.cancel("toy", "r")


async def test_forms_of_other_pages_change_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest, second = await home.known("team"), await home.known("second")
        token = token_in((await guest.get("/start")).text)
        for sent in ("", "guess", token_in((await second.get("/start")).text)):
            answer = await guest.post("/start", token=sent, app="toy")
            assert answer.status_code == 403
            assert "not from a page of your session" in answer.text
        cookie = "; ".join(f"{k}={v}" for k, v in guest.cookies.items())
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        ):
            form = {"token": token, "app": "toy"}
            answer = await home.client.post(
                "/start", data=form, headers={**headers, "Cookie": cookie}
            )
            assert answer.status_code == 403
        large = await guest.post("/login", key="x" * 70_000)
        assert large.status_code == 413
        assert (await home.manager.list_runs()).runs == ()


async def test_without_tokens_nobody_logs_in(tmp_path: Path) -> None:
    security = Security(limits=ClientLimits(max_runs=1))
    async with listening(create_app(manager_of(tmp_path), security=security)) as client:
        guest = Guest(client)
        page = await guest.get("/")
        assert page.status_code == 200
        assert "Log out" not in page.text
        assert (await guest.get("/login")).headers["location"] == "/"
        assert (await guest.post("/start", app="toy")).status_code == 403
        started = await guest.send("/start", "/start", app="toy", id="r", max_trials="2")
        assert started.status_code == 303


async def test_a_run_that_waits_or_never_began_has_a_page(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest = await home.known("team", TokenScope.ADMIN)
        await home.manager.store.create("gone", "r", strategy="climb", request={})
        page = (await guest.get("/runs/gone/r")).text
        assert "Nothing is measured yet" in page
        assert 'data-live="/runs/gone/r/live?after=0"' in page
        assert 'href="/runs/gone/r"' in (await guest.get("/")).text
        await guest.send("/runs/gone/r/stop", "/start")
        assert "ended before anything was measured" in (await guest.get("/runs/gone/r")).text


async def test_a_delegation_is_refined_from_its_page(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest, other = await home.known("team"), await home.known("other")
        await guest.send("/start", "/start", app="toy", id="r", max_trials="2")
        record = await until(home.manager, "toy", "r", RunStatus.SUCCEEDED)
        assert "Refine the result" not in (await guest.get(RUN)).text, "it is no delegation"
        answer = await guest.send(f"{RUN}/refine", "/start")
        assert (answer.status_code, "has no run_completion.json" in answer.text) == (409, True)
        plain_run(home.manager.places.of(record).folder, defects=())
        assert "Refine the result" in (await guest.get(RUN)).text
        assert "Refine the result" not in (await other.get(RUN)).text
        assert (await other.send(f"{RUN}/refine", "/start")).status_code == 403
        for text, words in (("many", "is no number"), ("99", "iterations")):
            wrong = await guest.send(f"{RUN}/refine", RUN, iterations=text)
            assert (wrong.status_code, words in wrong.text) == (422, True)
        started = await guest.send(f"{RUN}/refine", RUN, iterations="1")
        assert started.headers["location"] == f"{RUN}?done=refine"
        assert "The refinement is started." in (await guest.get(f"{RUN}?done=refine")).text
        async with asyncio.timeout(120):
            while True:
                page = (await guest.get(RUN)).text
                if "empty_gradient" in page and "Refine the result" in page:
                    break  # it is over, and can be refined again
                await asyncio.sleep(0.01)
        (file,) = home.manager.places.of(record).folder.glob("refinement_sessions/*_*.json")
        fields = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**fields, "stop_reason": "interrupted"}), encoding="utf-8")
        below = f"{RUN}/refinements/{file.stem}"
        await until(home.manager, "refinements", file.stem, RunStatus.SUCCEEDED)
        assert "iterations at most" in (await guest.get(below)).text
        wrong = await guest.send(f"{below}/resume", below, iterations="99")
        assert (wrong.status_code, "iterations" in wrong.text) == (422, True)
        resumed = await guest.send(f"{below}/resume", below, iterations="4")
        assert resumed.headers["location"] == f"{below}?done=resume"
        ended = await until(home.manager, "refinements", file.stem, RunStatus.SUCCEEDED)
        assert isinstance(ended.result, dict)
        assert ended.result["resumed_with"] == {"iterations": 4}
        assert "empty_gradient" in file.read_text(encoding="utf-8")
        listed = (await guest.get("/")).text
        assert listed.count(f">{file.stem}</a>") == 1, "with the run that it refines, only there"
        assert f'href="{below}"' in listed
        assert "of 1 run<" in listed
        assert f'href="{below}"' in (await guest.get(f"/?find={file.stem}")).text
        fields = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**fields, "stop_reason": "max_iterations"}), encoding="utf-8")
        at_limit = (await guest.get(below)).text
        assert "It has ended at a limit: set a higher one. It may have 4 now" in at_limit
        assert "Resume it" not in (await other.get(below)).text
        same = await guest.send(f"{below}/resume", below, iterations="4")
        assert (same.status_code, "no unfinished session" in same.text) == (409, True)


async def test_a_refinement_has_its_own_page_below_its_run(tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    await asyncio.to_thread(place.make_seed)
    await asyncio.to_thread(place.refine)
    name = place.session()["session_id"]
    page = f"{RUN}/refinements/{name}"
    async with house(tmp_path) as home:
        guest, other = await home.known("team"), await home.known("other")
        await guest.send("/start", "/start", app="toy", id="r", max_trials="2")
        record = await until(home.manager, "toy", "r", RunStatus.SUCCEEDED)
        folder = plain_run(home.manager.places.of(record).folder)
        shutil.copytree(place.seed / "refinement_sessions", folder / "refinement_sessions")
        for listed in ((await guest.get("/")).text, (await guest.get(RUN)).text):
            assert f'href="{page}"' in listed
        shown = (await other.get(page)).text
        assert "What each iteration was told" in shown
        assert f'href="{RUN}"' in shown
        assert "Stop this run" not in shown
        assert str(tmp_path) not in shown
        assert (await guest.get(f"{page}/trials/1")).status_code == 200
        assert (await guest.get(f"{page}/live")).text.endswith("event: ended\ndata: 1\n\n")
        for lost in (f"{RUN}/refinements/none", f"{RUN}/refinements/"):
            assert (await guest.get(lost)).status_code == 404
        assert (await guest.get(f"{RUN}/refinements/none/live")).status_code == 404
        session = folder / "refinement_sessions" / name
        with FileLock.acquire(session / LOCK, holding="the refinement"):
            goes_on = (await guest.get(page)).text
            assert f'data-live="{page}/live' in goes_on
            assert "Stop this run" in goes_on
            assert "Stop this run" not in (await other.get(page)).text
            assert (await other.send(f"{page}/stop", "/start")).status_code == 403
            assert not (session / STOP_FILE).exists()
            answer = await guest.send(f"{page}/stop", page)
            assert answer.headers["location"] == f"{page}?done=stop"
            assert (session / STOP_FILE).exists()
        (session / STOP_FILE).unlink()
        assert "It may have 3 now, and 10 at most" in (await guest.get(page)).text
        file = session.with_suffix(".json")
        fields = {**json.loads(file.read_text(encoding="utf-8")), "stop_reason": "plateau"}
        ended = json.dumps(fields)
        file.write_text(ended, encoding="utf-8")
        assert "Resume it" not in (await guest.get(page)).text, "it has ended"
        fields = {**json.loads(ended), "stop_reason": "running"}
        file.write_text(json.dumps(fields), encoding="utf-8")
        for each in (page, RUN):
            assert "Refine the result" not in (await other.get(each)).text
        assert "Resume it" in (await guest.get(page)).text, "it was killed"
        assert "Resume it" not in (await other.get(page)).text
        assert "Refine the result" in (await guest.get(RUN)).text, "a killed one blocks no other"
        assert (await other.send(f"{page}/resume", "/start")).status_code == 403
        file.write_text(ended, encoding="utf-8")
        over = await guest.send(f"{page}/resume", "/start")
        assert (over.status_code, "no unfinished session" in over.text) == (409, True)
        for path in ("/experiments", "/policy"):
            assert (await guest.get(path)).status_code == 404, "they are the operator's"


async def test_no_page_that_links_lead_to_names_a_folder_of_the_host(tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    await asyncio.to_thread(place.make_seed)
    await asyncio.to_thread(place.refine)
    async with house(tmp_path) as home:
        guest = await home.known("team")
        for name in ("r", "s"):
            await guest.send("/start", "/start", app="toy", id=name, max_trials="2")
            record = await until(home.manager, "toy", name, RunStatus.SUCCEEDED)
        folder = plain_run(home.manager.places.of(record).folder)
        shutil.copytree(place.seed / "refinement_sessions", folder / "refinement_sessions")
        await home.manager.store.create("gone", "lost", strategy="climb", request={})
        seen: dict[str, str] = {}
        waiting = ["/", "/compare?run=toy/r&run=toy/s", "/nowhere", f"{RUN}/cases", f"{RUN}/trials"]
        while waiting:
            path = waiting.pop()
            page = (await guest.get(path)).text
            seen[path] = page
            links = re.findall(r'(?:href|data-src)="(/[^"]*)"', page)
            inside = {html.unescape(link).partition("#")[0] for link in links} - {*seen, *waiting}
            waiting += sorted(each for each in inside if not each.startswith("/static/"))
    kinds = ("/start", "/runs/toy/r", "/cases/train/", "/trials/1", "/report.html", "/refinements/")
    for kind in kinds:
        assert any(kind in path for path in seen), f"{kind} is not among {sorted(seen)}"
    assert [path for path, page in seen.items() if str(tmp_path) in page] == []


async def test_a_long_list_leads_on_to_older_runs(tmp_path: Path) -> None:
    async with manager_of(tmp_path) as manager:
        for name in ("a", "b", "c", "d", "e"):
            await manager.store.create("gone", name, strategy="climb", request={})
        library = ServiceLibrary(manager, asyncio.get_running_loop(), listed=2)
        pages = ServedPages(library=library, place=PagePlace(alone=False))
        seen: list[list[str]] = []
        query: dict[str, list[str]] = {}
        while True:
            page = await asyncio.to_thread(pages.runs, query)
            seen.append(re.findall(r'href="/runs/gone/(.)"', page))
            link = re.search(r'href="\?([^"]+)" rel="next"', page)
            if link is None:
                break
            query = parse_qs(link[1])
        assert seen == [["e", "d"], ["c", "b"], ["a"]]
        nothing = await asyncio.to_thread(pages.runs, {"status": ["failed"]})
        assert "No run fits" in nothing
        assert "status=failed&amp;after=" in nothing, "older runs may fit"


async def test_the_page_of_a_run_that_nobody_drives_yet_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as home:
        guest = await home.known("team")
        await guest.send("/start", "/start", app="toy", id="r", max_trials="2")
        await until(home.manager, "toy", "r", RunStatus.SUCCEEDED)
        found = ServiceLibrary.stored

        def resumed(library: ServiceLibrary, key: str, *, result: bool = False) -> StoredRun:
            return replace(found(library, key, result=result), status=RunStatus.QUEUED)

        monkeypatch.setattr(ServiceLibrary, "stored", resumed)
        page = (await guest.get(RUN)).text
        assert 'id="verdict"' in page
        assert f'data-live="{RUN}/live?after=' in page


async def test_mounted_elsewhere_the_addresses_are_there(tmp_path: Path) -> None:
    from fastapi import FastAPI

    tokens = TokenFile(path=tmp_path / FILE)
    token = tokens.add("team")
    manager = manager_of(tmp_path)
    own = FastAPI()
    own.mount("/burnish", create_app(manager, security=Security(tokens=TokenBook((), tokens.path))))
    async with manager, listening(own) as client:
        guest = Guest(client)
        assert (await guest.get("/burnish/")).headers["location"] == "/burnish/login"
        answer = await guest.post("/burnish/login", key=token)
        assert answer.headers["location"] == "/burnish/"
        assert "Path=/burnish/;" in answer.headers["set-cookie"]
        guest.cookies = dict([answer.headers["set-cookie"].partition(";")[0].split("=", 1)])
        assert 'href="/burnish/static/page.css"' in (await guest.get("/burnish/")).text
        assert (await guest.get("/burnish/static/page.css")).status_code == 200


async def test_a_token_that_expires_while_somebody_looks(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        guest = home.guest()
        await guest.log_in(home.tokens.add("short", expires=timedelta(days=1)))
        home.tokens.rotate("short", overlap=timedelta(0))
        assert (await guest.get("/")).status_code == 303
