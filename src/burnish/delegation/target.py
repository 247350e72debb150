"""The policy texts as a target, a delegation as an outcome, its loss as a metric."""

import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.cases import Case, Failure, FailureKind, Outcome, Turn, Usage
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Description, Effects, Receipt, Scope
from burnish.core.surfaces import Candidate, Origin, TextSurface, placeholders_in
from burnish.delegation.delegation import Delegation, Site, delegate
from burnish.delegation.evaluation import DelegationJudge
from burnish.delegation.manager import ModelManager
from burnish.delegation.policy import MOST_CHARS, NAMES, PolicyTexts
from burnish.delegation.result import RUBRIC, WEIGHTS, DelegationResult
from burnish.delegation.team import Workflow
from burnish.delegation.workers import CommandWorker, ModelWorker
from burnish.delegation.workspace import STATES
from burnish.runs.directory import RunDirectory
from burnish.system import ChildProcesses, Redactor
from burnish.system.workspaces import remove_tree

_MOST_SHOWN = 12
"""Defects that are listed for one run; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class DelegationFacts:
    """The facts in the outcome of a delegation, besides its numbers."""

    run_id: str = ""
    folder: str = ""
    status: str = ""
    reason: str = ""
    deliverables: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """What was wrong, one problem per line."""

    @classmethod
    def of(cls, outcome: Outcome) -> "DelegationFacts":
        """The facts of an outcome; empty ones if it is not of a delegation."""
        return codec(cls).decode(outcome.data) if isinstance(outcome.data, dict) else cls()


def outcome_of(result: DelegationResult, workflow: Workflow) -> Outcome:
    """A delegation as the outcome of its case."""
    spent, problems = result.spent, [*_problems(result)]
    failure = _failure(result, workflow, problems)
    wall_time = result.budget.get("wall_time")
    seconds = wall_time.get("elapsed_s") if isinstance(wall_time, dict) else None
    facts = DelegationFacts(
        run_id=result.run_id,
        folder=result.run_dir.name,
        status=result.status,
        reason=result.reason,
        deliverables=tuple(result.names),
        told=tuple(problems),
    )
    return Outcome(
        replies=() if failure else (result.result,),
        data=codec(DelegationFacts).encode(facts),
        measures={} if failure else _signals(result, workflow),
        usage=Usage(
            requests=spent.calls, input_tokens=spent.tokens_in, output_tokens=spent.tokens_out
        ),
        nano_usd=None if spent.unpriced else spent.nano_usd,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        failure=failure,
    )


def _signals(result: DelegationResult, workflow: Workflow) -> dict[str, float]:
    """The parts of the loss before they are weighted."""
    values = {name: getattr(result.loss, name) / weight for name, weight in WEIGHTS.items()}
    if workflow.critic is not None and result.critique is None:
        # There was a critic, and nothing to criticise: that is not half as good as it can be.
        values["critique"] = 1.0
    return {name: round(value, 6) for name, value in values.items()}


def _failure(
    result: DelegationResult, workflow: Workflow, problems: Sequence[str]
) -> Failure | None:
    if missing := _missing(result, workflow):
        return Failure(kind=FailureKind.INFRASTRUCTURE, message=missing, error="Missing")
    ended = result.status in ("failed", "aborted")
    if not ended and (result.deliverables or result.result.strip()):
        return None
    head = f"nothing was delivered ({result.status}: {result.reason})"
    if ended:
        head = f"the task {result.status}: {result.reason}"
    message = "\n".join([head, *problems])
    return Failure(kind=FailureKind.AGENT, message=message, error=result.status, mendable=True)


def _missing(result: DelegationResult, workflow: Workflow) -> str:
    """Why the outcome is missing, if a service could not be reached."""
    if result.reason.startswith("manager_missing"):
        return result.reason
    if result.status in ("failed", "aborted"):
        return ""
    criticised = any(result.run_dir.glob("iterations/*/critique.json"))
    if workflow.critic is not None and result.critique is None and criticised:
        return "the critic could not be reached"
    if result.evaluation is not None and result.evaluation.total is None:
        errors = [each.error for each in result.evaluation.measured if each.error]
        return f"the result could not be measured: {'; '.join(errors)}"
    return ""


def _problems(result: DelegationResult) -> Iterator[str]:
    order = ("critical", "warning", "info")
    worst_first = sorted(result.defects, key=lambda each: order.index(each.severity))
    for each in worst_first[:_MOST_SHOWN]:
        where = f" {each.location}:" if each.location else ""
        yield f"defect [{each.severity}] ({each.category}){where} {each.description}"
    if (more := len(worst_first) - _MOST_SHOWN) > 0:
        yield f"and {more} more defects"
    for each in result.rejections:
        yield f"gate {each.gate} sent the completion back: {each.reason}"
    if result.evaluation is None:
        return
    accept = result.evaluation.zones.accept
    for each in result.evaluation.measured:
        if each.below(accept):
            goal = "" if each.threshold is None else f" and should reach {each.threshold:g}"
            yield f"metric {each.name} is {each.score:g}{goal} {each.evidence}".rstrip()


NAME = "delegation_loss"


@dataclass(frozen=True, kw_only=True)
class DelegationLoss:
    """Scores a delegation by the five signals of its loss; a case may have its own weights.

    It passes if it was completed without anything worse than a remark.
    """

    name: str = NAME

    @property
    def fingerprint(self) -> str:
        return short_id([NAME, 1, dict(WEIGHTS)])

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del effects
        if not outcome.measures.keys() >= WEIGHTS.keys():
            return [Score.of_nothing(self.name, "the outcome has no signals of a delegation")]
        facts = DelegationFacts.of(outcome)
        parts = weighed(outcome.measures, weights_of(case))
        loss = min(1.0, math.fsum(parts.values()))
        shares = ", ".join(f"{name} {value:.3f}" for name, value in parts.items())
        head = f"loss {loss:.3f} ({shares}); {facts.status}: {facts.reason}"
        worse_than_remarks = ("defect [critical]", "defect [warning]", "gate ", "metric ")
        spoiled = any(line.startswith(worse_than_remarks) for line in facts.told)
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
    """The parts of the loss: each signal from 0 to 1 times its weight."""
    return {name: weight * signals[name] for name, weight in weights.items()}


def weights_of(case: Case) -> dict[str, float]:
    """The weights of a case; the usual ones by default."""
    own = case.turns[0].settings.get("weights")
    weights = own if isinstance(own, dict) else {}
    return {**WEIGHTS, **{n: float(w) for n, w in weights.items() if isinstance(w, int | float)}}


DELEGATIONS = "delegations"
_UNSTORED = -1
"""The version of a text that is only tried."""


@dataclass(frozen=True, kw_only=True)
class SuiteTask:
    """A task of a suite with the workflow that does it."""

    name: str
    task: str
    workflow: Workflow
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Its own weights for parts of the loss."""
    kept: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def case(self) -> Case:
        """The task as a case; the workflow is part of its identity."""
        settings: dict[str, Json] = {"weights": {**self.weights}} if self.weights else {}
        turn = Turn(input=self.task, settings=settings)
        workflow = short_id(dict(self.workflow.inputs()))
        return Case(turns=(turn,), name=self.name, extras={"workflow": workflow})


class DelegationTarget:
    """The policy texts behind all delegations, tried on the tasks of a suite.

    A run is one delegation in its own folder under `home`, named after candidate, case and draw,
    so that a killed one can be resumed. It is journaled by the run that it belongs to.
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
        self._run: RunDirectory | None = None

    @property
    def description(self) -> Description:
        fixed: dict[str, Json] = {n: self.policy[n] for n in NAMES if n not in self._names}
        config: dict[str, Json] = {"trained": list(self._names), "fixed": short_id(fixed)}
        return Description(kind="policy" if self._names else "delegation", config=config)

    @property
    def surfaces(self) -> Sequence[TextSurface]:
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
        values = {name: self.policy[name] for name in self._names}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    def move_in(self, place: RunDirectory) -> None:
        """Store the delegations in this run from now on."""
        self._run, self._home = place, place.folder / DELEGATIONS

    def secrets(self) -> Sequence[str]:
        return [secret for task in self.tasks.values() for secret in task.workflow.secrets]

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        del candidate
        return ()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
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
        outcome = outcome_of(result, task.workflow)
        return Receipt(value=outcome, missing=outcome.missing)

    def texts_of(self, candidate: Candidate) -> PolicyTexts:
        """All six texts as a candidate has them."""
        texts = {name: str(value) for name, value in candidate.values.items()}
        tried = {name: _UNSTORED for name, text in texts.items() if text != self.policy[name]}
        return self.policy.replaced(texts, tried)

    def estimate(self, case: Case) -> Spend:
        task = self.tasks.get(case.id)
        return Spend(calls=1) if task is None else _expected(task.workflow)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del home
        texts = self.texts_of(candidate).texts
        return {
            "policy_texts.yaml": "\n".join(_block(name, texts[name]) for name in NAMES).encode()
        }

    async def close(self) -> None:
        """Remove delegations that do not belong to a run."""
        if self._borrowed is not None:
            remove_tree(self._borrowed)

    def _site(self, key: str, effects: Scope) -> Site:
        if self._home is None:
            self._borrowed = self._home = Path(tempfile.mkdtemp(prefix="burnish-suite-"))
        folder, run = self._home / key, self._run
        if run is None:
            children = ChildProcesses(folder=folder / "processes")
            redactor, hidden = Redactor.from_environment(extra=self.secrets()), ()
        else:
            children, redactor, hidden = run.children, run.redactor, (run.folder,)
        return Site(
            folder=folder,
            effects=effects,
            children=children,
            redactor=redactor,
            hidden=hidden,
            states=None if run is None else run.folder / STATES,
        )


def _expected(workflow: Workflow) -> Spend:
    """The cost of a small delegation: three decisions and three calls of a worker."""
    estimates: list[Spend] = []
    if isinstance(workflow.manager, ModelManager):
        estimates += [workflow.manager.role.client.estimate()] * 3
    worker = workflow.worker
    if isinstance(worker, ModelWorker):
        estimates += [worker.client.estimate()] * 3
    elif isinstance(worker, CommandWorker):
        estimates.append(worker.price)
    if workflow.critic is not None:
        estimates.append(workflow.critic.role.client.estimate())
    judges = (metric for metric in workflow.metrics if isinstance(metric, DelegationJudge))
    return total([*estimates, *(judge.role.client.estimate() for judge in judges)])


def _block(name: str, text: str) -> str:
    inner = text.removesuffix("\n")
    # YAML knows some characters in quotes only.
    odd = not inner.replace("\n", "").isprintable()
    if not inner or inner != inner.strip("\n") or odd:
        return f"{name}: {json.dumps(text)}\n"
    lines = "".join(f"  {line}\n" if line else "\n" for line in inner.split("\n"))
    return f"{name}: |2{'' if text.endswith(chr(10)) else '-'}\n{lines}"
