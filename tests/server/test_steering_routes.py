"""Steering the runs of a service: over HTTP, and from their pages."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.journal.database_store import DatabaseJournals
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord
from burnish.runs.events import Steered, read_all
from burnish.server import RunManager, Security, TokenBook, create_app
from burnish.server.runs import NotHere, RunPlaces
from burnish.server.stores import RunStatus, StoredRun
from burnish.server.stores.records import Where
from burnish.server.tokens import FILE, TokenFile, TokenScope
from burnish.system.databases import DatabaseUrl
from tests.compat.promptiter.desk import CITE, PLAN, WRITE
from tests.server.guests import Guest, token_in
from tests.server.world import RUN, Door, desk_app, knocked, listening, manager_of, until

pytestmark = pytest.mark.slow
PLACE = "/api/v1/apps/desk/runs/mine"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A run that stands before a door, and people with tokens."""

    client: httpx.AsyncClient
    manager: RunManager
    tokens: dict[str, str]
    door: Door

    async def send(self, who: str, action: str, **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        return await self.client.post(f"{PLACE}/{action}", json=body, headers=headers)

    async def ended(self) -> list[Steered]:
        """Let the run go on to its end; the notes that it took in or refused."""
        self.door.open.set()
        run = await until(self.manager, "desk", "mine", RunStatus.SUCCEEDED)
        return [*read_all(RunRecord.read(Path(run.where.folder)).events, Steered)]


@asynccontextmanager
async def run_at_a_door(tmp_path: Path) -> AsyncGenerator[Waiting, None]:
    """Ada has started a run over two instructions; it waits in its first measurement."""
    file, door = TokenFile(path=tmp_path / FILE), Door()
    people = {"ada": TokenScope.RUN, "bob": TokenScope.RUN, "eve": TokenScope.READ}
    tokens = {name: file.add(name, scope) for name, scope in people.items()}
    manager = manager_of(tmp_path, desk_app(tmp_path, door))
    book = TokenBook(("a-long-secret-of-the-operator",), file.path)
    async with listening(create_app(manager, security=Security(tokens=book))) as client:
        home = Waiting(client=client, manager=manager, tokens=tokens, door=door)
        request = {**RUN, "TargetSurfaceIDs": [PLAN, WRITE]}
        body = {"id": "mine", "kind": "promptiter", "promptiter": request}
        headers = {"Authorization": f"Bearer {tokens['ada']}"}
        made = await client.post("/api/v1/apps/desk/runs", json=body, headers=headers)
        assert made.status_code == 201, made.text
        await knocked(door)
        try:
            yield home
        finally:
            door.open.set()


async def test_notes_over_http_carry_the_name_of_the_token(tmp_path: Path) -> None:
    own = f"Write the answer. {CITE}"
    async with run_at_a_door(tmp_path) as home:
        record = await home.manager.get("desk", "mine")
        name_cases(Path(record.where.folder), "v question 1, which is a secret of the holdout")
        held = await home.send("ada", "tell", text="v question 1, which is a secret of the holdout")
        sent = [
            await home.send("ada", "pin", surfaces=[PLAN]),
            await home.send("ada", "try", values={WRITE: own}),
            await home.send("ada", "tell", text="Sources matter."),
        ]
        notes = await home.ended()
        run = await home.manager.get("desk", "mine")
    assert (held.status_code, held.json()["error"]["code"]) == (409, "steering_refused")
    assert "which is held out" in held.json()["error"]["message"]
    assert [each.status_code for each in sent] == [202] * 3
    assert [each.json()["waiting"] for each in sent] == [1, 2, 3]
    assert {each.json()["by"] for each in sent} == {"ada"}
    assert [(each.action, each.by, each.refused) for each in notes] == [
        (action, "ada", "") for action in ("pin", "try", "tell")
    ]
    assert run.best_score == 1.0, "the candidate of a person won"


def name_cases(folder: Path, held: str) -> None:
    """Let the description of a run name a file of held-out cases, as runs of project files do."""
    file = folder.parent / "held.jsonl"
    file.write_text(json.dumps({"input": held, "ground_truth": "[cited]"}) + "\n")
    header = json.loads((folder / HEADER).read_text())
    header["project"]["spec"] = {"data": {"holdout": str(file)}}
    (folder / HEADER).write_text(json.dumps(header))


async def test_only_whoever_may_stop_a_run_may_steer_it(tmp_path: Path) -> None:
    page = "/runs/desk/mine"
    async with run_at_a_door(tmp_path) as home:
        reader = await home.send("eve", "tell", text="A hint.")
        other = await home.send("bob", "tell", text="A hint.")
        unknown = await home.send("ada", "pin", surfaces=["desk/nobody#instruction"])
        free = await home.send("ada", "unpin", surfaces=[WRITE])
        wrong = await home.send("ada", "tell", texts="A hint.")
        ada, eve, bob = (Guest(home.client) for _ in range(3))
        for guest, name in ((ada, "ada"), (eve, "eve"), (bob, "bob")):
            await guest.log_in(home.tokens[name])
        shown = (await ada.get(page)).text
        seen = [(await guest.get(page)).text for guest in (eve, bob)]
        sent = await ada.send(f"{page}/tell", page, text="Sources\r\nmatter.")
        await ada.post(f"{page}/pin", token=token_in(shown), surface=PLAN)
        refused = await eve.send(f"{page}/tell", page, text="A hint.")
        forged = await ada.post(f"{page}/tell", token="none", text="A hint.")
        notes = await home.ended()
        after = (await ada.get(page)).text
        late = await home.send("ada", "pin", surfaces=[])
    assert [reader.status_code, other.status_code] == [403, 403]
    assert [each.json()["error"]["code"] for each in (unknown, free)] == ["steering_refused"] * 2
    assert "is not pinned" in free.json()["error"]["message"]
    assert (wrong.status_code, "did you mean 'text'?" in wrong.text) == (422, True)
    assert "Steer this run" in shown
    assert not [each for each in seen if "Steer this run" in each]
    assert (sent.status_code, sent.headers["location"]) == (303, f"{page}?done=steer")
    assert [refused.status_code, forged.status_code] == [403, 403]
    assert [(each.action, each.by) for each in notes] == [("tell", "ada"), ("pin", "ada")]
    assert notes[0].text == "Sources\nmatter."
    assert "Steer this run" not in after
    assert "ada tells the proposer" in after
    assert late.json()["error"]["code"] == "steering_refused"


@pytest.mark.parametrize(
    ("status", "host", "here"),
    [
        (RunStatus.RUNNING, "", True),
        (RunStatus.RUNNING, "elsewhere", False),
        (RunStatus.FAILED, "", False),
    ],
)
def test_a_note_goes_to_the_folder_of_the_process_that_drives_the_run(
    tmp_path: Path, status: RunStatus, host: str, *, here: bool
) -> None:
    """A journal in a database carries no notes from one machine to another."""
    journals = DatabaseJournals(url=DatabaseUrl.parse("postgresql://nobody@127.0.0.1:1/none"))
    places = RunPlaces(data=tmp_path / "other", journals=journals)
    folder = tmp_path / "worker" / "mine"
    where = Where(journal="database", host=host or socket.gethostname(), folder=str(folder))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    record = StoredRun(
        app_name="desk", run_id="mine", status=status, where=where, created_at=at, updated_at=at
    )
    if here:
        assert places.steered(record).folder == folder
    else:
        with pytest.raises(NotHere, match="cannot be steered from here"):
            places.steered(record)
