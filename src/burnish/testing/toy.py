"""A small world with a known best, and a strategy that climbs it."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from burnish.core.cases import Case, Dataset, Split, Turn
from burnish.core.comparisons import Pair
from burnish.core.content import Json, short_id, stream
from burnish.core.errors import Problem, RoleFailed
from burnish.core.evaluations import Evaluation, Score
from burnish.core.gates import sigma
from burnish.core.money import Spend, to_nano
from burnish.core.outcomes import Outcome, Step, Trace, Usage
from burnish.core.protocols import Effects, Role, Target
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    NumberSurface,
    Origin,
    TextSurface,
    Value,
)
from burnish.core.trials import Decision, SplitResult, Trial
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.runs.events import PhaseStarted
from burnish.runs.run import Run
from burnish.testing.doubles import (
    CallCounter,
    FreeMetric,
    Outage,
    ScriptedRole,
    ScriptedTarget,
)

KIND = "toy agent"
"""The kind of target that the agent of this world is."""
RULES = {
    "name": "Greet the customer by name.",
    "order": "Repeat the order number.",
    "date": "Say when the matter will be settled.",
    "next step": "Offer one next step.",
    "apology": "Apologise when something went wrong.",
}
INSTRUCTIONS = "You answer messages to {shop}."
SURFACES = (
    TextSurface(id="instructions", max_chars=600, placeholders=("{shop}",)),
    NumberSurface(id="model.temperature", low=0.0, high=1.0),
    ChoiceSurface(id="model.tone", choices=("formal", "plain", "chatty")),
)
_TOPICS = ("a late parcel", "a wrong colour", "a missing invoice", "a broken lamp", "a refund")


@dataclass(frozen=True, kw_only=True)
class ToyWorld:
    """How large and how rough the world is."""

    train: int = 24
    holdout: int = 12
    test: int = 16
    noise: float = 0.05
    """How often a rule is forgotten at the best temperature."""
    crash_rate: float = 0.0
    """How often the agent itself fails."""
    outage_rate: float = 0.0
    """How often the infrastructure fails."""
    call_seconds: float = 0.0
    usd_per_call: float = 0.0004
    seed: int = 7


def dataset(world: ToyWorld) -> Dataset:
    """Cases of the world, dealt into splits."""
    whole = world.train + world.holdout + world.test
    cases = [_case(world, number) for number in range(whole)]
    held = world.train + world.holdout
    return Dataset(
        train=tuple(cases[: world.train]),
        holdout=tuple(cases[world.train : held]),
        test=tuple(cases[held:]),
    )


def target(world: ToyWorld, *, counter: CallCounter | None = None) -> ScriptedTarget:
    """The support agent of this world."""
    config: dict[str, Json] = {
        "noise": world.noise,
        "crash_rate": world.crash_rate,
        "outage_rate": world.outage_rate,
        "usd_per_call": world.usd_per_call,
    }
    return ScriptedTarget(
        name=KIND,
        config=config,
        respond=lambda candidate, case, draw: _respond(world, candidate, case, draw),
        surfaces=SURFACES,
        values={"instructions": INSTRUCTIONS, "model.temperature": 0.9, "model.tone": "formal"},
        price=Spend(calls=1, tokens_in=180, tokens_out=60, nano_usd=to_nano(world.usd_per_call)),
        seconds=world.call_seconds,
        counter=counter,
    )


@dataclass(frozen=True, kw_only=True)
class RulesKept(FreeMetric):
    """A metric: the share of what the case asks for that is in the reply."""

    name: str = "rules_kept"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Look for each rule's mark in the reply."""
        del effects
        rules = (case.expected or "").split(", ")
        forgotten = [rule for rule in rules if f"[{rule}]" not in outcome.output]
        return [
            Score(
                metric=self.name,
                value=1 - len(forgotten) / len(rules),
                passed=not forgotten,
                reason=f"does not keep: {', '.join(forgotten)}" if forgotten else "",
            )
        ]


def _case(world: ToyWorld, number: int) -> Case:
    rng = stream(world.seed, "case", number)
    rules = sorted(rng.sample(sorted(RULES), k=rng.choice((2, 3))))
    topic = rng.choice(_TOPICS)
    text = f"Customer {number:03d} writes about {topic}, order {rng.randrange(10_000, 99_999)}."
    turn = Turn(input=text, expected=", ".join(rules))
    return Case(name=f"message-{number:03d}", turns=(turn,))


def _respond(world: ToyWorld, candidate: Candidate, case: Case, draw: int) -> Outcome:
    if _luck("outage", case.id, draw, candidate.id) < world.outage_rate:
        raise Outage("the model endpoint did not answer")
    if _luck("crash", case.id, draw, candidate.id) < world.crash_rate:
        raise ValueError("the agent's answer was not valid JSON")
    forget = _forgetfulness(world, candidate)
    text = str(candidate.values["instructions"])
    names = [
        name
        for name, rule in RULES.items()
        if rule in text and _luck(name, case.id, draw, candidate.id) >= forget
    ]
    reply = " ".join(f"[{name}]" for name in names) or "Thank you for your message."
    step = Step(
        id="1", node="agent", surfaces=tuple(candidate.values), input=case.input, output=reply
    )
    return Outcome(
        replies=(reply,),
        trace=Trace(steps=(step,)),
        usage=Usage(requests=1, input_tokens=180, output_tokens=60),
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.4 + 0.2 * _luck("seconds", case.id, draw, candidate.id),
    )


def _forgetfulness(world: ToyWorld, candidate: Candidate) -> float:
    temperature = candidate.values["model.temperature"]
    assert isinstance(temperature, int | float)
    tone = {"formal": 0.08, "plain": 0.0, "chatty": 0.15}[str(candidate.values["model.tone"])]
    return world.noise + tone + 0.5 * abs(float(temperature) - 0.3)


def _luck(*names: object) -> float:
    material = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") / 2**64


# -- The toy strategy -----------------------------------------------------------------------------


PHASES = ("words", "numbers", "choices")


class RewriteRequest(BaseModel):
    """What the proposer is told: the text, and what train cases failed for."""

    model_config = ConfigDict(frozen=True)

    text: str
    reasons: tuple[str, ...]


class Rewrite(BaseModel):
    """What the proposer answers."""

    model_config = ConfigDict(frozen=True)

    text: str
    why: str


def proposer(*, seconds: float = 0.0, counter: CallCounter | None = None) -> Any:
    """A scripted proposer: adds the rule that is forgotten most, and errs now and then."""
    return ScriptedRole(
        name="proposer",
        respond=_rewrite,
        request_type=RewriteRequest,
        answer_type=Rewrite,
        price=Spend(calls=1, tokens_in=900, tokens_out=120, nano_usd=2_000_000),
        seconds=seconds,
        counter=counter,
    )


def model_proposer(client: ModelClient) -> Role[RewriteRequest, Rewrite]:
    """A real model in the proposer's place."""
    prompt = RolePrompt(
        name="proposer",
        system="You improve the instructions of a support agent. You answer with JSON.",
        user="The instructions:\n{{ text }}\n\nWhat its answers lacked:\n{{ reasons }}\n\n"
        "Give the whole improved instructions as `text`, every placeholder in braces kept, "
        "and in a few words the reason as `why`.",
    )
    return ModelRole(
        name="proposer",
        request_type=RewriteRequest,
        answer_type=Rewrite,
        prompt=prompt,
        client=client,
    )


def _rewrite(request: RewriteRequest, draw: int) -> Rewrite:
    if draw % 7 == 6:
        raise RoleFailed("the answer was cut off")
    if draw % 5 == 4:
        return Rewrite(text="You answer every message.", why="shorter")
    named = Counter(rule for reason in request.reasons for rule in RULES if rule in reason)
    absent = [rule for rule, _ in named.most_common() if RULES[rule] not in request.text]
    if not absent:
        return Rewrite(text=request.text, why="nothing is missing")
    return Rewrite(text=f"{request.text} {RULES[absent[0]]}", why=f"{absent[0]} was forgotten")


@dataclass(frozen=True, kw_only=True)
class MeasuredCandidate:
    """A candidate with what is known of it."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation


@dataclass(frozen=True, kw_only=True)
class Climb:
    """Climb until a whole cycle brings nothing."""

    proposer: Role[RewriteRequest, Rewrite]
    repeats: int = 2
    accept_sigma: float = 1.0
    cycles: int = 4
    trials_per_phase: int = 4
    block_size: int | None = None
    """Look at train in blocks of so many cases, and drop a candidate that starts far worse."""
    look_ahead: int = 0
    name: str = "climb"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        """A hash of its settings and version."""
        settings = (self.repeats, self.accept_sigma, self.cycles, self.trials_per_phase)
        return short_id([self.version, *settings, self.block_size, self.look_ahead])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The one role it asks."""
        return (self.proposer,)

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It needs a text."""
        if any(isinstance(surface, TextSurface) for surface in target.surfaces):
            return ()
        return (Problem(message="it has no text surface"),)

    async def search(self, run: Run) -> None:
        """Measure the baseline, then climb."""
        best = await self._baseline(run)
        if best is None:
            return
        for cycle in range(1, self.cycles + 1):
            before = best.candidate.id
            for phase in PHASES:
                run.tell(PhaseStarted(cycle=cycle, phase=phase), f"cycle:{cycle}:{phase}")
                for step in range(self.trials_per_phase):
                    if run.stop_reason(self._need(run)) is not None:
                        return
                    best = await self._trial(run, best, cycle, phase, step)
            if best.candidate.id == before:
                return

    async def _baseline(self, run: Run) -> MeasuredCandidate | None:
        if run.stop_reason(self._need(run)) is not None:
            return None
        start = run.target.baseline
        start_measured = MeasuredCandidate(
            candidate=start,
            train=await run.evaluate(start, split=Split.TRAIN, repeats=self.repeats),
            holdout=await run.evaluate(start, split=Split.HOLDOUT, repeats=self.repeats),
        )
        run.record(
            Trial(
                candidate=start,
                phase="baseline",
                train=SplitResult.of(start_measured.train, run.objective),
                holdout=SplitResult.of(start_measured.holdout, run.objective),
            )
        )
        run.advance(start)
        return start_measured

    async def _trial(
        self, run: Run, best: MeasuredCandidate, cycle: int, phase: str, step: int
    ) -> MeasuredCandidate:
        candidate = await self._propose(run, best, cycle, phase, step)
        if candidate is None:
            same = replace(best.candidate, origin=Origin(by=self.name, note="—"))
            silent = (Problem(message="the proposer gave no answer"),)
            run.record(Trial(candidate=same, cycle=cycle, phase=phase, problems=silent))
            return best
        trial = Trial(candidate=candidate, cycle=cycle, phase=phase)
        changed = tuple(k for k, v in candidate.values.items() if v != best.candidate.values[k])
        trial = replace(trial, touched=changed)
        if problems := await run.check(candidate, parent=best.candidate):
            run.record(replace(trial, problems=tuple(problems)))
            return best
        train, holdout, decision = await self._judge(run, candidate, best)
        run.record(
            replace(
                trial,
                train=SplitResult.of(train, run.objective),
                holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
                decision=decision,
            )
        )
        if not decision.accepted or holdout is None:
            return best
        run.advance(candidate)
        return MeasuredCandidate(candidate=candidate, train=train, holdout=holdout)

    async def _judge(
        self, run: Run, candidate: Candidate, best: MeasuredCandidate
    ) -> tuple[Evaluation, Evaluation | None, Decision]:
        train = await self._train(run, candidate, best)
        on_train = Pair(candidate=train, incumbent=best.train)
        decision = sigma(objective=run.objective, train=on_train, accept_sigma=self.accept_sigma)
        if not decision.accepted:
            return train, None, decision
        holdout = await run.evaluate(candidate, split=Split.HOLDOUT, repeats=self.repeats)
        decision = sigma(
            objective=run.objective,
            train=on_train,
            holdout=Pair(candidate=holdout, incumbent=best.holdout),
            accept_sigma=self.accept_sigma,
        )
        return train, holdout, decision

    async def _train(self, run: Run, candidate: Candidate, best: MeasuredCandidate) -> Evaluation:
        if self.block_size is None:
            return await run.evaluate(candidate, split=Split.TRAIN, repeats=self.repeats)
        seen = Evaluation(candidate=candidate.id, split=Split.TRAIN, results=())
        blocks = run.blocks(
            candidate,
            split=Split.TRAIN,
            repeats=self.repeats,
            block_size=self.block_size,
            look_ahead=self.look_ahead,
        )
        async with aclosing(blocks) as parts:
            async for part in parts:
                seen = replace(seen, results=seen.results + part.results)
                if self._hopeless(run, seen, best):
                    break
        return seen

    def _hopeless(self, run: Run, seen: Evaluation, best: MeasuredCandidate) -> bool:
        now = run.objective.measure(seen).loss
        before = run.objective.measure(best.train.only(seen.cases)).loss
        return now is not None and before is not None and now - before > 0.05

    async def _propose(
        self, run: Run, best: MeasuredCandidate, cycle: int, phase: str, step: int
    ) -> Candidate | None:
        if phase == "words":
            return await self._reword(run, best, draw=cycle * self.trials_per_phase + step)
        rng = run.rng("propose", cycle, phase, step)
        changes: dict[str, Value] = {}
        for surface in run.target.surfaces:
            if phase == "numbers" and isinstance(surface, NumberSurface):
                changes[surface.id] = round(rng.uniform(surface.low, surface.high), 3)
            if phase == "choices" and isinstance(surface, ChoiceSurface):
                changes[surface.id] = rng.choice(surface.choices)
        note = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in changes.items())
        return best.candidate.child(changes, origin=Origin(by=self.name, note=note))

    async def _reword(self, run: Run, best: MeasuredCandidate, *, draw: int) -> Candidate | None:
        surface = next(s for s in run.target.surfaces if isinstance(s, TextSurface))
        reasons = sorted({s.reason for r in best.train.results for s in r.scores if s.reason})
        request = RewriteRequest(
            text=str(best.candidate.values[surface.id]), reasons=tuple(reasons)
        )
        try:
            answer = await run.ask(self.proposer, request, draw=draw)
        except RoleFailed:
            return None
        origin = Origin(by=self.proposer.name, note=answer.why)
        return best.candidate.child({surface.id: answer.text}, origin=origin)

    def _need(self, run: Run) -> Spend:
        sweeps = [
            run.estimate(split, repeats=self.repeats) for split in (Split.TRAIN, Split.HOLDOUT)
        ]
        return sweeps[0] + sweeps[1]
