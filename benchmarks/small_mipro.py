"""MIPROv2 of DSPy in the small worlds: its own loop, under the budget of the other searches.

A program has one predictor for each text of the world, and each run of a case is one call of the
agent. The model that writes instructions is the reflector of the world. MIPROv2 would show it
demonstrations, which say nothing here; it is shown what the judge says of training cases that fail
at the start, as the other searches do, and those runs are paid for. Whatever costs calls and cannot
help in these worlds is switched off: demonstrations, and descriptions of the data and the program.
"""

import math
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from typing import Any, cast

from benchmarks.mipro import Calls, Scripted
from benchmarks.small_searches import MINIBATCH, Desk
from benchmarks.small_worlds import (
    Judged,
    SmallCase,
    Texts,
    cases_of,
    reflect,
    run,
    start_of,
    text_names,
)

dspy: Any = import_module("dspy")
dspy.disable_logging()

SETTINGS: Mapping[str, Any] = {
    "auto": None,
    "max_bootstrapped_demos": 0,
    "max_labeled_demos": 0,
    "num_threads": 1,
}
_BATCH, _STEPS = 5, 5
COMPILE: Mapping[str, Any] = {
    "minibatch": True,
    "minibatch_size": _BATCH,
    "minibatch_full_eval_steps": _STEPS,
    "program_aware_proposer": False,
    "data_aware_proposer": False,
}
_UNPAID = Judged(answer="", score=0.0, reason="")
_WANTED = re.compile(r"starting with the field `\[\[ ## (\w+) ## \]\]`")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How MIPROv2 shares out a budget."""

    candidates: int
    """Instructions for each text; the first of them is the text at the start."""
    trials: int


def plan_of(desk: Desk) -> Plan | None:
    """As many candidates as the budget has room for with MIPROv2's own number of trials.

    With two candidates a single trial will do; None if not even that fits.
    """
    plan = Plan(candidates=2, trials=1)
    if not _fits(desk, plan):
        return None
    for candidates in range(2, desk.task.budget):
        following = Plan(candidates=candidates, trials=_own_trials(desk, candidates))
        if not _fits(desk, following):
            break
        plan = following
    return plan


def _own_trials(desk: Desk, candidates: int) -> int:
    """MIPROv2's own rule for the number of trials."""
    texts = len(text_names(desk.world))
    return int(max(2 * texts * math.log2(candidates), 1.5 * candidates))


def _fits(desk: Desk, plan: Plan) -> bool:
    """Whether the budget has room for a plan, if the trials that can differ do."""
    world, texts = desk.world, len(text_names(desk.world))
    shown = min(MINIBATCH * plan.candidates, world.train)
    programs = min(plan.trials, plan.candidates**texts - 1)
    whole = min(plan.trials // _STEPS + 1, programs)
    calls = shown + world.holdout * (1 + whole) + _BATCH * (programs - whole)
    return desk.fits(calls, plan.candidates * texts)


def search(desk: Desk) -> Texts:
    """What MIPROv2 returns; the texts at the start where its smallest search is too dear."""
    plan = plan_of(desk)
    if plan is None:
        return start_of(desk.world)
    agent = Agent(desk)
    watcher = Watcher(agent)
    silent = StringIO()  # it prints its progress
    with redirect_stdout(silent), redirect_stderr(silent), dspy.context(callbacks=[watcher]):
        _compile(agent, plan)
    if watcher.errors:  # MIPROv2 scores them 0; here that would be a loss that is none
        raise watcher.errors[0]
    return watcher.leader


def _compile(agent: "Agent", plan: Plan) -> None:
    """Let MIPROv2 search; what it returns is what led last."""
    writer, seed = Writer(agent), agent.desk.task.seed
    optimizer = dspy.MIPROv2(
        metric=_score,
        prompt_model=writer,
        task_model=writer,
        num_candidates=plan.candidates,
        seed=seed,
        **SETTINGS,
    )
    train, holdout = map(_examples, cases_of(agent.desk.world))
    try:
        optimizer.compile(
            Program(agent),
            teacher=Program(agent, silent=True),
            trainset=train,
            valset=holdout,
            num_trials=plan.trials,
            requires_permission_to_run=False,
            **COMPILE,
        )
    except ValueError as error:
        # It fails if it wants to measure one more program on all of holdout and knows them all.
        if "No valid program" not in str(error):
            raise


def _examples(cases: Sequence[SmallCase]) -> list[Any]:
    return [dspy.Example(case=case.name).with_inputs("case") for case in cases]


def _score(example: Any, prediction: Any, trace: object = None) -> float:
    del example, trace
    return prediction.score


@dataclass
class Agent:
    """The agent of a world, whatever copies DSPy makes of the program that asks it.

    As with DSPy's cache, the same texts answer the same case only once. When the budget is used,
    further answers are worth nothing and cost nothing, so that no further candidate leads.
    """

    desk: Desk
    failures: list[str] = field(default_factory=list[str])
    """What the judge said of training cases under the texts at the start."""

    def __post_init__(self) -> None:
        train, holdout = cases_of(self.desk.world)
        self.start = start_of(self.desk.world)
        self._luck = random.Random(f"MIPROv2 {self.desk.task.seed}")
        self._cases = {case.name: case for case in (*train, *holdout)}
        self._unseen = self._luck.sample(train, len(train))
        self._answers: dict[tuple[str, ...], Judged] = {}

    def __deepcopy__(self, memo: object) -> "Agent":
        return self

    def answer(self, texts: Texts, name: str) -> Judged:
        """What the judge says of an answer to a case."""
        key = (name, *texts.values())
        if key not in self._answers:
            if not self.desk.fits(1):
                return _UNPAID
            case = self._cases[name]
            self._answers[key] = run(self.desk.world, texts, case, self.desk.bill)
        return self._answers[key]

    def look(self) -> None:
        """Run three more training cases, and go on until one has failed."""
        looked = 0
        while self._unseen and (looked < MINIBATCH or not self.failures):
            judged = self.answer(self.start, self._unseen.pop().name)
            self.failures += [judged.reason] if judged.reason else []
            looked += 1

    def reasons(self) -> list[str]:
        """Up to three failures among those that were seen."""
        return self._luck.sample(self.failures, min(MINIBATCH, len(self.failures)))


class Program(cast("type[Any]", dspy.Module)):
    """A program of DSPy that has the texts of a world as its instructions."""

    def __init__(self, agent: Agent, *, silent: bool = False) -> None:
        dspy.Module.__init__(self)
        self.agent = agent
        self.silent = silent
        """Whether it says nothing: as a teacher, so that no demonstrations are looked for."""
        for name, text in agent.start.items():
            setattr(self, name, dspy.Predict(dspy.Signature("question -> answer", text)))

    def forward(self, case: str) -> Any:
        judged = _UNPAID if self.silent else self.agent.answer(self.texts(), case)
        return dspy.Prediction(answer=judged.answer, score=judged.score)

    def texts(self) -> dict[str, str]:
        """The instructions, by the names of the texts."""
        return {name: getattr(self, name).signature.instructions for name in self.agent.start}


class Writer(Scripted):
    """Writes instructions by the reflector of a world, as MIPROv2's proposer asks."""

    def __init__(self, agent: Agent) -> None:
        Scripted.__init__(self, Calls(agent.desk.task.seed, "writer"))
        self.agent = agent

    def answer(self, messages: Sequence[Mapping[str, str]], luck: Any) -> dict[str, str]:
        del luck
        agent, request = self.agent, messages[-1]["content"]
        (wanted, *_) = _WANTED.findall(request)
        assert wanted == "proposed_instruction", wanted
        ((name, text),) = [each for each in agent.start.items() if each[1] in request]
        if name == next(iter(agent.start)):
            agent.look()
        _, new = reflect(agent.desk.world, name, text, agent.reasons(), agent.desk.bill)
        return {wanted: new}


class Watcher(cast("type[Any]", import_module("dspy.utils.callback").BaseCallback)):
    """Hears from DSPy what programs scored on holdout, and so who leads."""

    def __init__(self, agent: Agent) -> None:
        self.errors: list[BaseException] = []
        self.leader: Texts = agent.start
        self._desk = agent.desk
        self._texts: Texts = {}
        self._best: float | None = None

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: Mapping[str, Any]) -> None:
        """Remember whose evaluation begins; there is only one at a time."""
        del call_id, instance
        whole = len(inputs["devset"]) == self._desk.world.holdout
        self._texts = inputs["program"].texts() if whole else {}

    def on_evaluate_end(self, call_id: str, outputs: Any, exception: BaseException | None) -> None:
        """A candidate was measured; the first on all of holdout is the start."""
        del call_id
        if exception is not None:
            self.errors.append(exception)
        elif self._texts:
            if self._best is not None and outputs.score > self._best:
                self.leader = self._texts
                self._desk.lead(self._texts)
            self._best = max(outputs.score, self._best or 0.0)
