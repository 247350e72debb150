"""The policy texts as a target, a delegation as an outcome, its loss as a metric."""

import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from burnish.core.cases import Case, Turn
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Failure, FailureKind, Outcome, Usage
from burnish.core.protocols import Description, Effects, Receipt, Scope
from burnish.core.surfaces import Candidate, Origin, TextSurface, placeholders_in
from burnish.delegation.delegation import Delegation, Site, delegate
from burnish.delegation.evaluation import DelegationJudge
from burnish.delegation.manager import ModelManager
from burnish.delegation.policy import MOST_CHARS, NAMES, PolicyTexts
from burnish.delegation.result import RUBRIC, WEIGHTS, DelegationResult
from burnish.delegation.team import Workflow
from burnish.delegation.workers import CommandWorker, ModelWorker
from burnish.system import ChildProcesses, Redactor
from burnish.system.workspaces import remove_tree

_SIGNALS = tuple(WEIGHTS)
"""The parts of the loss, each from 0, which is good, to 1."""
_MOST_SHOWN = 12
"""Defects that are told of one run; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class DelegationFacts:
    """What the outcome of a delegation says of it beside its numbers."""

    run_id: str = ""
    folder: str = ""
    status: str = ""
    reason: str = ""
    deliverables: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """What was wrong, one thing a line."""

    @classmethod
    def of(cls, outcome: Outcome) -> "DelegationFacts":
        """What an outcome says; nothing where it is not one of a delegation."""
        return codec(cls).decode(outcome.data) if isinstance(outcome.data, dict) else cls()


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one delegation came to, for whoever learns from it."""

    result: DelegationResult
    workflow: Workflow

    def outcome(self) -> Outcome:
        """As an outcome of its case."""
        result, spent, failure = self.result, self.result.spent, self._failure()
        return Outcome(
            replies=() if failure else (result.result,),
            data=self._data(),
            measures={} if failure else self.signals(),
            usage=Usage(
                requests=spent.calls, input_tokens=spent.tokens_in, output_tokens=spent.tokens_out
            ),
            nano_usd=None if spent.unpriced else spent.nano_usd,
            seconds=self._seconds(),
            failure=failure,
        )

    def signals(self) -> dict[str, float]:
        """The parts of the loss before they are weighed."""
        loss = self.result.loss
        values = {name: getattr(loss, name) / WEIGHTS[name] for name in _SIGNALS}
        if self.workflow.critic is not None and self.result.critique is None:
            # There was a critic, and nothing to criticise: that is not half as good as it can be.
            values["critique"] = 1.0
        return {name: round(value, 6) for name, value in values.items()}

    def words(self) -> list[str]:
        """What was wrong, one thing a line."""
        return [*self._defects(), *self._gates(), *self._metrics()]

    def _failure(self) -> Failure | None:
        result = self.result
        if missing := self._missing():
            return Failure(kind=FailureKind.INFRASTRUCTURE, message=missing, error="Missing")
        ended = result.status in ("failed", "aborted")
        if not ended and (result.deliverables or result.result.strip()):
            return None
        head = f"the task {result.status}: {result.reason}"
        if not ended:
            head = f"nothing was delivered ({result.status}: {result.reason})"
        message = "\n".join([head, *self.words()])
        return Failure(kind=FailureKind.AGENT, message=message, error=result.status)

    def _missing(self) -> str:
        """What could not be had, and is nobody's fault here."""
        result, workflow = self.result, self.workflow
        if result.reason.startswith("manager_missing"):
            return result.reason
        if result.status in ("failed", "aborted"):
            return ""
        if workflow.critic is not None and result.critique is None and self._criticised:
            return "the critic could not be asked"
        if result.evaluation is not None and result.evaluation.total is None:
            errors = [each.error for each in result.evaluation.measured if each.error]
            return f"the result could not be measured: {'; '.join(errors)}"
        return ""

    @property
    def _criticised(self) -> bool:
        """Whether there was anything for the critic to see."""
        return any(self.result.run_dir.glob("iterations/*/critique.json"))

    def _seconds(self) -> float:
        wall_time = self.result.budget.get("wall_time")
        used = wall_time.get("elapsed_s") if isinstance(wall_time, dict) else None
        return float(used) if isinstance(used, int | float) else 0.0

    def _data(self) -> Json:
        result = self.result
        facts = DelegationFacts(
            run_id=result.run_id,
            folder=result.run_dir.name,
            status=result.status,
            reason=result.reason,
            deliverables=tuple(result.names),
            told=tuple(self.words()),
        )
        return codec(DelegationFacts).encode(facts)

    def _defects(self) -> Iterator[str]:
        worst_first = sorted(self.result.defects, key=lambda each: _ORDER[each.severity])
        for each in worst_first[:_MOST_SHOWN]:
            where = f" {each.location}:" if each.location else ""
            yield f"defect [{each.severity}] ({each.category}){where} {each.description}"
        if (more := len(worst_first) - _MOST_SHOWN) > 0:
            yield f"and {more} more defects"

    def _gates(self) -> Iterator[str]:
        for each in self.result.rejections:
            yield f"gate {each.gate} sent the completion back: {each.reason}"

    def _metrics(self) -> Iterator[str]:
        if self.result.evaluation is None:
            return
        for each in self.result.evaluation.measured:
            if each.score is not None and each.score < each.threshold:
                message = (
                    f"metric {each.name} is {each.score:g} and should reach {each.threshold:g}"
                )
                yield f"{message} {each.evidence}".rstrip()


_ORDER = {"critical": 0, "warning": 1, "info": 2}


# -- The metric `delegation_loss` -----------------------------------------------------------------


NAME = "delegation_loss"
_VERSION = 1
_SPOILING = ("defect [critical]", "defect [warning]", "gate ", "metric ")


@dataclass(frozen=True, kw_only=True)
class DelegationLoss:
    """Scores a delegation by the five signals of its loss; a case may weigh them in its own way.

    It passes when it was completed and nobody had anything worse than a remark.
    """

    name: str = NAME

    @property
    def fingerprint(self) -> str:
        """A hash of how it weighs; weights of a case are in the case."""
        return short_id([NAME, _VERSION, dict(WEIGHTS)])

    def estimate(self, case: Case) -> Spend:
        """It only computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """1 − loss, and why it is no better."""
        del effects
        if not outcome.measures.keys() >= WEIGHTS.keys():
            return [Score.of_nothing(self.name, "there are no signals of a delegation")]
        facts = DelegationFacts.of(outcome)
        parts = weighed(outcome.measures, weights_of(case))
        loss = min(1.0, math.fsum(parts.values()))
        shares = ", ".join(f"{name} {value:.3f}" for name, value in parts.items())
        head = f"loss {loss:.3f} ({shares}); {facts.status}: {facts.reason}"
        spoiled = any(line.startswith(_SPOILING) for line in facts.told)
        return [
            Score(
                metric=self.name,
                value=1 - loss,
                passed=facts.status == "complete" and not spoiled,
                reason="\n".join([head, *facts.told]),
                details={name: round(value, 6) for name, value in parts.items()},
            )
        ]


def weighed(signals: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """The parts of the loss: each signal, which is from 0 to 1, times its weight."""
    return {name: weight * signals[name] for name, weight in weights.items()}


def weights_of(case: Case) -> dict[str, float]:
    """How a case weighs the signals; as always where it does not say."""
    own = case.turns[0].settings.get("weights")
    weights = own if isinstance(own, dict) else {}
    return {**WEIGHTS, **{n: float(w) for n, w in weights.items() if isinstance(w, int | float)}}


# -- The policy texts as a target -----------------------------------------------------------------


_FILE = "policy_texts.yaml"
DELEGATIONS = "delegations"
"""The folder of them in that of a run."""
_UNSTORED = -1
"""The version of a text that is only tried."""
_LOOPS, _ROUNDS = 3, 3
"""What a small delegation takes, for estimates: decisions, and calls of a worker."""


@dataclass(frozen=True, kw_only=True)
class SuiteTask:
    """A task of a suite with the workflow that does it."""

    name: str
    task: str
    workflow: Workflow
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """How it weighs the parts of the loss, where that is not as always."""
    kept: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the manifests of its runs keep."""

    @property
    def case(self) -> Case:
        """The task as a case; another workflow makes it another case."""
        settings: dict[str, Json] = {"weights": {**self.weights}} if self.weights else {}
        turn = Turn(input=self.task, settings=settings)
        workflow = short_id(dict(self.workflow.inputs()))
        return Case(turns=(turn,), name=self.name, extras={"workflow": workflow})


class _RunPlace(Protocol):
    """The directory of a run, as far as delegations need it."""

    @property
    def folder(self) -> Path:
        """Where it lies."""
        ...

    @property
    def children(self) -> ChildProcesses:
        """Where running commands are on record."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Knows what may not be kept."""
        ...


class DelegationTarget:
    """The policy texts behind all delegations, tried on the tasks of a suite.

    A run is one delegation. It has a folder of its own under `home`, named after candidate, case
    and draw, so that one that was killed goes on where it was. What it pays for and does is in the
    journal of the run that it belongs to.
    """

    leaf = False

    def __init__(
        self,
        policy: PolicyTexts,
        tasks: Iterable[SuiteTask],
        *,
        frozen: Iterable[str] = (),
        home: Path | None = None,
    ) -> None:
        self.policy = policy
        self.tasks = {task.name: task for task in tasks}
        self._names = tuple(name for name in NAMES if name not in set(frozen))
        self._home = home
        self._borrowed: Path | None = None
        self._run: _RunPlace | None = None

    @property
    def description(self) -> Description:
        """Which texts are trained, and what the others say."""
        fixed: dict[str, Json] = {n: self.policy[n] for n in NAMES if n not in self._names}
        config: dict[str, Json] = {"trained": list(self._names), "fixed": short_id(fixed)}
        return Description(kind="policy" if self._names else "delegation", config=config)

    @property
    def surfaces(self) -> Sequence[TextSurface]:
        """The texts that may change; what a template fills in must stay in it."""
        return [
            TextSurface(
                id=name,
                max_chars=MOST_CHARS,
                placeholders=placeholders_in(PolicyTexts.shipped()[name]),
            )
            for name in self._names
        ]

    @property
    def baseline(self) -> Candidate:
        """The texts that are in force."""
        values = {name: self.policy[name] for name in self._names}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    def move_in(self, place: "_RunPlace") -> None:
        """Keep the delegations in this run from now on."""
        self._run, self._home = place, place.folder / DELEGATIONS

    def secrets(self) -> Sequence[str]:
        """Keys of models and programs, which may not be kept anywhere."""
        return [secret for task in self.tasks.values() for secret in task.workflow.secrets]

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """Beyond the bounds of the texts there is nothing to check."""
        del candidate
        return ()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """Delegate a task under the candidate's texts."""
        task = self.tasks[case.id]
        key = short_id([self.description.fingerprint, candidate.id, case.content_id, draw])
        delegation = Delegation(
            workflow=task.workflow,
            task=task.task,
            policy=self.texts_of(candidate),
            tags=("suite", f"task:{case.id}"),
            # Whatever a candidate makes of the rubric, all are graded by the one of the start.
            ruler=self.policy[RUBRIC],
            kept={**task.kept, "candidate": candidate.id, "draw": draw},
        )
        result = await delegate(delegation, self._site(key, effects))
        outcome = Account(result=result, workflow=task.workflow).outcome()
        return Receipt(value=outcome, missing=outcome.missing)

    def texts_of(self, candidate: Candidate) -> PolicyTexts:
        """All six texts as a candidate has them."""
        texts = {name: str(value) for name, value in candidate.values.items()}
        tried = {name: _UNSTORED for name, text in texts.items() if text != self.policy[name]}
        return self.policy.replaced(texts, tried)

    def estimate(self, case: Case) -> Spend:
        """What a small delegation takes; a long one takes more."""
        task = self.tasks.get(case.id)
        return Spend(calls=1) if task is None else _expected(task.workflow)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """All six texts in one file, as the shipped ones stand in theirs."""
        del home
        texts = self.texts_of(candidate).texts
        return {_FILE: "\n".join(_block(name, texts[name]) for name in NAMES).encode()}

    async def close(self) -> None:
        """Remove delegations that no run keeps."""
        if self._borrowed is not None:
            remove_tree(self._borrowed)

    def _site(self, key: str, effects: Scope) -> Site:
        folder, run = self._place() / key, self._run
        if run is None:
            return Site(
                folder=folder,
                effects=effects,
                children=ChildProcesses(folder=folder / "processes"),
                redactor=Redactor.from_environment(extra=self.secrets()),
            )
        return Site(
            folder=folder,
            effects=effects,
            children=run.children,
            redactor=run.redactor,
            hidden=(run.folder,),
        )

    def _place(self) -> Path:
        if self._home is None:
            self._borrowed = self._home = Path(tempfile.mkdtemp(prefix="burnish-suite-"))
        return self._home


def _expected(workflow: Workflow) -> Spend:
    estimates: list[Spend] = []
    if isinstance(workflow.manager, ModelManager):
        estimates += [workflow.manager.role.client.estimate()] * _LOOPS
    worker = workflow.worker
    if isinstance(worker, ModelWorker):
        estimates += [worker.client.estimate()] * _ROUNDS
    elif isinstance(worker, CommandWorker):
        estimates.append(worker.price)
    if workflow.critic is not None:
        estimates.append(workflow.critic.role.client.estimate())
    judges = (metric for metric in workflow.metrics if isinstance(metric, DelegationJudge))
    return total([*estimates, *(judge.role.client.estimate() for judge in judges)])


def _block(name: str, text: str) -> str:
    """One text as a block of YAML, which a person can read and edit."""
    inner = text.removesuffix("\n")
    if not inner or inner != inner.strip("\n") or _odd(inner):
        return f"{name}: {json.dumps(text)}\n"
    lines = "".join(f"  {line}\n" if line else "\n" for line in inner.split("\n"))
    return f"{name}: |2{'' if text.endswith(chr(10)) else '-'}\n{lines}"


def _odd(text: str) -> bool:
    """Whether there are characters that YAML knows in quotes only."""
    return not text.replace("\n", "").isprintable()
