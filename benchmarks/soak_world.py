"""What `make check PART=soak` storms: its own PostgreSQL, a model that fails at times, an agent."""

import hashlib
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.prerequisites import give_to, program, run_as

from burnish.core.errors import BurnishError
from burnish.system.databases import Database, DatabaseUrl
from burnish.testing.servers import Answer, Dropped, HttpRequest, Slow, Status

FAULTS = 0.05
"""The share of questions that the endpoint does not answer."""
_POSTGRES = "postgres"
"""The superuser in the server, and whom the server runs as: it refuses root."""
_AGENT = """\
name: adder
model: {{provider: openai, name: scripted, base_url: "{url}", temperature: 0.2}}
instructions: {{inline: Add the numbers. Answer with the sum only.}}
evaluations:
  metrics: [{{type: standard, metric: equality, strip_whitespace: true}}]
  optimizer:
    loss: {{equality: 1.0}}
    train_cases_file: train.yaml
    holdout_cases_file: holdout.yaml
    repeats: 2
    axes:
      demonstrations: {{max_demos: 4}}
      numeric: [{{path: model.temperature, range: [0.0, 1.0]}}]
    budget:
      global: {{max_cycles: 1}}
      demonstration_phase: {{max_trials: 3, patience: 3}}
      numeric_phase: {{max_trials: 3, patience: 3}}
test_cases_file: train.yaml
"""


@dataclass
class Endpoint:
    """A model whose answer is a function of the question, and which fails now and then."""

    rng: random.Random
    faulty: bool = True
    answered: int = 0
    faults: int = 0

    def answer(self, request: HttpRequest) -> Answer:
        """An answer, or a fault."""
        if self.faulty and self.rng.random() < FAULTS:
            self.faults += 1
            return self.rng.choice([Status(503), Dropped()])
        self.answered += 1
        asked: Any = request.json
        body = json.dumps([asked["messages"], asked.get("temperature")], sort_keys=True)
        luck = hashlib.sha256(body.encode()).digest()[0] / 256
        numbers = [
            int(each) for each in str(asked["messages"][-1]["content"]).split() if each.isdigit()
        ]
        right = luck < 0.3 + 0.1 * len(asked["messages"])
        return Slow(0.02, str(sum(numbers) if right else sum(numbers) + 1))


def write_project(folder: Path, url: str) -> None:
    """The agent that is tuned, with its cases."""
    (folder / "agent.yaml").write_text(_AGENT.format(url=url))
    for name, count, first in (("train", 6, 10), ("holdout", 5, 50)):
        pairs = [(first + number, 3 * number + 1) for number in range(count)]
        cases = [
            {"name": f"{name}-{a}", "input": f"add {a} and {b}", "ground_truth": str(a + b)}
            for a, b in pairs
        ]
        (folder / f"{name}.yaml").write_text(json.dumps({"test_cases": cases}))


@dataclass(frozen=True, kw_only=True)
class OwnPostgres:
    """A PostgreSQL server that nobody else uses, so that it may be restarted."""

    folder: Path
    port: int

    @classmethod
    @contextmanager
    def running(cls, port: int) -> "Generator[OwnPostgres]":
        """A new server, which is removed in the end."""
        if not program("initdb"):
            raise SystemExit("PostgreSQL is not installed; `make deps` installs it")
        folder = Path(tempfile.mkdtemp(prefix="burnish-soak-"))
        give_to(_POSTGRES, folder)
        server = cls(folder=folder, port=port)
        initdb = [program("initdb"), "-D", f"{folder}/db", "-U", _POSTGRES, "--auth=trust"]
        try:
            run_as(_POSTGRES, initdb)
            server._control("start")
            yield server
        finally:
            with suppress(subprocess.CalledProcessError):  # it may never have started
                server._control("stop", "-m", "immediate")
            shutil.rmtree(folder)

    def restart(self, *, crash: bool) -> None:
        """As an administrator does, or as after a crash, with its log to replay."""
        self._control("restart", "-m", "immediate" if crash else "fast")

    def terminate_backends(self) -> None:
        """End every connection on the side of the server."""
        url = DatabaseUrl.parse(f"postgresql://{_POSTGRES}@127.0.0.1:{self.port}/postgres")
        with Database(url, trouble=BurnishError, pooled=False).connect() as db:
            db.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def _control(self, action: str, *more: str) -> None:
        place = ["-D", f"{self.folder}/db", "-w", "-t", "300", "-l", f"{self.folder}/log"]
        options = ["-o", f"-p {self.port} -h 127.0.0.1 -k {self.folder}"]
        run_as(_POSTGRES, [program("pg_ctl"), *place, *options, action, *more])
