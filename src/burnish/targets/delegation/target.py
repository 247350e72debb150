"""The policy texts as a target: its surfaces are the texts, its cases are tasks to delegate."""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case, Turn
from burnish.core.content import Json, short_id
from burnish.core.effects import Receipt, Scope
from burnish.core.errors import Problem
from burnish.core.money import Spend, total
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description
from burnish.core.surfaces import TextSurface, placeholders_in
from burnish.system import ChildProcesses, Redactor
from burnish.system.workspaces import remove_tree
from burnish.targets.delegation.command_worker import CommandWorker
from burnish.targets.delegation.delegating import Delegation, Site, delegate
from burnish.targets.delegation.manager import ModelManager
from burnish.targets.delegation.metrics import RubricJudge
from burnish.targets.delegation.outcomes import Account
from burnish.targets.delegation.policy import NAMES, PolicyTexts
from burnish.targets.delegation.registry import MOST_CHARS
from burnish.targets.delegation.ruling import RUBRIC
from burnish.targets.delegation.worker import ModelWorker
from burnish.targets.delegation.workflow import Workflow

FILE = "policy_texts.yaml"
DELEGATIONS = "delegations"
"""The folder of them in that of a run."""
UNSTORED = -1
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


class RunPlace(Protocol):
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
        self._run: RunPlace | None = None

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

    def move_in(self, place: "RunPlace") -> None:
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
        tried = {name: UNSTORED for name, text in texts.items() if text != self.policy[name]}
        return self.policy.replaced(texts, tried)

    def estimate(self, case: Case) -> Spend:
        """What a small delegation takes; a long one takes more."""
        task = self.tasks.get(case.id)
        return Spend(calls=1) if task is None else _expected(task.workflow)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """All six texts in one file, as the shipped ones stand in theirs."""
        del home
        texts = self.texts_of(candidate).texts
        return {FILE: "\n".join(_block(name, texts[name]) for name in NAMES).encode()}

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
    asked: list[Spend] = []
    if isinstance(workflow.manager, ModelManager):
        asked += [workflow.manager.role.client.estimate()] * _LOOPS
    worker = workflow.worker
    if isinstance(worker, ModelWorker):
        asked += [worker.client.estimate()] * _ROUNDS
    elif isinstance(worker, CommandWorker):
        asked.append(worker.price)
    if workflow.critic is not None:
        asked.append(workflow.critic.role.client.estimate())
    judges = (metric for metric in workflow.metrics if isinstance(metric, RubricJudge))
    return total([*asked, *(judge.role.client.estimate() for judge in judges)])


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
