"""Whole searches with a real model as agent and as reflector, at equal calls of the agent."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.real.agents import (
    REWRITE_TOKENS,
    Agent,
    Endpoint,
    Exact,
    LoopThread,
    Tally,
    reason_of,
)
from benchmarks.real.log import SEARCHES, Log
from benchmarks.real.reflections import GEPA
from benchmarks.real.tasks import TASKS, Sizes, Task
from burnish.core.cases import Case
from burnish.core.evaluations import Objective
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.models.references import ModelSettings
from burnish.models.roles import in_force
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.events import RunFinished, read_all
from burnish.runs.setup import ProposerOffer, Setup, Strategy, start
from burnish.strategies.auto.search import Auto
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.examples import EXAMPLES, ExamplesProposer
from burnish.strategies.reflective.reflection import (
    ROLE,
    Reflection,
    ReflectionProposer,
    ReflectRequest,
    reflector,
)
from burnish.strategies.reflective.search import Reflective
from burnish.testing.doubles import ScriptedTarget

TEXT = "instructions"
AUTO = "burnish auto"


@dataclass(frozen=True, kw_only=True)
class RealSearch:
    """One search to be made."""

    system: str
    task: str
    endpoint: Endpoint
    sizes: Sizes
    calls: int
    seed: int = 1
    folder: Path = Path()
    """Where installed role prompts are looked for."""

    @property
    def key(self) -> tuple[object, ...]:
        """What it differs in from others that a log has."""
        return self.system, self.task, self.calls, self.seed, *astuple(self.sizes)

    def make(self, start: float | None = None) -> "RealSearched":
        """Make it, and score what it returns on the test cases, which no search sees.

        `start` is the score of the first text on them, if it is known.
        """
        agent = Agent(self.endpoint, Tally())
        loop = LoopThread()
        try:
            found = self._gepa(agent, loop) if self.system == GEPA else self._burnish(agent, loop)
            tally = agent.tally
            searched = RealSearched(
                task=self.task,
                system=self.system,
                budget=self.calls,
                seed=self.seed,
                sizes=astuple(self.sizes),
                text=found.text,
                claimed=found.claimed,
                calls=tally.calls,
                reflections=tally.reflections,
                tokens=tally.tokens,
                seconds=tally.seconds,
            )
            test = self._task.dataset(self.sizes, seed=self.seed).test
            first = self._task.instructions
            start = loop.run(agent.score(first, test)) if start is None else start
            true = start if found.text == first else loop.run(agent.score(found.text, test))
            loop.run(agent.models.close())
        finally:
            loop.close()
        return replace(searched, start=start, true=true)

    @property
    def _task(self) -> Task:
        return TASKS[self.task]

    def _burnish(self, agent: Agent, loop: LoopThread) -> "_Found":
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home) / "run"
            loop.run(_driven(self._setup(agent), folder, agent.tally))
            record = RunRecord.read(folder)
        *_, finished = read_all(record.events, RunFinished)
        best = next(row for row in record.rows if row.trial.candidate.id == finished.best)
        agent.tally.reflections = sum(len(row.trial.proposals) for row in record.rows)
        assert finished.best_score is not None
        text = str(best.trial.candidate.values[TEXT])
        return _Found(text=text, claimed=finished.best_score)

    def _setup(self, agent: Agent) -> Setup:
        whole = self._task.dataset(self.sizes, seed=self.seed)
        prompt = in_force(ROLE, self.folder)
        settings = ModelSettings(max_tokens=REWRITE_TOKENS, seed=self.seed)
        client = agent.models.client(self.endpoint.reference(settings), prompt.settings)

        async def respond(candidate: Candidate, case: Case, draw: int) -> str:
            del draw
            return await agent.answer(str(candidate.values[TEXT]), case)

        return Setup(
            target=ScriptedTarget(
                respond=respond,
                surfaces=(TextSurface(id=TEXT, max_chars=2000),),
                values={TEXT: self._task.instructions},
                name=f"real {self.task}",
            ),
            metrics=(Exact(),),
            objective=Objective(weights={"exact": 1.0}),
            dataset=type(whole)(train=whole.train, holdout=whole.holdout),
            strategy=self._strategy(reflector(client, prompt)),
            budget=Budget(max_metric_calls=self.calls),
            seed=self.seed,
            confirm=False,
        )

    def _strategy(self, role: Role[ReflectRequest, Reflection]) -> Strategy:
        """`reflective`, or `auto` with the proposers that an agent with one text gets."""
        if self.system != AUTO:
            return Reflective(settings=ReflectiveSettings(), reflector=role)
        rewrites = partial(ReflectionProposer, reflector=role, fields=(TEXT,))
        examples = partial(ExamplesProposer, field=TEXT)
        return Auto(
            offers=(
                ProposerOffer(name="reflection", surfaces=(TEXT,), begin=rewrites, roles=(role,)),
                ProposerOffer(name=EXAMPLES, surfaces=(TEXT,), begin=examples),
            )
        )

    def _gepa(self, agent: Agent, loop: LoopThread) -> "_Found":
        gepa: Any = import_module("gepa")
        cases = self._task.dataset(self.sizes, seed=self.seed)
        temperature = in_force(ROLE, self.folder).settings.temperature or 0.0

        def reflect(prompt: str) -> str:
            draw = agent.tally.reflections
            return loop.run(agent.rewrite(prompt, temperature=temperature, draw=draw)).text

        result = gepa.optimize(
            seed_candidate={TEXT: self._task.instructions},
            trainset=list(cases.train),
            valset=list(cases.holdout),
            adapter=GepaAdapter(agent, loop),
            reflection_lm=reflect,
            max_metric_calls=self.calls,
            logger=_Silence(),
            seed=self.seed,
        )
        claimed: float = result.val_aggregate_scores[result.best_idx]
        return _Found(text=result.best_candidate[TEXT], claimed=claimed)


@dataclass(frozen=True, kw_only=True)
class _Found:
    text: str
    claimed: float
    """The score on holdout that the search itself reports for the text."""


@dataclass(frozen=True, kw_only=True)
class RealSearched:
    """What a search returned, what it says of it, and what it took."""

    task: str
    system: str
    budget: int
    seed: int
    sizes: tuple[int, ...]
    """How many train, holdout and test cases there were."""
    text: str
    claimed: float
    calls: int
    reflections: int
    tokens: int
    seconds: float
    start: float = 0.0
    """The score of the first text on the test cases."""
    true: float = 0.0
    """The score of the returned text on them."""

    @property
    def key(self) -> tuple[object, ...]:
        """What it differs in from others, as the search's own."""
        return self.system, self.task, self.budget, self.seed, *self.sizes


def search_all(searches: Sequence[RealSearch], log: Log) -> list[RealSearched]:
    """Make those that the log does not have."""
    logged = [RealSearched(**row) for row in log.of(SEARCHES)]
    made = {each.key: each for each in logged}
    for search in searches:
        if search.key not in made:
            starts = [e.start for e in made.values() if (search.system, *e.key[1:]) == search.key]
            made[search.key] = search.make(*starts[:1])
            log.add(SEARCHES, asdict(made[search.key]))
    return [made[search.key] for search in searches]


async def _driven(setup: Setup, folder: Path, tally: Tally) -> None:
    run = start(setup, folder=folder)
    try:
        await drive(run)
        # The agent counts its own tokens; the journal has those of the reflector.
        tally.tokens += run.spent.tokens_in + run.spent.tokens_out
    finally:
        await run.close()
        await asyncio.sleep(0)


class GepaAdapter:
    """What gepa needs of a system: answers with scores, and what was wrong with them."""

    propose_new_texts = None
    """None: gepa asks with its own prompt."""

    def __init__(self, agent: Agent, loop: LoopThread) -> None:
        self._agent = agent
        self._loop = loop
        self._batch: Any = import_module("gepa.core.adapter").EvaluationBatch

    def evaluate(
        self, batch: list[Case], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Run and score a candidate on some cases."""
        said = self._loop.run(self._agent.answers(candidate[TEXT], batch))
        scores = [float(not reason_of(case, text)) for case, text in zip(batch, said, strict=True)]
        traces = list(zip(batch, said, strict=True)) if capture_traces else None
        return self._batch(outputs=said, scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The records in the keys of gepa's own adapter."""
        del candidate
        records = [
            {
                "Inputs": case.turns[0].input,
                "Generated Outputs": said,
                "Feedback": reason_of(case, said) or "the answer is right",
            }
            for case, said in evaluated.trajectories
        ]
        return dict.fromkeys(components, records)


class _Silence:
    """A log that nobody reads."""

    def log(self, message: str) -> None:
        """Nothing."""
