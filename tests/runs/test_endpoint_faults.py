"""Twelve ways in which an endpoint misbehaves, with every kind of model that a run asks.

Each run ends as documented and soon, says why, and counts every answer that was paid for.
"""

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import BaselineUnmeasured, BurnishError, EndpointDown, ProposerFailed
from burnish.core.evaluations import Objective
from burnish.core.surfaces import TextSurface
from burnish.delegation.team import load_workflow
from burnish.journal.limits import Budget
from burnish.journal.outages import RetryPolicy, Waits
from burnish.metrics.geval import Coherence
from burnish.metrics.judges import Judge, Panel
from burnish.models.chat import ModelClient, Prices
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import RolePrompt, in_force
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.backprop.prompts import backwarder
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import critic
from burnish.strategies.edits.editors import editor
from burnish.strategies.edits.strategy import Edits
from burnish.strategies.reflective.reflection import reflector
from burnish.strategies.reflective.search import Reflective
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing import ScriptedBackend
from burnish.testing.servers import Answer, Drip, Malformed, ScriptedServer, Slow, Status
from tests.delegation.alone import delegate
from tests.delegation.delegation_world import FLOW
from tests.strategies import backprop_world, edit_world
from tests.strategies.reflective_runs import Talk, says
from tests.strategies.reflective_runs import scripted as reflective
from tests.strategies.test_coordinate_texts import made as coordinate
from tests.strategies.test_coordinate_texts import talk

pytestmark = pytest.mark.slow

PATIENCE = 120
"""Seconds after which a run has hung."""
LABEL = "openai:faulty"
INSTRUCTIONS = "instructions: {inline: Answer somebody.}"


def completion(content: str) -> bytes:
    """A sound response whose content is given as JSON, so that it may hold anything."""
    choice = f'{{"index": 0, "message": {{"role": "assistant", "content": {content}}}, '
    usage = '{"prompt_tokens": 700, "completion_tokens": 70, "total_tokens": 770}'
    return (
        '{"id": "c", "object": "chat.completion", "created": 1, "model": "faulty", "choices": '
        f'[{choice}"finish_reason": "stop"}}], "usage": {usage}}}'
    ).encode()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to misbehave."""

    answer: Answer | None
    """None if nobody listens."""
    paid: bool | None = False
    """Whether an answer began, which an endpoint bills; None if that depends on the machine."""
    timeout: float = PATIENCE
    """Only where nothing else would end the call."""
    waited: bool = False
    """Whether a run waits for its end, and can be resumed."""


FAULTS = {
    "refused connection": Fault(answer=None),
    "401": Fault(answer=Status(401)),
    "429 forever": Fault(answer=Status(429), waited=True),
    "500 forever": Fault(answer=Status(500)),
    "hangs": Fault(answer=Slow(3600), timeout=0.1),
    "slow drip": Fault(answer=Drip(), timeout=0.3, paid=None),
    "empty 200": Fault(answer=Malformed(b""), paid=True),
    "HTML 200": Fault(answer=Malformed(content_type="text/html"), paid=True),
    "truncated JSON": Fault(answer=Malformed(completion('"x"')[:-40]), paid=True),
    "wrong schema": Fault(answer=Malformed(completion('"{}"')), paid=True),
    "huge answer": Fault(answer=Malformed(completion(f'"{"x" * 90_000}"')), paid=True),
    "half a surrogate": Fault(answer=Malformed(completion('"\\ud800"')), paid=True),
}


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """The model that misbehaves; every call is tried twice, at once."""

    ref: ModelRef
    models: Models
    folder: Path

    @classmethod
    def at(cls, address: str, fault: Fault, folder: Path) -> "Faulty":
        settings = ModelSettings(timeout=fault.timeout, max_answer_mb=0.05)
        ref = ModelRef(provider="openai", name="faulty", base_url=address, settings=settings)
        price = Price(input_per_million=1.0, output_per_million=10.0)
        models = Models(
            prices=Prices(overrides={LABEL: price}),
            retries=RetryPolicy(attempts=2, first_wait=0.001),
            backends={"anthropic": ScriptedBackend(respond=lambda request, draw: "never asked")},
        )
        return cls(ref=ref, models=models, folder=folder)

    @property
    def client(self) -> ModelClient:
        return self.models.client(self.ref)

    @property
    def block(self) -> str:
        """The model as a file describes it."""
        settings = self.ref.settings
        fields = {
            "ref": self.ref.label,
            "base_url": self.ref.base_url,
            "timeout": settings.timeout,
            "max_answer_mb": settings.max_answer_mb,
        }
        return json.dumps(fields)

    def prompt(self, role: str) -> RolePrompt:
        return in_force(role, self.folder)


def no(text: str) -> str:
    del text
    return "no"


def _rewritten() -> Talk:
    return Talk(rewrite=lambda request, draw: f"{request.current_text} {draw}")


def _small(*, holdout: int = 3, **more: Any) -> Setup:
    budget = Budget(max_trials=1)
    return reflective(says(no), _rewritten(), train=2, holdout=holdout, budget=budget, **more)


def with_agent(faulty: Faulty) -> Setup:
    path = faulty.folder / "agent.yaml"
    path.write_text(f"name: helper\n{INSTRUCTIONS}\nmodel: {faulty.block}\n", encoding="utf-8")
    surface = TextSurface(id="instructions")
    target = AgentTarget(load_agent(path), faulty.models, surfaces=(surface,))
    return replace(_small(), target=target)


def with_judge(faulty: Faulty, *, holdout: int = 3) -> Setup:
    panel = Panel(judges=(Judge(client=faulty.client),))
    prompt = faulty.prompt("judge_coherence")
    setup = _small(metric=Coherence(panel=panel, prompt=prompt), holdout=holdout)
    return replace(setup, objective=Objective(weights={"coherence": 1.0}))


def with_reflector(faulty: Faulty) -> Setup:
    setup = _small()
    assert isinstance(setup.strategy, Reflective)
    role = reflector(faulty.client, faulty.prompt("reflector"))
    return replace(setup, strategy=replace(setup.strategy, reflector=role))


def with_critic(faulty: Faulty) -> Setup:
    setup = coordinate(talk(), trials=1)
    assert isinstance(setup.strategy, Coordinate)
    role = critic(faulty.client, faulty.prompt("critic"))
    return replace(setup, strategy=replace(setup.strategy, critic=role))


def with_backwarder(faulty: Faulty) -> Setup:
    setup = backprop_world.with_settings(backprop_world.world(), max_rounds=1)
    assert isinstance(setup.strategy, Backprop)
    role = backwarder(faulty.client, faulty.prompt("backwarder"))
    return replace(setup, strategy=replace(setup.strategy, backwarder=role))


def with_editor(faulty: Faulty) -> Setup:
    script = edit_world.Script(edits=[edit_world.whole("9\n")])
    setup = edit_world.setup(script, budget=Budget(max_trials=1))
    assert isinstance(setup.strategy, Edits)
    role = editor(faulty.client, faulty.prompt("editor"))
    return replace(setup, strategy=replace(setup.strategy, editor=role))


ASKED: dict[str, Callable[[Faulty], Setup]] = {
    "agent": with_agent,
    "judge": with_judge,
    "reflector": with_reflector,
    "critic": with_critic,
    "backwarder": with_backwarder,
    "editor": with_editor,
}
MEASURES = {"agent", "judge"}
"""Without these nothing is measured; without the others nothing is proposed."""


@dataclass
class Endpoint:
    """Where the model is, and how often it was asked."""

    address: str
    server: ScriptedServer | None = None

    @property
    def requests(self) -> int:
        return 0 if self.server is None else len(self.server.requests)


async def at_endpoint(fault: Fault, act: Callable[[Endpoint], Any]) -> Any:
    """Do something while the endpoint misbehaves, within the patience of a test."""
    async with asyncio.timeout(PATIENCE):
        if fault.answer is None:
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))  # bound, but nobody listens
                return await act(Endpoint(f"http://127.0.0.1:{closed.getsockname()[1]}/v1"))
        # It misbehaves once the run has begun: the question before costs no tokens.
        async with ScriptedServer(answers=[fault.answer], preflight=Status(400)) as server:
            return await act(Endpoint(server.base_url, server))


def minutes_in_no_time() -> Waits:
    """Five minutes of waiting, in which only the endpoint takes time."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    return Waits(seconds=300, clock=lambda: now, sleep=sleep)


async def driven(role: str, faulty: Faulty, *, again: bool = False) -> BurnishError | None:
    """The error that ended a run; None if it was completed."""
    setup = replace(ASKED[role](faulty), resources=(faulty.models,))
    folder = faulty.folder / "run"
    run = resume(setup, folder) if again else start(setup, folder=folder)
    run.waits = minutes_in_no_time()
    try:
        await drive(run)
    except BurnishError as error:
        return error
    finally:
        await run.close()
    return None


def expected_end(role: str, way: str) -> type[BurnishError] | None:
    """How a run ends, as docs/runs.md says it."""
    if way in ("401", "refused connection"):
        return ModelRefused
    if FAULTS[way].waited:
        return EndpointDown
    if role == "agent" and way == "wrong schema":
        return None  # an agent may answer what it likes
    return BaselineUnmeasured if role in MEASURES else ProposerFailed


@pytest.mark.parametrize("role", ASKED)
@pytest.mark.parametrize("way", FAULTS)
async def test_a_run_ends_as_documented_and_counts_what_was_paid(
    tmp_path: Path, role: str, way: str
) -> None:
    fault, folder = FAULTS[way], tmp_path / "run"

    async def act(endpoint: Endpoint) -> None:
        faulty = Faulty.at(endpoint.address, fault, tmp_path)
        error, kind = await driven(role, faulty), expected_end(role, way)
        assert type(error) is (kind or type(None)), error
        record, asked = RunRecord.read(folder), endpoint.requests
        assert record.status == ("failed" if kind else "finished")
        assert fault.answer is None or asked
        if error is not None and way != "wrong schema":
            assert "faulty" in error.message, "it names the model"
        assert fault.paid in (None, record.billed.nano_usd > 0)
        assert record.billed.unpriced == 0
        assert record.billed.tokens >= (asked if fault.paid else 0)
        if way in ("401", "refused connection"):
            return  # nothing is stored: with another key, or a server, the run goes on
        again = await driven(role, faulty, again=True)
        assert type(again) is type(error)
        if fault.waited:
            assert endpoint.requests > asked, "what nobody answered is asked again"
            return
        assert endpoint.requests == asked, "what is stored is not asked for again"
        assert RunRecord.read(folder).billed == record.billed

    await at_endpoint(fault, act)


@pytest.mark.parametrize("way", ["500 forever", "HTML 200", "wrong schema"])
async def test_only_a_judge_that_nobody_reaches_is_down(tmp_path: Path, way: str) -> None:
    """Over many cases the run ends early, and says whether there was an answer."""
    fault, answers = FAULTS[way], way == "wrong schema"

    async def act(endpoint: Endpoint) -> None:
        faulty = Faulty.at(endpoint.address, fault, tmp_path)
        setup = replace(with_judge(faulty, holdout=40), resources=(faulty.models,))
        run = start(setup, folder=tmp_path / "run")
        run.waits = minutes_in_no_time()
        try:
            with pytest.raises(BaselineUnmeasured if answers else EndpointDown) as error:
                await drive(run)
        finally:
            await run.close()
        words = "their judge gave no usable answer" if answers else "failed in the same way"
        assert words in error.value.message
        record = RunRecord.read(tmp_path / "run")
        assert (record.status, record.rows) == ("failed", ())
        assert record.billed.metric_calls < 40, "the other cases are not tried"

    await at_endpoint(fault, act)


@pytest.mark.parametrize("way", FAULTS)
async def test_a_delegation_whose_manager_misbehaves_says_so(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_time(**_: object) -> Waits:
        return minutes_in_no_time()

    monkeypatch.setattr("burnish.runs.run.Waits", no_time)
    fault = FAULTS[way]

    async def act(endpoint: Endpoint) -> None:
        faulty = Faulty.at(endpoint.address, fault, tmp_path)
        flow = FLOW.replace("manager: openai:boss", f"manager: {faulty.block}")
        flow = flow.replace("openai:hand", "anthropic:hand").replace("openai:eye", "anthropic:eye")
        path, folder = tmp_path / "workflow.yaml", tmp_path / "run"
        path.write_text(flow, encoding="utf-8")
        workflow = load_workflow(path, models=faulty.models).workflow
        try:
            result = await delegate(workflow, "Write a report.", folder=folder)
        except ModelRefused:
            assert way == "401"
            return
        finally:
            await faulty.models.close()
        assert (way == "401", result.status) == (False, "failed")
        billed = RunRecord.read(folder).billed
        assert fault.paid in (None, billed.nano_usd > 0)
        assert billed.unpriced == 0

    await at_endpoint(fault, act)
