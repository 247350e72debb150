"""One reflection: the same failures, several rewrites by each system, each scored on new cases."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import groupby, product
from math import comb
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.real.agents import AT_ONCE, REWRITE_TOKENS, Agent, Endpoint, Exact, Tally, reason_of
from benchmarks.real.log import REFLECTIONS, Log
from benchmarks.real.tasks import TASKS, Sizes
from burnish.core.cases import Case, Dataset, Outcome, answer_form, closed_labels, keeps_form
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import CaseResult, Objective
from burnish.core.trials import ASKED_AGAIN
from burnish.journal.once import DirectEffects
from burnish.models.answers import is_copied, is_unchanged
from burnish.models.references import ModelSettings
from burnish.models.roles import in_force
from burnish.strategies.reflective.reflection import ROLE, RecordWriter, ReflectRequest, reflector

BURNISH, GEPA = "burnish", "gepa 0.1.4"
FAILURES = 3
"""Failed cases that a rewrite is made from."""
_TRAIN = 40
_MOST_CHARS = 2000


@dataclass(frozen=True, kw_only=True)
class Failures:
    """What a rewrite is made from: a text, the cases it fails on, and what the agent answered."""

    instructions: str
    cases: tuple[Case, ...]
    answers: tuple[str, ...]
    labels: tuple[str, ...]
    """The recurring answers of train."""
    form: str
    """An answer in the form that those of train have."""


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """One rewrite, and what it is worth."""

    task: str
    system: str
    draw: int
    seed: int
    """Of the cases."""
    text: str
    score: float
    start: float
    """The score of the text before."""
    fault: str = ""
    """Why it is of no use: there is none, it is unchanged, or copied from the request."""
    asked_again: bool = False
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A text as a system made it, before anybody scored it."""

    text: str
    shown: str
    """What the model was shown."""
    asked_again: bool = False
    tokens: int = 0


Rewriter: TypeAlias = Callable[[Agent, Failures, int], Coroutine[Any, Any, Draft]]


def burnish_rewriter(folder: Path) -> Rewriter:
    """A rewrite with the prompt that is in use in a folder: the shipped one, if none is there."""

    async def rewrite(agent: Agent, failures: Failures, draw: int) -> Draft:
        prompt = in_force(ROLE, folder)
        settings = ModelSettings(max_tokens=REWRITE_TOKENS, seed=1)
        client = agent.models.client(agent.endpoint.reference(settings), prompt.settings)
        request, effects = _reflect_request(failures), DirectEffects()
        shown = "\n".join(m.content for m in prompt.messages(request.model_dump(mode="json")))
        text, twice = "", False
        with suppress(RoleFailed):
            receipt = await reflector(client, prompt).answer(request, draw=draw, effects=effects)
            text = receipt.value.new_text
            twice = any(note.startswith(ASKED_AGAIN) for note in receipt.mended)
        tokens = effects.spent.tokens_in + effects.spent.tokens_out
        return Draft(text=text, shown=shown, asked_again=twice, tokens=tokens)

    return rewrite


def _reflect_request(failures: Failures) -> ReflectRequest:
    writer = RecordWriter(
        cases={case.id: case for case in failures.cases},
        objective=Objective(weights={"exact": 1.0}),
        thresholds={},
    )
    metric = Exact()
    results = [
        CaseResult(
            case=case.id,
            outcome=Outcome(replies=(said,)),
            scores=(metric.judge(case, Outcome(replies=(said,))),),
        )
        for case, said in zip(failures.cases, failures.answers, strict=True)
    ]
    return ReflectRequest(
        field="instructions",
        current_text=failures.instructions,
        records=writer.records(results, {})[0],
        other_texts="",
        rejected="",
        must_keep="",
        max_chars=_MOST_CHARS,
        labels=", ".join(failures.labels),
        form=failures.form,
        loose=not all(
            keeps_form(said, labels=failures.labels, form=failures.form)
            for said in failures.answers
        ),
    )


async def gepa_rewrite(agent: Agent, failures: Failures, draw: int) -> Draft:
    """A rewrite with gepa's own prompt and its own reading of the answer."""
    signature: Any = import_module("gepa.strategies.instruction_proposal")
    proposal = signature.InstructionProposalSignature
    records = [
        {
            "Inputs": case.turns[0].input,
            "Generated Outputs": said,
            "Feedback": reason_of(case, said),
        }
        for case, said in zip(failures.cases, failures.answers, strict=True)
    ]
    prompt: str = proposal.prompt_renderer(
        {"current_instruction_doc": failures.instructions, "dataset_with_feedback": records}
    )
    temperature = in_force(ROLE, Path("/nonexistent")).settings.temperature or 0.0
    reply = await agent.rewrite(prompt, temperature=temperature, draw=draw)
    text = proposal.output_extractor(reply.text)["new_instruction"]
    tokens = reply.usage.input_tokens + reply.usage.output_tokens
    return Draft(text=text, shown=prompt, tokens=tokens)


def rewriters(folder: Path) -> Mapping[str, Rewriter]:
    """The systems that are compared."""
    return {BURNISH: burnish_rewriter(folder), GEPA: gepa_rewrite}


@dataclass(frozen=True, kw_only=True)
class Reflections:
    """The first part of the benchmark."""

    endpoint: Endpoint
    tasks: Sequence[str]
    systems: Sequence[str]
    draws: int = 8
    cases: int = 40
    seed: int = 1
    tuning: bool = False
    """Uses the cases that are kept for tuning, of which nothing is reported."""
    folder: Path = Path()
    """Where installed role prompts are looked for."""
    log: Log = field(default_factory=Log)
    """What was made before, which is not made again."""
    scores: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """By task and text: the agent is asked at temperature 0."""

    async def make(self) -> list[Rewritten]:
        """Every rewrite, draw by draw, so that what is there at any time is balanced."""
        made = {(each.task, each.system, each.draw): each for each in self._logged()}
        agent, places = Agent(self.endpoint, Tally()), asyncio.Semaphore(AT_ONCE)

        async def make(failures: Failures, key: tuple[str, str, int]) -> None:
            async with places:
                made[key] = await self._rewritten(agent, failures, *key)
            self.log.add(REFLECTIONS, asdict(made[key]))

        draws = product(range(self.draws), self.tasks, self.systems)
        left = [
            (name, system, draw) for draw, name, system in draws if (name, system, draw) not in made
        ]
        failures: dict[str, Failures] = {}
        try:
            for name in dict.fromkeys(key[0] for key in left):
                failures[name] = await self._failures(agent, name)
                await self._score(agent, name, TASKS[name].instructions)
            for _, keys in groupby(left, key=lambda key: key[2]):
                await asyncio.gather(*(make(failures[key[0]], key) for key in keys))
        finally:
            await agent.models.close()
        return [made[key] for key in sorted(made, key=self._place)]

    def _place(self, key: tuple[str, str, int]) -> tuple[int, int, int]:
        return key[2], self.tasks.index(key[0]), self.systems.index(key[1])

    async def _failures(self, agent: Agent, name: str) -> Failures:
        """The first cases of train that the agent gets wrong."""
        task = TASKS[name]
        train = self._dataset(name).train
        cases: list[Case] = []
        answers: list[str] = []
        for case in train:
            said = await agent.answer(task.instructions, case)
            if reason_of(case, said):
                cases.append(case)
                answers.append(said)
            if len(cases) == FAILURES:
                break
        labels = closed_labels(train)
        return Failures(
            instructions=task.instructions,
            cases=tuple(cases),
            answers=tuple(answers),
            labels=labels,
            form="" if labels else answer_form(train),
        )

    async def _rewritten(
        self, agent: Agent, failures: Failures, name: str, system: str, draw: int
    ) -> Rewritten:
        begun = time.perf_counter()
        draft = await rewriters(self.folder)[system](agent, failures, draw)
        seconds = time.perf_counter() - begun
        start = await self._score(agent, name, failures.instructions)
        return Rewritten(
            task=name,
            system=system,
            draw=draw,
            seed=self.seed,
            text=draft.text,
            score=await self._score(agent, name, draft.text) if draft.text.strip() else start,
            start=start,
            fault=fault_of(draft.text, draft.shown, failures.instructions),
            asked_again=draft.asked_again,
            tokens=draft.tokens,
            seconds=seconds,
        )

    async def _score(self, agent: Agent, name: str, text: str) -> float:
        if (name, text) not in self.scores:
            self.scores[name, text] = await agent.score(text, self._dataset(name).test)
        return self.scores[name, text]

    def _dataset(self, name: str) -> Dataset:
        sizes = Sizes(train=_TRAIN, holdout=0, test=self.cases)
        return TASKS[name].dataset(sizes, seed=self.seed, tuning=self.tuning)

    def _logged(self) -> Iterator[Rewritten]:
        for each in (Rewritten(**row) for row in self.log.of(REFLECTIONS)):
            if each.seed != self.seed:
                continue
            self.scores[each.task, each.text] = each.score
            self.scores[each.task, TASKS[each.task].instructions] = each.start
            yield each


def fault_of(text: str, shown: str, current: str) -> str:
    """Why a rewrite is of no use, whoever made it; empty if it may be of use."""
    if not text.strip():
        return "none"
    if is_unchanged(text, current):
        return "unchanged"
    return "copied" if is_copied(text, shown, current=current) else ""


def best_of(scores: Sequence[float], count: int) -> float:
    """The mean of the best of `count` draws without replacement; of all, if there are fewer."""
    count = min(count, len(scores))
    ways = comb(len(scores), count)
    ordered = sorted(scores)
    return sum(comb(place, count - 1) * score for place, score in enumerate(ordered)) / ways
