"""The searches that are compared in small worlds, each under one budget of calls or of cost."""

import asyncio
import os
import random
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar, cast

from benchmarks.small_worlds import (
    Bill,
    Judged,
    SmallCase,
    SmallWorld,
    Texts,
    best_score,
    cases_of,
    judged_answer,
    reflect,
    run,
    start_of,
    text_names,
    tokens,
    true_score,
    world_of,
)
from burnish.core.cases import Case, Dataset, Outcome
from burnish.core.content import Json, short_id
from burnish.core.evaluations import Objective, Score
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Effects, Receipt
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.driver import drive
from burnish.runs.events import Advanced, Event, Tick
from burnish.runs.run import Run
from burnish.runs.setup import ProposerOffer, Setup, start
from burnish.strategies.auto.search import Auto
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import (
    ROLE,
    Reflection,
    ReflectionProposer,
    ReflectRequest,
)
from burnish.strategies.reflective.search import Reflective
from burnish.testing.doubles import FreeMetric, ScriptedRole, ScriptedTarget

T = TypeVar("T")

BURNISH = "burnish reflective"
AUTO = "burnish auto"
GEPA = "gepa 0.1.4"
GEPA_MERGE = "gepa 0.1.4, merge"
RANDOM = "random search"
MIPRO = "MIPROv2, dspy 3.4.1"
MINIBATCH = 3
_USD = 0.001
"""What a call of the agent costs; every price here is a multiple of it."""
_WRONG = re.compile(r"^(?:Wrong|Not good enough) by [^:\n]+: (.+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One search to be made."""

    system: str
    world: str
    seed: int
    budget: int
    price: float
    """What a reflection costs, in calls; 0 compares at equal calls."""
    tokens: int = 0
    """Tokens that cost as much as a call, where tokens are what is paid for; 0 elsewhere."""

    def cost(self, bill: "Bill | Result") -> float:
        """What was used, in calls."""
        if self.tokens:
            return bill.tokens / self.tokens
        return bill.calls + self.price * bill.reflections

    def search(self) -> "Result":
        """Make it."""
        world = world_of(self.world, self.seed)
        desk = Desk(world=world, task=self)
        returned = _SEARCHES[self.system](desk)
        inside = [truth for cost, truth in desk.steps if cost <= self.budget]
        return Result(
            task=self,
            start=desk.steps[0][1],
            best=best_score(world),
            truth=inside[-1],
            returned=true_score(world, returned),
            calls=desk.bill.calls,
            reflections=desk.bill.reflections,
            tokens=desk.bill.tokens,
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a search."""

    task: Task
    start: float
    best: float
    """What the best texts of the world are worth."""
    truth: float
    """What the candidate is worth that led when the budget was used."""
    returned: float
    """What the returned candidate is worth; another one where the search went over its budget."""
    calls: int
    reflections: int
    tokens: int

    @property
    def cost(self) -> float:
        """What the budget was used for, in calls."""
        return self.task.cost(self)


@dataclass(kw_only=True)
class Desk:
    """A world under a budget, and who led in it at what cost."""

    world: SmallWorld
    task: Task
    bill: Bill = field(default_factory=Bill)
    steps: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Cost so far and true score, whenever another candidate led; the baseline from the start."""

    def __post_init__(self) -> None:
        self.steps.append((0.0, true_score(self.world, start_of(self.world))))

    @property
    def cost(self) -> float:
        return self.task.cost(self.bill)

    def fits(self, calls: int, reflections: int = 0) -> bool:
        """Whether the budget has room for so much more; tokens are only estimated."""
        return self.cost + calls + self.task.price * reflections <= self.task.budget

    def spent(self, state: object) -> bool:
        """Whether not even a call fits, as gepa asks between its rounds."""
        del state
        return not self.fits(1)

    def lead(self, texts: Texts) -> None:
        """Another candidate leads from here on."""
        self.steps.append((self.cost, true_score(self.world, texts)))


# -- Random search --------------------------------------------------------------------------------


def _random(desk: Desk) -> Texts:
    """One-shot rewrites of the baseline by three cases each; the best on holdout is returned."""
    world, rng = desk.world, random.Random(f"random search {desk.task.seed}")
    train, holdout = cases_of(world)
    best = baseline = start_of(world)
    if not desk.fits(len(holdout)):
        return best
    score = fmean(run(world, best, case, desk.bill).score for case in holdout)
    while desk.fits(MINIBATCH + len(holdout), 1):
        judged = [run(world, baseline, case, desk.bill) for case in rng.sample(train, MINIBATCH)]
        reasons = [each.reason for each in judged if each.reason]
        if not reasons:
            continue
        name = rng.choice(text_names(world))
        _, text = reflect(world, name, baseline[name], reasons, desk.bill)
        texts = {**baseline, name: text}
        mean = fmean(run(world, texts, case, desk.bill).score for case in holdout)
        if mean > score:
            best, score = texts, mean
            desk.lead(texts)
    return best


# -- gepa -----------------------------------------------------------------------------------------


def _gepa(desk: Desk, *, merge: bool) -> Texts:
    """gepa's own loop and defaults. It looks at its limit between rounds, and so goes over it."""
    gepa: Any = import_module("gepa")
    train, holdout = cases_of(desk.world)
    result = gepa.optimize(
        seed_candidate=start_of(desk.world),
        trainset=train,
        valset=holdout,
        adapter=_Adapter(desk),
        use_merge=merge,
        stop_callbacks=[desk.spent],
        callbacks=[_Watcher(desk)],
        logger=_Log(),
        seed=desk.task.seed,
    )
    return result.best_candidate


class _Adapter:
    """What gepa asks of a system: evaluate, describe what went wrong, propose new texts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._batch: Any = import_module("gepa.core.adapter").EvaluationBatch

    def evaluate(
        self, batch: list[SmallCase], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Run and score a candidate on some cases; each look is a new draw."""
        desk = self._desk
        judged = [run(desk.world, candidate, case, desk.bill) for case in batch]
        return self._batch(
            outputs=[each.answer for each in judged],
            scores=[each.score for each in judged],
            trajectories=[each.reason for each in judged] if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """The reasons of failures: what the reflector of burnish is shown too."""
        del candidate
        records = [{"Feedback": reason} for reason in evaluated.trajectories if reason]
        return dict.fromkeys(components, records)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        records: Mapping[str, Sequence[Mapping[str, str]]],
        components: list[str],
    ) -> dict[str, str]:
        """The scripted reflector, once for each text."""
        desk, texts = self._desk, dict[str, str]()
        for name in components:
            reasons = [record["Feedback"] for record in records[name]]
            texts[name] = reflect(desk.world, name, candidate[name], reasons, desk.bill)[1]
        return texts


class _Watcher:
    """Hears from gepa who leads."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """A candidate was measured on all of holdout."""
        if event["is_best_program"] and event["parent_ids"]:
            self._desk.lead(event["candidate"])


class _Log:
    """gepa goes on after an error of its adapter; here that would be a loss that is none."""

    def log(self, message: str) -> None:
        """Raise what gepa only writes down."""
        if "Exception" in message or "Traceback" in message:
            raise RuntimeError(message)


# -- MIPROv2 --------------------------------------------------------------------------------------


def _mipro(desk: Desk) -> Texts:
    """MIPROv2 of DSPy, which is only installed in an environment of its own."""
    return import_module("benchmarks.small_mipro").search(desk)


# -- burnish --------------------------------------------------------------------------------------


def _burnish(desk: Desk) -> Texts:
    """burnish with its defaults; a price of reflections is a limit in US dollars, or in tokens."""
    return _search(burnish_setup(desk), desk)


def _auto(desk: Desk) -> Texts:
    """The strategy auto with its defaults; texts are all that it can change in these worlds."""
    setup, names = burnish_setup(desk), text_names(desk.world)
    role = cast("Reflective", setup.strategy).reflector
    begin = partial(ReflectionProposer, reflector=role, fields=names)
    offer = ProposerOffer(name="reflective", surfaces=tuple(names), begin=begin, roles=(role,))
    return _search(replace(setup, strategy=Auto(offers=(offer,))), desk)


def _search(setup: Setup, desk: Desk) -> Texts:
    # Memory, where the machine has it as a folder: nobody needs these runs afterwards.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as home:
        os.environ["BURNISH_HOME"] = home
        return asyncio.run(_driven(setup, desk, Path(home) / "run"))


def burnish_setup(desk: Desk, settings: ReflectiveSettings | None = None) -> Setup:
    """Everything that a run of burnish in a small world needs."""
    world, task = desk.world, desk.task
    train, holdout = cases_of(world)
    cases = {case.name: case for case in (*train, *holdout)}
    version = short_id([task.world, task.seed])
    return Setup(
        target=_Agent(
            desk=desk,
            name="support desk",
            config={"world": version},
            respond=partial(_respond, desk, cases),
            surfaces=tuple(TextSurface(id=name) for name in text_names(world)),
            values=start_of(world),
            price=_price(task),
        ),
        metrics=(_Judge(name="judge"),),
        objective=Objective(weights={"judge": 1.0}),
        dataset=Dataset(train=_cases(train), holdout=_cases(holdout)),
        strategy=Reflective(
            settings=settings or ReflectiveSettings(),
            reflector=_Reflector(
                desk=desk,
                name=ROLE,
                respond=partial(_reflect, desk),
                request_type=ReflectRequest,
                answer_type=Reflection,
                version=version,
                price=_price(task, task.price),
            ),
        ),
        budget=_budget(task),
        seed=task.seed,
    )


def _budget(task: Task) -> Budget:
    if task.tokens:
        return Budget(max_tokens=task.budget * task.tokens)
    if task.price:
        return Budget(max_usd=task.budget * _USD)
    return Budget(max_metric_calls=task.budget)


def _price(task: Task, calls: float = 1.0) -> Spend:
    """What so many calls cost; in tokens that is an estimate."""
    if task.tokens:
        return Spend(calls=1, tokens_in=round(calls * task.tokens))
    return Spend(calls=1, nano_usd=to_nano(calls * _USD))


@dataclass(frozen=True, kw_only=True)
class _Agent(ScriptedTarget):
    """Where tokens are paid for, a call costs those that it took."""

    desk: Desk

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Call the function."""
        before = self.desk.bill.tokens
        receipt = await super().run(candidate, case, draw=draw, effects=effects)
        return _metered(self.desk, receipt, before)


@dataclass(frozen=True, kw_only=True)
class _Reflector(ScriptedRole[ReflectRequest, Reflection]):
    """Where tokens are paid for, a reflection costs those that it took."""

    desk: Desk

    async def answer(
        self, request: ReflectRequest, /, *, draw: int, effects: Effects
    ) -> Receipt[Reflection]:
        """Call the function."""
        before = self.desk.bill.tokens
        receipt = await super().answer(request, draw=draw, effects=effects)
        return _metered(self.desk, receipt, before)


def _metered(desk: Desk, receipt: Receipt[T], before: int) -> Receipt[T]:
    # Nothing here waits, so no other call has added to the bill.
    if not desk.task.tokens:
        return receipt
    return replace(receipt, spend=Spend(calls=1, tokens_in=desk.bill.tokens - before))


async def _driven(setup: Setup, desk: Desk, folder: Path) -> Texts:
    search = start(setup, folder=folder)
    search.listen(_Leaders(search, desk))
    try:
        ending = await drive(search)
    finally:
        await search.close()
    return _texts(ending.best)


class _Leaders:
    """Hears from burnish who leads."""

    def __init__(self, search: Run, desk: Desk) -> None:
        self._search = search
        self._desk = desk

    def event(self, event: Event) -> None:
        """Another candidate leads."""
        if event.kind in Advanced.kinds:
            self._desk.lead(_texts(self._search.incumbent))

    def tick(self, tick: Tick) -> None:
        """Nothing: cases that end change no leader."""


@dataclass(frozen=True, kw_only=True)
class _Judge(FreeMetric):
    """Reads what the world's judge said when the answer was made."""

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        assert isinstance(outcome.data, dict)
        value, reason = outcome.data["score"], outcome.data["reason"]
        assert isinstance(value, float)
        return [Score(metric=self.name, value=value, passed=value >= 1, reason=str(reason))]


def _cases(cases: Sequence[SmallCase]) -> tuple[Case, ...]:
    return tuple(Case.single(case.question, name=case.name) for case in cases)


def _texts(candidate: Candidate) -> dict[str, str]:
    return {name: str(text) for name, text in candidate.values.items()}


def _respond(
    desk: Desk, cases: Mapping[str, SmallCase], candidate: Candidate, case: Case, draw: int
) -> Outcome:
    texts, asked = _texts(candidate), cases[case.name]
    judged: Judged = judged_answer(desk.world, texts, asked, draw)
    desk.bill.calls += 1
    desk.bill.tokens += tokens(*texts.values(), asked.question, judged.answer)
    data: dict[str, Json] = {"score": judged.score, "reason": judged.reason}
    return Outcome(replies=(judged.answer,), data=data, nano_usd=to_nano(_USD))


def _reflect(desk: Desk, request: ReflectRequest, draw: int) -> Reflection:
    del draw
    reasons = _WRONG.findall(request.records)
    name, text = request.field, request.current_text
    diagnosis, new_text = reflect(desk.world, name, text, reasons, desk.bill)
    return Reflection(diagnosis=diagnosis, new_text=new_text)


_SEARCHES: Mapping[str, Callable[[Desk], Texts]] = {
    BURNISH: _burnish,
    AUTO: _auto,
    GEPA: partial(_gepa, merge=False),
    GEPA_MERGE: partial(_gepa, merge=True),
    RANDOM: _random,
    MIPRO: _mipro,
}
SYSTEMS = tuple(_SEARCHES)
