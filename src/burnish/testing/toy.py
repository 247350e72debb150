"""A small world with a known best, a strategy that climbs it, and both as a plug-in.

The plug-in is all that files, flags, the environment, HTTP, `--dry-run`, reports and resume need.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Case, Dataset, Outcome, Split, Step, Trace, Turn, Usage
from burnish.core.comparisons import Pair
from burnish.core.content import Json, short_id, stream
from burnish.core.errors import Problem, RoleFailed
from burnish.core.evaluations import Evaluation, Score
from burnish.core.gates import sigma
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Effects, Role, Target
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import Decision, SplitResult, Trial
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.plugins import (
    Ability,
    Access,
    Building,
    Dialect,
    Door,
    Repeats,
    RoleNeed,
    Settings,
    Share,
    StrategyParts,
    StrategyPlugin,
    StrategySettings,
    TargetParts,
    TargetPlugin,
    TargetSpec,
)
from burnish.runs.events import PhaseStarted
from burnish.runs.run import Run
from burnish.system.yaml import TreePath
from burnish.testing.doubles import (
    CallCounter,
    FreeMetric,
    ScriptedRole,
    ScriptedTarget,
    ScriptedWorld,
    luck,
)

KIND = "toy agent"
"""The kind of this world's target."""
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
class ToyWorld(ScriptedWorld):
    """How large and how rough the world is."""

    train: int = 24
    holdout: int = 12
    test: int = 16
    noise: float = 0.05
    """How often a rule is forgotten at the best temperature."""


def dataset(world: ToyWorld) -> Dataset:
    """The cases of the world, divided into splits."""
    return world.dataset_of(partial(_case, world))


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
        respond=partial(_respond, world),
        surfaces=SURFACES,
        values={"instructions": INSTRUCTIONS, "model.temperature": 0.9, "model.tone": "formal"},
        price=world.price(180, 60),
        seconds=world.call_seconds,
        counter=counter,
    )


@dataclass(frozen=True, kw_only=True)
class RulesKept(FreeMetric):
    """A metric: the share of the case's rules that the reply keeps."""

    name: str = "rules_kept"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
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
    def fate(name: str) -> float:
        return luck(name, case.id, draw, candidate.id)

    world.raise_failures(fate)
    temperature = candidate.values["model.temperature"]
    assert isinstance(temperature, int | float)
    tone = {"formal": 0.08, "plain": 0.0, "chatty": 0.15}[str(candidate.values["model.tone"])]
    forget = world.noise + tone + 0.5 * abs(float(temperature) - 0.3)
    text = str(candidate.values["instructions"])
    names = [name for name, rule in RULES.items() if rule in text and fate(name) >= forget]
    reply = " ".join(f"[{name}]" for name in names) or "Thank you for your message."
    step = Step(
        id="1", node="agent", surfaces=tuple(candidate.values), input=case.input, output=reply
    )
    return Outcome(
        replies=(reply,),
        trace=Trace(steps=(step,)),
        usage=Usage(requests=1, input_tokens=180, output_tokens=60),
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.4 + 0.2 * fate("seconds"),
    )


PHASES = ("words", "numbers", "choices")


class RewriteRequest(BaseModel):
    """The proposer's request: the text, and the reasons of failures on train."""

    model_config = ConfigDict(frozen=True)

    text: str
    reasons: tuple[str, ...]


class Rewrite(BaseModel):
    """The proposer's answer."""

    model_config = ConfigDict(frozen=True)

    text: str
    why: str


def proposer(*, seconds: float = 0.0, counter: CallCounter | None = None) -> Any:
    """A scripted proposer that adds the rule forgotten most often, with occasional errors."""
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
    """A proposer that uses a real model."""
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
    """A candidate with its evaluations."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation


@dataclass(frozen=True, kw_only=True)
class Climb:
    """Hill climbing until a whole cycle brings no gain."""

    proposer: Role[RewriteRequest, Rewrite]
    repeats: int = 2
    accept_sigma: float = 1.0
    cycles: int = 4
    trials_per_phase: int = 4
    block_size: int | None = None
    """Evaluate train in blocks of this size, and drop a candidate that starts far worse."""
    look_ahead: int = 0
    name: str = "climb"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        settings = (self.repeats, self.accept_sigma, self.cycles, self.trials_per_phase)
        return short_id([self.version, *settings, self.block_size, self.look_ahead])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return (self.proposer,)

    def mismatch(self, target: Target) -> Sequence[Problem]:
        if any(isinstance(surface, TextSurface) for surface in target.surfaces):
            return ()
        return (Problem(message="it has no text surface"),)

    async def search(self, run: Run) -> None:
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
        train = await run.evaluate(start, split=Split.TRAIN, repeats=self.repeats)
        holdout = await run.evaluate(start, split=Split.HOLDOUT, repeats=self.repeats)
        run.record(
            Trial(
                candidate=start,
                phase="baseline",
                train=SplitResult.of(train, run.objective),
                holdout=SplitResult.of(holdout, run.objective),
            )
        )
        run.advance(start)
        return MeasuredCandidate(candidate=start, train=train, holdout=holdout)

    async def _trial(
        self, run: Run, best: MeasuredCandidate, cycle: int, phase: str, step: int
    ) -> MeasuredCandidate:
        candidate = await self._propose(run, best, cycle, phase, step)
        if candidate is None:
            same = replace(best.candidate, origin=Origin(by=self.name, note="—"))
            silent = (Problem(message="the proposer gave no answer"),)
            run.record(Trial(candidate=same, cycle=cycle, phase=phase, problems=silent))
            return best
        changed = tuple(k for k, v in candidate.values.items() if v != best.candidate.values[k])
        trial = Trial(candidate=candidate, cycle=cycle, phase=phase, touched=changed)
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
                now = run.objective.measure(seen).loss
                before = run.objective.measure(best.train.only(seen.cases)).loss
                if now is not None and before is not None and now - before > 0.05:
                    break  # far worse already
        return seen

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
        train, holdout = (
            run.estimate(split, repeats=self.repeats) for split in (Split.TRAIN, Split.HOLDOUT)
        )
        return train + holdout


# -- The toy world as a plug-in --------------------------------------------------------------------


_Amount = Annotated[float, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
_CountOrNone = Annotated[int, Field(ge=0, le=100_000)]
KNOWN_RULES = Ability(name="rules of the toy world")
"""The scripted proposer only knows this world."""
PROPOSER = RoleNeed(
    name="proposer", help="The model that rewrites texts, as provider:name; a script by default."
)


class WorldSettings(Settings):
    """How large and how rough the world is."""

    train: Count = 24
    """Number of train cases."""
    holdout: Count = 12
    """Number of holdout cases."""
    test: _CountOrNone = 16
    """Number of sealed test cases."""
    noise: Share = 0.05
    """How often a rule is forgotten at the best temperature."""
    crash_rate: Share = 0.0
    """How often the agent itself fails."""
    outage_rate: Share = 0.0
    """How often the infrastructure fails."""
    call_seconds: _Amount = 0.0
    """Duration of a call in seconds."""
    usd_per_call: _Amount = 0.0004
    """Cost of a call."""
    seed: int = 7
    """Seed of the world's randomness."""
    counter: str | None = None
    """A file in which every call is counted as it starts."""


class ToySpec(TargetSpec):
    """The support agent of the toy world."""

    kind: str = KIND
    world: WorldSettings = Field(default_factory=WorldSettings)


class ToyPlugin(TargetPlugin):
    """Builds the world from its description."""

    kind: ClassVar[str] = KIND
    Spec: ClassVar[type[TargetSpec]] = ToySpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (TextSurface, NumberSurface, ChoiceSurface)
    abilities: ClassVar[tuple[Ability, ...]] = (KNOWN_RULES,)
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        del strategy
        settings: WorldSettings = building.spec.target.world
        world = ToyWorld(**settings.model_dump(exclude={"counter"}))
        path = settings.counter
        counter = None if path is None else CallCounter(path=building.path(path))
        return TargetParts(
            target=target(world, counter=counter),
            dataset=dataset(world),
            metrics=(RulesKept(),),
        )


class ClimbSettings(StrategySettings):
    """The settings of the strategy."""

    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 2
    """Runs of every case, to measure the noise."""
    accept_sigma: _Amount = 1.0
    """A gain must be this many times its noise."""
    cycles: Count = 4
    """Rounds through all phases."""
    trials_per_phase: Count = 4
    """Trials of a phase."""
    block_size: Count | None = None
    """Cases per block of a race; no race if not set."""
    look_ahead: _CountOrNone = 0
    """Blocks that a race runs ahead of its decision."""
    version: str = "1"
    """Part of the fingerprint: a new version is a new strategy."""


class ClimbPlugin(StrategyPlugin):
    """Hill climbing with a model or a script as proposer."""

    name: ClassVar[str] = "climb"
    Settings: ClassVar[type[StrategySettings]] = ClimbSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (PROPOSER,)
    requires: ClassVar[tuple[Ability, ...]] = (KNOWN_RULES,)

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        settings: ClimbSettings = building.spec.strategy.settings
        ref, target = building.named(PROPOSER), parts.target
        client: ModelClient | None = None
        if ref is not None:
            client = building.problems.attempt(
                f"roles.{PROPOSER.name}",
                lambda: _reached(building.models.client(ref, role=PROPOSER.name)),
                None,
            )
        if client is not None:
            role = model_proposer(client)
        elif isinstance(target, ScriptedTarget):
            role = proposer(seconds=target.seconds, counter=target.counter)
        else:
            if PROPOSER.name not in building.spec.roles:
                remedy = "name one: proposer: openai:gpt-4o, or --proposer MODEL"
                building.problems.add(f"roles.{PROPOSER.name}", parts.no_model, remedy)
            return None
        notes: tuple[str, ...] = ()
        if client is not None and not client.priced:
            notes = (f"the price of {client.ref.label} is unknown: US dollars leave it out",)
        strategy = Climb(proposer=role, **settings.model_dump())
        return StrategyParts(strategy=strategy, client=client, notes=notes)


def _reached(client: ModelClient) -> ModelClient:
    client.check()
    return client


class ToyFile(Dialect):
    """Files with `kind: toy`."""

    kind: ClassVar[str] = "toy"
    target: ClassVar[str] = KIND
    strategy: ClassVar[str] = ClimbPlugin.name
    evaluates: ClassVar[bool] = False
    strategy_at: ClassVar[TreePath] = ("strategy", "name")
    keys: ClassVar[Mapping[str, str]] = {
        "world": "target.world",
        "strategy.name": "strategy.name",
        "strategy.proposer": "roles.proposer",
        **{f"strategy.{name}": f"strategy.climb.{name}" for name in ClimbSettings.model_fields},
        "seed": "execution.seed",
        "concurrency": "execution.concurrency",
        "time_limit": "execution.time_limit",
        "wait_minutes": "execution.wait_minutes",
        "budget": "budget",
        "models": "models",
    }
