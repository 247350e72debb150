"""Scripted models, targets, metrics and roles, and the contracts of their kinds."""

import asyncio
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar

from burnish.core.cases import Case
from burnish.core.content import Codec, Json, canonical, codec, short_id
from burnish.core.errors import Problem, ProposerFailed, RoleFailed
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome, Usage
from burnish.core.protocols import Description, Effects, Executor, Metric, Receipt, Target
from burnish.core.surfaces import Candidate, Origin, Surface, Value, out_of_bounds
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.keys import key_for
from burnish.models.model_block import ModelBlock
from burnish.models.prices import Prices
from burnish.models.providers import Provider
from burnish.models.references import ModelRef
from burnish.runs.driver import Ending, drive
from burnish.runs.ledger import TRIALS
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class CallCounter:
    """Counts calls in a file, so that the count survives the process that made them."""

    path: Path

    def count(self, what: str) -> None:
        """Write down that a call starts. One write, so that a kill cannot tear it."""
        handle = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            os.write(handle, f"{what}\n".encode())
        finally:
            os.close(handle)

    def calls(self) -> list[str]:
        """The calls that were started, in order."""
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


@dataclass(frozen=True, kw_only=True)
class ScriptedTarget:
    """A target whose agent is a function of candidate, case and draw.

    `respond` gives a reply or a whole Outcome, or raises as a real agent might. It may be a
    coroutine function.
    """

    respond: Callable[[Candidate, Case, int], Any]
    surfaces: Sequence[Surface]
    values: Mapping[str, Value]
    name: str = "scripted"
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    price: Spend = field(default_factory=lambda: Spend(calls=1))
    problems: Callable[[Candidate], Sequence[Problem]] = lambda _: ()
    seconds: float = 0.0
    """How long a call takes."""
    counter: CallCounter | None = None
    leaf: bool = True

    @property
    def description(self) -> Description:
        """What it is, as data."""
        return Description(kind=self.name, config=self.config)

    @property
    def baseline(self) -> Candidate:
        """The values it starts with."""
        return Candidate(values=self.values, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """What the script says is wrong."""
        return self.problems(candidate)

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Call the function."""
        del effects
        if self.counter is not None:
            self.counter.count(f"run {candidate.id} {case.id} {draw}")
        if self.seconds:
            await asyncio.sleep(self.seconds)
        answer = self.respond(candidate, case, draw)
        if inspect.isawaitable(answer):
            answer = await answer
        outcome = answer if isinstance(answer, Outcome) else Outcome(replies=(str(answer),))
        return Receipt(value=outcome, spend=self.price)

    def estimate(self, case: Case) -> Spend:
        """The price."""
        del case
        return self.price

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The values as JSON."""
        del home
        data = codec(Candidate).encode(candidate)
        assert isinstance(data, dict)
        text = json.dumps(data["values"], indent=2, sort_keys=True, ensure_ascii=False)
        return {"candidate.json": f"{text}\n".encode()}


class Outage(ConnectionError):
    """Nobody answered."""


@dataclass(frozen=True, kw_only=True)
class FreeMetric:
    """What metrics that compute have in common: they cost nothing."""

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash of its version."""
        return short_id([self.name, "1"])

    def estimate(self, case: Case) -> Spend:
        """Nothing: it computes."""
        del case
        return NOTHING


@dataclass(frozen=True, kw_only=True)
class ExpectedText(FreeMetric):
    """A metric: 1 when the reply contains what the case expects."""

    name: str = "expected_text"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id([self.name, self.version])

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Compare the last reply with the last turn's expectation."""
        del effects
        if case.expected is None:
            return []
        present = case.expected in outcome.output
        reason = "" if present else f"expected '{case.expected}' in '{outcome.output}'"
        return [Score(metric=self.name, value=float(present), passed=present, reason=reason)]


@dataclass(frozen=True, kw_only=True)
class ScriptedRole(Generic[Request, Answer]):
    """A role whose answers are a function of the request and the draw."""

    name: str
    respond: Callable[[Request, int], Answer]
    """May raise RoleFailed."""
    answer_type: type[Answer]
    request_type: type[Request]
    version: str = "1"
    price: Spend = field(default_factory=lambda: Spend(calls=1))
    seconds: float = 0.0
    counter: CallCounter | None = None
    leaf: bool = True

    @property
    def fingerprint(self) -> str:
        """A hash of its script's version."""
        return short_id([self.name, self.version])

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are kept."""
        return codec(self.answer_type)

    @property
    def priced(self) -> bool:
        """Whether the price is known."""
        return not self.price.unpriced

    def estimate(self, request: Request, /) -> Spend:
        """The price."""
        del request
        return self.price

    def encode(self, request: Request, /) -> Json:
        """The request as data."""
        return codec(self.request_type).encode(request)

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """Call the function."""
        del effects
        if self.counter is not None:
            self.counter.count(f"role {self.name} {draw}")
        if self.seconds:
            await asyncio.sleep(self.seconds)
        try:
            return Receipt(value=self.respond(request, draw), spend=self.price)
        except RoleFailed as error:
            raise RoleFailed(error.message, remedy=error.remedy, spend=self.price) from error


# -- A scripted model -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ScriptedBackend:
    """Answers by a function of the request and the draw; it may raise as real endpoints do.

    Hand it to `Models(backends={"openai": ScriptedBackend(…)})`.
    """

    respond: Callable[[ChatRequest, int], str | ChatReply]
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])
    """Every request that reached it, attempts included."""
    counter: CallCounter | None = None

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """Call the function."""
        self.asked.append(request)
        if self.counter is not None:
            self.counter.count(f"model {ref.label} {draw}")
        answer = self.respond(request, draw)
        if isinstance(answer, ChatReply):
            return answer
        words = sum(len(message.content.split()) for message in request.messages)
        usage = Usage(requests=1, input_tokens=words, output_tokens=len(answer.split()))
        return ChatReply(text=answer, usage=usage, model=ref.name)

    def check(self, ref: ModelRef) -> None:
        """A script can always be asked."""
        del ref

    def identity(self, ref: ModelRef) -> str:
        """A script is its reference."""
        del ref
        return ""

    async def close(self) -> None:
        """There is nothing to let go of."""


# -- A run's story --------------------------------------------------------------------------------


_TIMES = {"at", "timestamp", "seconds", "split_seconds", "duration_sec", "latency_sec", "billed"}


def story(trials: Path) -> list[Any]:
    """The rows of a trials.jsonl without times and billed amounts."""
    lines = trials.read_text(encoding="utf-8").splitlines()
    return [_timeless(json.loads(line)) for line in lines]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _TIMES}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_timeless(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


# -- Contract tests -------------------------------------------------------------------------------


_HOME = Path("candidates") / "iter-00"


async def check_target(target: Target, cases: Sequence[Case]) -> None:
    """A target describes itself, stands by its baseline, runs cases and exports candidates."""
    described, again = target.description, target.description
    canonical(dict(described.config))
    assert described.fingerprint == again.fingerprint, "the fingerprint changes between two looks"
    surfaces = {surface.id: surface for surface in target.surfaces}
    assert len(surfaces) == len(target.surfaces), "two surfaces have the same id"
    baseline = target.baseline
    assert set(baseline.values) == set(surfaces), "the baseline does not give every surface a value"
    assert not out_of_bounds(baseline.values, surfaces), "the baseline is out of its own bounds"
    assert not target.check(baseline), "the target turns its own baseline away"
    for case in cases:
        await _check_run(target, case)
    exported = target.export(baseline, _HOME)
    assert exported == target.export(baseline, _HOME), "exporting twice gives different files"
    for path in exported:
        safe = not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts
        assert safe, f"the exported path '{path}' leaves the candidate's folder"


async def _check_run(target: Target, case: Case) -> None:
    effects = DirectEffects()
    receipt = await target.run(target.baseline, case, draw=0, effects=effects)
    decoded = codec(Outcome).decode(codec(Outcome).encode(receipt.value))
    canonical(codec(Outcome).encode(decoded))
    assert decoded == receipt.value, "the outcome does not survive the journal"
    if target.leaf:
        assert receipt.spend.calls, "a leaf target must say that its run is a call"
    else:
        assert not receipt.spend.calls, "only leaf calls carry cost; this target counts twice"
    finished = receipt.value.failure is None
    assert not finished or len(receipt.value.replies) == len(case.turns), "one reply a turn"


async def check_metric(metric: Metric, case: Case, outcomes: Sequence[Outcome]) -> None:
    """A metric scores what it is given, names itself, and says the same twice."""
    assert metric.fingerprint == metric.fingerprint, "the fingerprint changes between two looks"
    for outcome in (*outcomes, Outcome(replies=("",)), Outcome(replies=("日本語 🙂",))):
        scores = await metric.score(case, outcome, effects=DirectEffects())
        for score in scores:
            assert score.metric == metric.name, f"scores under the name '{score.metric}'"
            assert codec(Score).decode(codec(Score).encode(score)) == score
            assert score.passed is not False or score.reason, "fails without a reason"
        if not metric.estimate(case).calls:
            again = await metric.score(case, outcome, effects=DirectEffects())
            assert list(again) == list(scores), "computes, yet scores differently the second time"


async def check_strategy(make: Callable[[], Setup], folder: Path, *, cut_at: int = 3) -> Ending:
    """A strategy ends, keeps to its budget, and resumes to the same story.

    `make` gives a fresh Setup. The run is made once in one go and once cut after `cut_at`
    trials and resumed; both must tell the same, and nothing may be paid twice.
    """
    whole = await _driven(make(), folder / "whole")
    cut = replace(make(), budget=replace(make().budget, max_trials=cut_at))
    cut = replace(cut, dataset=replace(cut.dataset, test=()))
    untested = replace(make(), dataset=replace(make().dataset, test=()))
    reference = await _driven(untested, folder / "untested")
    with suppress(ProposerFailed):  # the cut may come before a role's first answer
        await _driven(cut, folder / "cut")
    resumed = await _driven(untested, folder / "cut")
    expected = story(folder / "untested" / TRIALS)
    assert expected, "the strategy recorded no trial"
    assert story(folder / "cut" / TRIALS) == expected, "a resumed run tells another story"
    assert resumed.best.id == reference.best.id == whole.best.id, "a resume ends elsewhere"
    assert resumed.spent == reference.spent, "a resume spends differently"
    assert resumed.billed == reference.billed, "a resume pays for something twice"
    return whole


def check_provider(row: Provider) -> None:
    """An installed provider is found by each of its names, in references and in blocks of files,
    keeps its key to its own hosts, and has prices for the models that it lists."""
    is_complete = row.address or row.protocol == "embedded"
    address = "" if is_complete else f"https://{row.hosts[0]}"
    for name in row.names:
        assert ModelRef.parse(f"{name}:m").provider == row.name, f"'{name}:m' is somebody else's"
        block = ModelBlock.model_validate({"provider": name, "name": "m", "base_url": address})
        assert block.reference().provider == row.name, f"'{name}' in a file is somebody else"
    ref = ModelRef(provider=row.name, name="m", base_url=address)
    if row.key_variables:
        environ = {row.key_variables[0]: "key"}
        assert key_for(ref, environ) == "key", "its usual variable is not looked at"
        elsewhere = replace(ref, base_url="https://elsewhere.invalid/v1")
        assert key_for(elsewhere, environ) is None, "its key goes to the host of a stranger"
    else:
        assert row.key_optional == "always", "it needs a key, and no variable holds one"
    assert row.probe is None or row.address, "a health request needs an address"
    for model in row.prices:
        assert Prices().known(replace(ref, name=model)), f"the price of {model} is not found"
    assert not row.is_local or Prices().nano_usd(ref, Usage(requests=1, input_tokens=1)) == 0


async def _driven(setup: Setup, folder: Path) -> Ending:
    run = _opened(setup, folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def _opened(setup: Setup, folder: Path) -> Run:
    return resume(setup, folder) if folder.exists() else start(setup, folder=folder)


async def check_executor(make: Callable[[int], Executor]) -> None:
    """An executor keeps the order, the bound, the place of an error, and leaves nothing behind.

    `make` gives an executor for so many units at once.
    """
    await _check_order_and_bound(make(4))
    await _check_error_in_order(make(4))
    await _check_closing(make(4))
    assert [r async for r in make(1).map([], _echo)] == [], "nothing to do gives nothing"


async def _echo(unit: int) -> int:
    return unit


async def _check_order_and_bound(executor: Executor) -> None:
    running = most = 0

    async def work(unit: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (unit % 3))
        running -= 1
        return unit

    results = [result async for result in executor.map(range(50), work)]
    assert results == list(range(50)), "the results are out of order"
    assert 1 < most <= 4, f"{most} units ran at once where 4 may"


async def _check_error_in_order(executor: Executor) -> None:
    async def work(unit: int) -> int:
        if unit == 3:
            raise LookupError("third")
        await asyncio.sleep(0.002)
        return unit

    seen: list[int] = []
    try:
        async with aclosing(executor.map(range(10), work)) as results:
            async for result in results:
                seen.append(result)  # noqa: PERF401 - what came before the error is the point
    except LookupError:
        assert seen == [0, 1, 2], "an error is raised at its own place in the order"
    else:
        raise AssertionError("an error was swallowed")


async def _check_closing(executor: Executor) -> None:
    running = 0

    async def work(unit: int) -> int:
        nonlocal running
        running += 1
        try:
            await asyncio.sleep(0 if unit == 0 else 30)
        finally:
            running -= 1
        return unit

    async with aclosing(executor.map(range(100), work)) as results:
        async for _ in results:
            break
    assert running == 0, "work goes on after the results were closed"
