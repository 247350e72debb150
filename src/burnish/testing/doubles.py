"""Scripted models, targets, metrics and roles, and contract tests for such parts."""

import asyncio
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar

from burnish.core.cases import Case, Dataset, Outcome, Usage
from burnish.core.content import Codec, Json, canonical, codec, short_id
from burnish.core.errors import Problem, ProposerFailed, RoleFailed
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend, to_nano
from burnish.core.protocols import Description, Effects, Executor, Metric, Receipt, Target
from burnish.core.surfaces import Candidate, Origin, Surface, Value, out_of_bounds
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest, Prices
from burnish.models.factory import ModelBlock
from burnish.models.providers import Provider
from burnish.models.references import ModelRef, key_for
from burnish.models.roles import read_prompt, shipped
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.events import BASELINE
from burnish.runs.ledger import TRIALS
from burnish.runs.setup import Setup, resume, start

_MARK = re.compile(r"\{\{\s*(#|/)?\s*(\w+)\s*\}\}(\n?)")


def read_role_request(role: str, message: str) -> dict[str, str] | None:
    """The fields of a request to a role, by name; None if the message is for another role.

    A field that the message leaves out is empty. What a second request adds at its end is ignored.
    """
    match = _pattern(role).match(message)
    return None if match is None else {name: text or "" for name, text in match.groupdict().items()}


@cache
def _pattern(role: str) -> re.Pattern[str]:
    return re.compile("".join(_pieces(read_prompt(shipped()[role]).user.rstrip())), re.DOTALL)


def _pieces(template: str) -> Iterator[str]:
    """The template as a regular expression: sections are optional, fields are groups."""
    seen: set[str] = set()
    end = 0
    for mark in _MARK.finditer(template):
        yield re.escape(template[end : mark.start()])
        end = mark.end()
        if mark[1]:
            yield "(?:" if mark[1] == "#" else ")?"
        else:
            yield f"(?P={mark[2]})" if mark[2] in seen else f"(?P<{mark[2]}>.*?)"
            seen.add(mark[2])
            end -= len(mark[3])
    yield re.escape(template[end:])


Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class CallCounter:
    """Counts calls in a file, so that the count survives the process."""

    path: Path

    def count(self, what: str) -> None:
        """Record the start of a call, in one write so that a kill cannot split it."""
        handle = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            os.write(handle, f"{what}\n".encode())
        finally:
            os.close(handle)

    def calls(self) -> list[str]:
        """The started calls, in order."""
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


@dataclass(frozen=True, kw_only=True)
class ScriptedTarget:
    """A target whose agent is a function of candidate, case and draw.

    `respond` returns a reply or an Outcome, or raises as a real agent might. It may be async.
    """

    respond: Callable[[Candidate, Case, int], Any]
    surfaces: Sequence[Surface]
    values: Mapping[str, Value]
    name: str = "scripted"
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    price: Spend = field(default_factory=lambda: Spend(calls=1))
    problems: Callable[[Candidate], Sequence[Problem]] = lambda _: ()
    seconds: float = 0.0
    """The duration of a call."""
    counter: CallCounter | None = None
    leaf: bool = True

    @property
    def description(self) -> Description:
        """Its name and config."""
        return Description(kind=self.name, config=self.config)

    @property
    def baseline(self) -> Candidate:
        """The initial values."""
        return Candidate(values=self.values, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """The problems that the script reports."""
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


class _Outage(ConnectionError):
    """The endpoint of a scripted world did not answer."""


def luck(*names: object) -> float:
    """A number in [0, 1) that depends on the names alone."""
    material = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") / 2**64


@dataclass(frozen=True, kw_only=True)
class ScriptedWorld:
    """The size and failure rates that scripted worlds have in common."""

    train: int
    holdout: int
    test: int = 0
    crash_rate: float = 0.0
    """How often the agent itself fails."""
    outage_rate: float = 0.0
    """How often the infrastructure fails."""
    call_seconds: float = 0.0
    usd_per_call: float = 0.0004
    seed: int = 7

    def dataset_of(self, case: Callable[[int], Case]) -> Dataset:
        """Numbered cases, divided into splits."""
        held = self.train + self.holdout
        cases = tuple(case(number) for number in range(held + self.test))
        return Dataset(
            train=cases[: self.train], holdout=cases[self.train : held], test=cases[held:]
        )

    def raise_failures(self, fate: Callable[[str], float]) -> None:
        """Raise as an agent or its endpoint does, at the rates of this world."""
        if fate("outage") < self.outage_rate:
            raise _Outage("the model endpoint did not answer")
        if fate("crash") < self.crash_rate:
            raise ValueError("the agent's answer was not valid JSON")

    def price(self, tokens_in: int, tokens_out: int) -> Spend:
        """What one call costs."""
        nano_usd = to_nano(self.usd_per_call)
        return Spend(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, nano_usd=nano_usd)


@dataclass(frozen=True, kw_only=True)
class FreeMetric:
    """A base for metrics that only compute and cost nothing."""

    name: str
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, self.version])

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING


@dataclass(frozen=True, kw_only=True)
class ExpectedText(FreeMetric):
    """A metric: 1 when the reply contains what the case expects."""

    name: str = "expected_text"

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
        """A hash of its name and version."""
        return short_id([self.name, self.version])

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are stored."""
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
            raise RoleFailed(
                error.message, remedy=error.remedy, spend=self.price, missing=error.missing
            ) from error


@dataclass(frozen=True, kw_only=True)
class ScriptedBackend:
    """A model whose answers are a function of the request and the draw, which may raise.

    Pass it to `Models(backends={"openai": ScriptedBackend(…)})`.
    """

    respond: Callable[[ChatRequest, int], str | ChatReply]
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])
    """Every request it received, including retries."""
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
        """A script is always available."""
        del ref

    def identity(self, ref: ModelRef) -> str:
        """Empty: the reference identifies the script."""
        del ref
        return ""

    async def close(self) -> None:
        """There is nothing to close."""


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
@contextmanager
def raises(kind: type[Exception], text: str = "") -> Generator[None, None, None]:
    """Like `pytest.raises`, with the exact message; pytest need not be installed."""
    try:
        yield
    except kind as error:
        assert text in ("", str(error)), f"said: {error}"  # noqa: PT017 - this is not a test file
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


async def check_target(target: Target, cases: Sequence[Case]) -> None:
    """Check that a target describes itself, accepts its baseline, runs cases and exports."""
    described, again = target.description, target.description
    canonical(dict(described.config))
    assert described.fingerprint == again.fingerprint, "the fingerprint is not stable"
    surfaces = {surface.id: surface for surface in target.surfaces}
    assert len(surfaces) == len(target.surfaces), "two surfaces have the same id"
    baseline = target.baseline
    assert set(baseline.values) == set(surfaces), "the baseline does not give every surface a value"
    assert not out_of_bounds(baseline.values, surfaces), "the baseline is out of its own bounds"
    assert not target.check(baseline), "the target rejects its own baseline"
    for case in cases:
        await _check_run(target, case)
    home = Path("candidates") / "iter-00"
    exported = target.export(baseline, home)
    assert exported == target.export(baseline, home), "exporting twice gives different files"
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
    assert not finished or len(receipt.value.replies) == len(case.turns), "one reply per turn"


async def check_metric(metric: Metric, case: Case, outcomes: Sequence[Outcome]) -> None:
    """Check that a metric scores under its own name, with reasons, and the same twice."""
    assert metric.fingerprint == metric.fingerprint, "the fingerprint is not stable"
    for outcome in (*outcomes, Outcome(replies=("",)), Outcome(replies=("日本語 🙂",))):
        scores = await metric.score(case, outcome, effects=DirectEffects())
        for score in scores:
            assert score.metric == metric.name, f"scores under the name '{score.metric}'"
            assert codec(Score).decode(codec(Score).encode(score)) == score
            assert score.passed is not False or score.reason, "a failing score has no reason"
        if not metric.estimate(case).calls:
            again = await metric.score(case, outcome, effects=DirectEffects())
            assert list(again) == list(scores), "computed scores are not repeatable"


async def check_strategy(make: Callable[[], Setup], folder: Path, *, cut_at: int = 3) -> Ending:
    """Check that a strategy ends, keeps its budget, and gives the same result when resumed.

    `make` returns a new Setup. One run is not interrupted; another stops after `cut_at` trials and
    is resumed. Both must record the same, and nothing may be paid twice.
    """
    whole = await _driven(make(), folder / "whole")
    cut = replace(make(), budget=replace(make().budget, max_trials=cut_at))
    cut = replace(cut, dataset=replace(cut.dataset, test=()))
    untested = replace(make(), dataset=replace(make().dataset, test=()))
    reference = await _driven(untested, folder / "untested")
    with suppress(ProposerFailed):  # the cut may come before a role's first answer
        await _driven(cut, folder / "cut")
    trials = sum(row.trial.phase != BASELINE for row in RunRecord.read(folder / "cut").rows)
    assert trials <= cut_at, f"{trials} trials were recorded, with a limit of {cut_at}"
    resumed = await _driven(untested, folder / "cut")
    expected = story(folder / "untested" / TRIALS)
    assert expected, "the strategy recorded no trial"
    assert story(folder / "cut" / TRIALS) == expected, "a resumed run records other trials"
    assert resumed.best.id == reference.best.id == whole.best.id, "a resumed run ends elsewhere"
    assert resumed.spent == reference.spent, "a resumed run spends another amount"
    assert resumed.billed == reference.billed, "a resumed run pays for something twice"
    return whole


def check_provider(row: Provider) -> None:
    """Check that a provider is found by each of its names, sends its key only to its own hosts,
    and has prices for the models that it lists."""
    is_complete = row.address or row.protocol == "embedded"
    address = "" if is_complete else f"https://{row.hosts[0]}"
    for name in row.names:
        assert ModelRef.parse(f"{name}:m").provider == row.name, f"'{name}:m' is another provider"
        block = ModelBlock.model_validate({"provider": name, "name": "m", "base_url": address})
        assert block.reference().provider == row.name, f"'{name}' in a file is another provider"
    ref = ModelRef(provider=row.name, name="m", base_url=address)
    if row.key_variables:
        environ = {row.key_variables[0]: "key"}
        assert key_for(ref, environ) == "key", "its key variable is not read"
        elsewhere = replace(ref, base_url="https://elsewhere.invalid/v1")
        assert key_for(elsewhere, environ) is None, "its key is sent to a foreign host"
    else:
        assert row.key_optional == "always", "it needs a key, but names no variable for it"
    assert row.probe is None or row.address, "a health request needs an address"
    for model in row.prices:
        assert Prices().known(replace(ref, name=model)), f"the price of {model} is not found"
    assert not row.is_local or Prices().nano_usd(ref, Usage(requests=1, input_tokens=1)) == 0


async def _driven(setup: Setup, folder: Path) -> Ending:
    is_run = folder.exists()  # noqa: ASYNC240 - nothing else runs meanwhile
    run = resume(setup, folder) if is_run else start(setup, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


async def check_executor(make: Callable[[int], Executor]) -> None:
    """Check an executor's order, concurrency limit, errors and cleanup.

    `make` returns an executor for a given number of concurrent units.
    """
    await _check_order_and_bound(make(4))
    await _check_error_in_order(make(4))
    await _check_closing(make(4))

    async def echo(unit: int) -> int:
        return unit

    assert [r async for r in make(1).map([], echo)] == [], "no units must give no results"


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
    assert 1 < most <= 4, f"{most} units ran at once, but the limit is 4"


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
    assert running == 0, "work continues after the results were closed"
