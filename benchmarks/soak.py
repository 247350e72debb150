"""A service of three processes under fire: `make check PART=soak`.

Clients start runs while the processes are killed, PostgreSQL is restarted, its connections are cut,
and the model's endpoint fails now and then. In the end every accepted run must have finished, with
the same trials as an undisturbed twin, and the books must agree with what the endpoint answered.
"""

import argparse
import asyncio
import os
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.journal.database_proxy import Proxy

from benchmarks.soak_world import Endpoint, OwnPostgres, write_project
from burnish.testing.servers import ScriptedServer

HOUR, SHORT = 3600.0, 600.0
_SEEDS = 4
"""Different runs; each has one twin."""
_WAITING = 3
"""Unfinished runs that the client keeps in the service."""
_LEASE = 5.0
_BLOWS = {"kill": 6, "cut": 2, "terminate": 2, "outage": 1, "restart": 1, "crash": 1}
"""How often each is chosen: the last two are restarts of the database."""
_BLOW_SECONDS = (3.0, 15.0)
"""The time from one blow to the next, at least and at most."""
_PATIENCE = 1200.0
"""How long the runs may take to finish once there are no more blows."""
_START = "from burnish.cli import main; main()"

# -- The service -----------------------------------------------------------------------------------


@dataclass
class Member:
    """One process of the service, which is started again when it was killed."""

    name: str
    folder: Path
    arguments: Sequence[str]
    process: asyncio.subprocess.Process | None = None
    _before: int = 0
    """The size of its log when it was started."""

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def ready(self) -> bool:
        """Whether it runs and has said so."""
        running = self.process is not None and self.process.returncode is None
        return running and self.log.stat().st_size > self._before

    async def start(self) -> None:
        """Start it, unless it runs."""
        if self.process is not None and self.process.returncode is None:
            return
        with self.log.open("ab") as log:
            self._before = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _START, "serve", "--data", self.name, *self.arguments),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env=os.environ
                | {"PYTHONUNBUFFERED": "1", "BURNISH_HOME": str(self.folder / "state")},
            )

    async def kill(self) -> None:
        """As a power cut would."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass
class Client:
    """Talks to a service that is often not there."""

    url: str
    http: httpx.AsyncClient
    accepted: dict[str, int] = field(default_factory=dict[str, int])
    """The seed of each run that the service has accepted."""

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Ask until there is an answer that is not about the service itself."""
        while True:
            with suppress(httpx.TransportError):
                answer = await self.http.request(method, f"{self.url}{path}", json=body)
                if answer.status_code < 500:
                    return answer
            await asyncio.sleep(0.5)

    async def start(self, run: str, seed: int) -> None:
        """Start a run; one that was accepted although the answer got lost is not started twice."""
        body = {"id": run, "settings": {"seed": seed}}
        answer = await self.ask("POST", "/apps/adder/runs", body)
        if answer.status_code not in (201, 409):
            raise SystemExit(f"a run was refused: {answer.text}")
        self.accepted[run] = seed

    async def unfinished(self) -> list[str]:
        """The accepted runs that have not ended."""
        states = {each["id"]: each["status"] for each in await self.runs()}
        return [run for run in self.accepted if states.get(run) in ("queued", "running")]

    async def runs(self) -> list[Any]:
        """Every run of the service."""
        found: list[Any] = []
        cursor = ""
        while True:
            page = (await self.ask("GET", f"/runs?limit=200&cursor={cursor}")).json()
            found += page["runs"]
            cursor = page["cursor"]
            if not cursor:
                return found

    async def until_finished(self, seconds: float = _PATIENCE) -> None:
        """Wait for every accepted run."""
        end = time.monotonic() + seconds
        while left := await self.unfinished():
            if time.monotonic() > end:
                raise SystemExit(f"{len(left)} runs did not finish: {left[:5]}")
            await asyncio.sleep(1.0)

    async def settled_account(self, seconds: float = _PATIENCE) -> Any:
        """The account once no reservation is open: runs are settled a moment after they end."""
        end = time.monotonic() + seconds
        while (account := (await self.ask("GET", "/account")).json())["runs"]:
            if time.monotonic() > end:
                raise SystemExit(f"{account['runs']} runs were not settled")
            await asyncio.sleep(1.0)
        return account

    async def decisions(self, run: str) -> list[Any]:
        """The trials of a run: what was tried, and what became of it."""
        page = (await self.ask("GET", f"/apps/adder/runs/{run}/trials?limit=200")).json()
        return [_decision(row) for row in page["trials"]]


def _decision(row: Any) -> Any:
    trial = row["trial"]
    scores = {split: trial[split]["scores"] for split in ("train", "holdout") if trial.get(split)}
    return trial["candidate"], trial.get("decision"), scores


@dataclass
class Storm:
    """What is done to the service, at random."""

    rng: random.Random
    members: Sequence[Member]
    proxy: Proxy
    postgres: OwnPostgres
    blows: Counter[str] = field(default_factory=Counter[str])

    async def rage(self, seconds: float) -> None:
        """One blow after the other; whoever was killed is started again at once."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(self.rng.uniform(*_BLOW_SECONDS))
            await self._strike(self.rng.choices([*_BLOWS], [*_BLOWS.values()])[0])
            for member in self.members:
                await member.start()

    async def _strike(self, blow: str) -> None:
        if blow == "kill" and not any(each.ready for each in self.members):
            blow = "cut"  # on a slow machine they are still starting
        self.blows[blow] += 1
        if blow == "kill":
            await self.rng.choice([each for each in self.members if each.ready]).kill()
        elif blow == "cut":
            self.proxy.cut()
        elif blow == "terminate":
            await asyncio.to_thread(self.postgres.terminate_backends)
        elif blow in ("restart", "crash"):
            await asyncio.to_thread(self.postgres.restart, crash=blow == "crash")
        else:
            self.proxy.away = True
            self.proxy.cut()
            await asyncio.sleep(self.rng.uniform(0.5, 3.0))
            self.proxy.away = False


# -- The soak --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    runs: int
    lost: int
    twice: int
    failed: int
    different: int
    spent: int
    billed: int
    charged: int
    answered: int
    blows: Counter[str]
    faults: int
    seconds: float

    @property
    def sound(self) -> bool:
        wrong = self.lost + self.twice + self.failed + self.different
        return self.runs > 0 and not wrong and self.balanced

    @property
    def balanced(self) -> bool:
        """Each answer is on the bill, and the account was charged with the bills of its runs."""
        return self.spent <= self.answered <= self.billed == self.charged

    def lines(self) -> list[str]:
        blows = ", ".join(f"{name} {count}" for name, count in sorted(self.blows.items()))
        again = self.answered - self.spent
        return [
            f"{self.runs} runs in {self.seconds:.0f} s; blows: {blows}; faults: {self.faults}",
            f"lost {self.lost}, twice {self.twice}, failed {self.failed}, "
            f"different {self.different}",
            f"calls: spent {self.spent}, answered {self.answered} ({again} paid for again), "
            f"billed {self.billed}, charged {self.charged}",
            "sound" if self.sound else "NOT SOUND",
        ]


async def soak(seconds: float, seed: int, folder: Path) -> Outcome:
    """Storm for some seconds, let the runs finish, and compare."""
    began, endpoint = time.monotonic(), Endpoint(rng=random.Random(seed))
    with (
        OwnPostgres.running(_free_port()) as postgres,
        closing(Proxy("127.0.0.1", postgres.port)) as proxy,
    ):
        async with (
            ScriptedServer(answers=endpoint.answer) as model,
            httpx.AsyncClient(timeout=30, trust_env=False) as http,
            _members(folder, proxy.port, _free_port()) as (url, members),
        ):
            write_project(folder, model.base_url)
            client = Client(url, http)
            storm = Storm(random.Random(seed), members, proxy, postgres)
            await _feed(client, storm, seconds)
            account = await client.settled_account()
            # Each run asks its model one question before the others.
            answered, endpoint.faulty = endpoint.answered + len(model.preflights), False
            twins = await _twins(folder, http)
            return await _outcome(
                client,
                twins,
                charged=round(account["spent"]["max_calls"]),
                answered=answered,
                blows=storm.blows,
                faults=endpoint.faults,
                seconds=time.monotonic() - began,
            )


@asynccontextmanager
async def _members(
    folder: Path, database: int, port: int
) -> AsyncGenerator[tuple[str, Sequence[Member]], None]:
    """The address of the service, and its processes, not started yet."""
    db = f"postgresql://postgres@127.0.0.1:{database}/postgres"
    common = ("--app", "adder=agent.yaml", "--db", db, "--lease", str(_LEASE))
    api = Member("api", folder, (*common, "--role", "api", "--port", str(port)))
    worker = (*common, "--role", "worker", "--max-running", "2")
    members = [api, *(Member(f"worker-{number}", folder, worker) for number in (1, 2))]
    try:
        yield f"http://127.0.0.1:{port}/api/v1", members
    finally:
        for member in members:
            await member.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


async def _feed(client: Client, storm: Storm, seconds: float) -> None:
    """Start runs while the storm lasts, then wait for all of them."""
    for member in storm.members:
        await member.start()
    raging = asyncio.create_task(storm.rage(seconds))
    while not raging.done():
        if len(await client.unfinished()) < _WAITING:
            number = len(client.accepted)
            await client.start(f"run-{number:04}", number % _SEEDS)
        else:
            await asyncio.sleep(0.5)
    await raging
    await client.until_finished()


async def _twins(folder: Path, http: httpx.AsyncClient) -> dict[int, list[Any]]:
    """The same runs, once each, in a service that nobody disturbs."""
    port = _free_port()
    calm = Member("calm", folder, ("--app", "adder=agent.yaml", "--port", str(port)))
    client = Client(f"http://127.0.0.1:{port}/api/v1", http)
    await calm.start()
    try:
        for seed in range(_SEEDS):
            await client.start(f"twin-{seed}", seed)
        await client.until_finished()
        return {seed: await client.decisions(f"twin-{seed}") for seed in range(_SEEDS)}
    finally:
        await calm.kill()


async def _outcome(client: Client, twins: dict[int, list[Any]], **known: Any) -> Outcome:
    runs = Counter(each["id"] for each in await client.runs())
    failed = different = spent = billed = 0
    for run, seed in client.accepted.items():
        record = (await client.ask("GET", f"/apps/adder/runs/{run}")).json()
        if record.get("status") != "succeeded":
            print(f"{run}: {record.get('status')} {record.get('error')}", file=sys.stderr)
            failed += 1
            continue
        spent += record["result"]["spent"]["calls"]
        billed += record["result"]["billed"]["calls"]
        if await client.decisions(run) != twins[seed]:
            print(f"{run}: not as its twin, seed {seed}", file=sys.stderr)
            different += 1
    return Outcome(
        runs=len(client.accepted),
        lost=sum(run not in runs for run in client.accepted),
        twice=sum(count > 1 for count in runs.values()),
        failed=failed,
        different=different,
        spent=spent,
        billed=billed,
        **known,
    )


def main() -> int:
    """Exit code 0 if nothing was lost, repeated or changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=HOUR, help="how long the storm lasts")
    parser.add_argument("--short", action="store_true", help="ten minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep everything here")
    flags = parser.parse_args()
    seconds = SHORT if flags.short else flags.seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = (flags.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(soak(seconds, flags.seed, folder))
    print("\n".join(outcome.lines()))
    return 0 if outcome.sound else 1


if __name__ == "__main__":
    sys.exit(main())
