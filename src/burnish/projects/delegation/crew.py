"""Who manages, works, criticises and judges in a workflow: models, or a program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from burnish.core.errors import ConfigError, Problem
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RolePrompt, in_force
from burnish.projects.delegation.overrides import WorkflowOverrides
from burnish.projects.delegation.workflow_file import (
    CommandEngineBlock,
    DelegationLoopBlock,
    LoopBlock,
)
from burnish.projects.gathering import Gathering, Keys
from burnish.runs.parts import reached
from burnish.targets.delegation.command_worker import CommandWorker
from burnish.targets.delegation.critic import ROLE as CRITIC
from burnish.targets.delegation.critic import Critic
from burnish.targets.delegation.desk import Worker
from burnish.targets.delegation.manager import ROLE as MANAGER
from burnish.targets.delegation.manager import CommandManager, Manager, ModelManager
from burnish.targets.delegation.metrics import JUDGE, JudgeRequest, judge_role
from burnish.targets.delegation.words import Judgement
from burnish.targets.delegation.worker import ROLE as WORKER
from burnish.targets.delegation.worker import ModelWorker

_NOBODY = "name a model, such as `models: {manager: openai:gpt-4o, worker: openai:gpt-4o-mini}`"
_WRONG = ModelRef(provider="", name="")
"""In the place of a model whose name cannot be read, which was said already."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Finds the roles of one workflow; what is wrong is kept."""

    folder: Path
    loop: LoopBlock
    at: Keys
    """Where the engine's block stands in the file."""
    told: WorkflowOverrides
    models: Models
    wrong: Gathering

    def manager(self) -> Manager | None:
        """Who decides."""
        if isinstance(self.loop, CommandEngineBlock):
            return CommandManager()
        return self._role(MANAGER, self._reference(MANAGER), ModelManager.of)

    def worker(self) -> Worker | None:
        """Who does the work."""
        loop = self.loop
        if isinstance(loop, CommandEngineBlock):
            return CommandWorker(
                command=loop.command,
                timeout_seconds=loop.timeout_seconds,
                env=tuple(loop.env),
                network=loop.network,
                usd_per_run=loop.usd_per_run,
            )
        assert isinstance(loop, DelegationLoopBlock)
        rounds = loop.max_rounds

        def of(client: ModelClient, prompt: RolePrompt) -> ModelWorker:
            return ModelWorker(client=client, prompt=prompt, max_rounds=rounds)

        return self._role(WORKER, self._reference(WORKER), of)

    def critic(self) -> Critic | None:
        """Who finds defects; the manager's model unless another is named."""
        return self._role(CRITIC, self._reference("critic", MANAGER, WORKER), Critic.of)

    def judge(self) -> ModelRole[JudgeRequest, Judgement]:
        """Who judges by rubrics; the critic's model unless another is named."""
        prompt = in_force(JUDGE, self.folder)
        ref = self._named("judge", "critic", MANAGER, WORKER)
        if ref is None:
            raise ConfigError([Problem(message="there is nobody to judge", remedy=_NOBODY)])
        return judge_role(reached(self.models, ref, prompt), prompt)

    def _role(
        self, name: str, ref: ModelRef | None, make: Callable[[ModelClient, RolePrompt], T]
    ) -> T | None:
        """A role with its model, seen to be within reach, and the prompt in force."""
        if ref is None:
            return None

        def made() -> T:
            prompt = in_force(name, self.folder)
            return make(reached(self.models, ref, prompt), prompt)

        return self.wrong.of((*self.at, "models"), made, None)

    def _reference(self, *names: str) -> ModelRef | None:
        """The model of the first of these roles that has one."""
        at = (*self.at, "models")
        ref = self.wrong.of(at, lambda: self._named(*names), _WRONG)
        if ref is None:
            self.wrong.add(at, f"there is no model for the {names[0]}", _NOBODY)
        return None if ref is _WRONG else ref

    def _named(self, *names: str) -> ModelRef | None:
        for place, name in enumerate(names):
            flag: str | ModelBlock | None = getattr(self.told, name)
            if isinstance(flag, ModelBlock):
                return flag.reference()
            if flag is not None:
                return self._instead(flag, names[place:])
            if (block := self._block(name)) is not None:
                return block.reference()
        return None

    def _instead(self, flag: str, names: Sequence[str]) -> ModelRef:
        """A model that a flag names: at the address of the one whose place it takes.

        The file says where the models of a provider are, and how they are asked; another name is
        no reason to go elsewhere.
        """
        told = ModelRef.parse(flag)
        block = next(filter(None, map(self._block, names)), None)
        if block is None or block.reference().provider != told.provider:
            return told
        return block.model_copy(update={"name": told.name}).reference()

    def _block(self, name: str) -> ModelBlock | None:
        return getattr(self.loop.models, name)
