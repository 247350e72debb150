"""Each model of a run is asked once before anything else is paid."""

import asyncio
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import gaierror

import pytest

from burnish.core.errors import EndpointDown
from burnish.core.surfaces import TextSurface
from burnish.journal.limits import Budget
from burnish.journal.outages import Waits
from burnish.models.chat import Prices
from burnish.models.errors import ModelRefused, unreached
from burnish.models.factory import EMBEDDINGS, Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, fork, resume, start
from burnish.runs.stoppers import STOP_FILE
from burnish.strategies.reflective.reflection import reflector
from burnish.strategies.reflective.search import Reflective
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing.servers import Answer, HttpRequest, ScriptedServer, Status
from tests.strategies.reflective_runs import Talk, says
from tests.strategies.reflective_runs import scripted as reflective


@dataclass
class StoppedClock:
    """Time that only passes while somebody sleeps; `wakes` is called after each sleep."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list[float])
    wakes: Callable[[], object] = field(default=lambda: None)
    falls_asleep: Callable[[], object] = field(default=lambda: None)
    forever: bool = False

    async def sleep(self, seconds: float) -> None:
        self.falls_asleep()
        if self.forever:
            await asyncio.Event().wait()
        self.pauses.append(seconds)
        self.now += seconds
        self.wakes()
        await asyncio.sleep(0)

    def waits(self, tell: Callable[[str], None]) -> Waits:
        return Waits(seconds=300, tell=tell, clock=lambda: self.now, sleep=self.sleep)


@dataclass
class World:
    """A search whose agent and reflector are behind endpoints of their own."""

    folder: Path
    agent: str
    writer: str
    clock: StoppedClock = field(default_factory=StoppedClock)

    def setup(self, *, budget: Budget | None = None) -> Setup:
        models = Models(prices=Prices())
        path = self.folder / "agent.yaml"
        model = f"{{provider: openai, name: talker, base_url: '{self.agent}'}}"
        path.write_text(
            f"name: helper\ninstructions: {{inline: Answer.}}\nmodel: {model}\n", encoding="utf-8"
        )
        surface = TextSurface(id="instructions")
        target = AgentTarget(load_agent(path), models, surfaces=(surface,))
        setup = reflective(
            says(lambda _: "no"),
            Talk(rewrite=lambda request, draw: "never asked"),
            train=2,
            holdout=3,
            budget=budget or Budget(max_trials=1),
        )
        assert isinstance(setup.strategy, Reflective)
        ref = ModelRef(provider="openai", name="writer", base_url=self.writer)
        client = models.client(ref, role="reflector")
        role = reflector(client, in_force("reflector", self.folder))
        strategy = replace(setup.strategy, reflector=role)
        return replace(setup, target=target, strategy=strategy, resources=(models,))

    async def drive(self, *, again: bool = False, setup: Setup | None = None) -> Ending:
        setup = setup or self.setup()
        run = resume(setup, self.run) if again else start(setup, folder=self.run)
        run.waits = self.clock.waits(run.waits.tell)
        try:
            return await drive(run)
        finally:
            await run.close()

    @property
    def run(self) -> Path:
        return self.folder / "run"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test-0123456789")


def endpoint(preflight: Answer = "ok") -> ScriptedServer:
    """Answers as agent and as reflector."""
    numbers = itertools.count()

    def answer(request: HttpRequest) -> str:
        if request.json["model"] == "talker":
            return "no"
        return json.dumps({"diagnosis": "too long", "new_text": f"Answer {next(numbers)}."})

    return ScriptedServer(answers=answer, preflight=preflight)


def warnings_of(folder: Path) -> list[str]:
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row["data"]["message"] for row in rows if row["kind"] == "warning"]


@pytest.mark.parametrize(
    "answer", [Status(404), Status(401), Status(400, message="writer is not a valid model ID")]
)
async def test_nothing_is_paid_where_a_writer_cannot_answer(tmp_path: Path, answer: Answer) -> None:
    async with endpoint() as agent, endpoint(answer) as writer:
        world = World(tmp_path, agent.base_url, writer.base_url)
        with pytest.raises(ModelRefused, match=r"^reflector: openai:writer at ") as refused:
            await world.drive()
        assert refused.value.remedy
        assert (len(agent.requests), len(writer.preflights)) == (0, 1)
        failed = RunRecord.read(world.run)
        assert failed.status == "failed"
        # Only the agent's model has answered.
        assert failed.billed.calls == len(agent.preflights)
        # Nothing of it is stored, so that the run goes on once that is mended.
        writer.preflight = "ok"
        await world.drive(again=True)
        assert agent.requests


async def test_who_sends_no_key_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    async with endpoint() as agent, endpoint(Status(401)) as writer:
        with pytest.raises(ModelRefused, match="wants a key, and was sent none") as refused:
            await World(tmp_path, agent.base_url, writer.base_url).drive()
        assert refused.value.remedy.startswith("set OPENAI_API_KEY, or give")


async def test_one_that_cannot_answer_ends_the_run_while_another_is_waited_for(
    tmp_path: Path,
) -> None:
    busy, refusing = endpoint(Status(503)), endpoint(Status(401))
    async with busy, refusing:
        world = World(tmp_path, busy.base_url, refusing.base_url)
        world.clock.forever = True
        with pytest.raises(ModelRefused, match=r"reflector: .* refused the key"):
            await world.drive()


async def test_a_busy_endpoint_is_waited_for(tmp_path: Path) -> None:
    async with endpoint() as agent, endpoint(Status(503)) as writer:
        world = World(tmp_path, agent.base_url, writer.base_url)

        def recover() -> None:
            if len(writer.preflights) == 6:
                writer.preflight = "ok"

        world.clock.wakes = recover
        await world.drive()
        assert len(writer.preflights) == 7
        assert agent.requests
        warned = warnings_of(world.run)
        assert len(warned) == 2
        assert warned[0].startswith("openai:writer at ")
        assert warned[0].endswith("(trying again for up to 5m 00s)")
        assert " answers again, after " in warned[1]


async def test_who_asks_a_waiting_run_to_stop_waits_for_nothing(tmp_path: Path) -> None:
    async with endpoint() as agent, endpoint(Status(503)) as writer:
        world = World(tmp_path, agent.base_url, writer.base_url)
        world.clock.forever = True
        run = start(world.setup(), folder=world.run)
        # As long as a search gets to end its trial; here nothing can be lost.
        assert run.setup.grace_seconds > 10
        world.clock.falls_asleep = lambda: (world.run / STOP_FILE).touch()
        run.waits = world.clock.waits(run.waits.tell)
        try:
            ending = await drive(run)
        finally:
            await run.close()
        assert ending.reason.code == "stop_file"
        assert ending.reason.detail.endswith("; nothing was run")
        assert not agent.requests
        writer.preflight = "ok"
        await world.drive(again=True)
        assert agent.requests


async def test_a_busy_endpoint_is_given_up_after_five_minutes(tmp_path: Path) -> None:
    async with endpoint() as agent, endpoint(Status(429)) as writer:
        world = World(tmp_path, agent.base_url, writer.base_url)
        with pytest.raises(EndpointDown, match=r"^reflector: .*429") as down:
            await world.drive()
        assert down.value.remedy == "when it answers, resume the run (`burnish runs resume run`)"
        assert sum(world.clock.pauses) == pytest.approx(300)
        assert not agent.requests
        writer.preflight = "ok"
        await world.drive(again=True)
        assert agent.requests, "a wait without an answer is not stored either"


async def test_questions_are_calls_and_no_runs_and_asked_once(tmp_path: Path) -> None:
    async with endpoint() as server:
        world = World(tmp_path, server.base_url, server.base_url)
        setup = world.setup(budget=Budget(max_trials=1))
        assert len(setup.preflight()) == 2
        ending = await world.drive(setup=setup)
        assert len(server.preflights) == 2
        assert ending.spent.calls == len(server.requests) + 2
        assert ending.spent.metric_calls < ending.spent.calls - 2
        await world.drive(again=True)
        assert len(server.preflights) == 2, "a resume asks nobody again"
        forked = fork(world.setup(), world.run, folder=tmp_path / "forked")
        try:
            await drive(forked)
        finally:
            await forked.close()
        assert len(server.preflights) == 4, "what answered an earlier run may be gone by now"


async def test_one_model_at_one_endpoint_is_asked_once_for_all_its_roles(tmp_path: Path) -> None:
    async with endpoint() as server:
        models = Models()
        ref = ModelRef(provider="openai", name="m", base_url=server.base_url)
        models.client(ref, role="agent")
        models.client(ref, role="reflector")
        setup = World(tmp_path, server.base_url, server.base_url).setup()
        (use,) = replace(setup, resources=(models,)).preflight()
        assert use.roles == ("agent", "reflector")


async def test_an_endpoint_that_only_turns_the_question_down_is_reached(tmp_path: Path) -> None:
    down = Status(400, message="the output limit was reached before the answer was complete")
    async with endpoint(down) as agent, endpoint() as writer:
        await World(tmp_path, agent.base_url, writer.base_url).drive()
        assert agent.requests


async def test_models_that_make_vectors_are_asked_for_one(tmp_path: Path) -> None:
    async with endpoint() as server:
        models = Models()
        ref = ModelRef(provider="openai", name="vectors", base_url=server.base_url)
        models.client(ref, role=EMBEDDINGS)
        world = World(tmp_path, server.base_url, server.base_url)
        setup = replace(world.setup(), resources=(models,))
        with pytest.raises(ModelRefused, match=r"^embeddings: openai:vectors"):
            await world.drive(setup=setup)
        assert server.requests[-1].path == "/v1/embeddings"


def test_why_there_was_no_connection_is_found_behind_the_error_of_a_client() -> None:
    def behind(cause: BaseException) -> BaseException:
        try:
            try:
                raise OSError("All connection attempts failed") from cause
            except OSError:
                raise RuntimeError("ConnectError")  # noqa: B904 - as clients do it
        except RuntimeError as error:
            return error

    assert unreached(behind(gaierror(-2, "Name or service not known"))) == "unknown host"
    assert unreached(behind(ConnectionRefusedError())) == "refused"
    both = ExceptionGroup("two addresses", [ConnectionRefusedError(), ConnectionRefusedError()])
    assert unreached(behind(both)) == "refused"
    assert unreached(behind(TimeoutError())) == "away"
