"""PromptsTarget: a called agent, and its prompts that may be edited."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from burnish.core.cases import Case, Outcome, Trace
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Description, Receipt, Scope, Target, calls_function
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.system.files import state_folder
from burnish.targets.prompts.sources import (
    Begun,
    IsolatedWay,
    Mode,
    SourceWay,
    Way,
    begin,
    begin_at_once,
    common_root,
    reach_problems,
)
from burnish.targets.prompts.target_prompt import Frozen, MaxChars, TargetPrompt, surfaces_of
from burnish.targets.user_code import CurrentPrompts, providing


class PromptsTarget:
    """Runs an agent with the texts of a candidate.

    In `source` mode they are written where the agent reads them, inside the effect, one candidate
    at a time; `close` restores the originals. In `isolated` mode the agent gets them by
    `burnish.prompt`, in a separate folder or in the request, and none of the user's files is
    written.
    """

    def __init__(
        self,
        *,
        agent: Target,
        prompts: TargetPrompt,
        values: Mapping[str, str],
        mode: Mode = "source",
        max_chars: MaxChars = None,
        frozen: Frozen | None = None,
        root: Path | None = None,
        home: Path | None = None,
    ) -> None:
        self.agent = agent
        self.prompts = prompts
        self.mode: Mode = mode
        self.notes: tuple[str, ...] = ()
        """What was put back before the fields were read: a killed run had left it."""
        self.left_alone: tuple[str, ...] = ()
        """After `close`: what was not put back, since somebody else had changed it."""
        own = _in_order(prompts.names(), values)
        self._surfaces = surfaces_of(own, max_chars=max_chars, frozen=frozen or {})
        self._baseline = Candidate(values=own, origin=Origin(kind="baseline"))
        if problems := list(reach_problems(agent, prompts.names(), mode)):
            raise ConfigError(problems)
        place, home = common_root(prompts, root), home or state_folder()
        self._way: Way
        if mode == "isolated":
            self._way = IsolatedWay(prompts, root=place, home=home)
        else:
            self._way = SourceWay(prompts, own, root=place, home=home)

    @classmethod
    async def load(
        cls, agent: Target, prompts: TargetPrompt, *, home: Path | None = None, **more: Any
    ) -> Self:
        """Make a target with the current texts, after restoring what a killed run left."""
        begun = await begin(prompts, home or state_folder())
        return cls._begun(begun, agent=agent, prompts=prompts, home=home, **more)

    @classmethod
    def load_files(
        cls, agent: Target, prompts: TargetPrompt, *, home: Path | None = None, **more: Any
    ) -> Self:
        """The same without awaiting, if all fields are files."""
        begun = begin_at_once(prompts, home or state_folder())
        return cls._begun(begun, agent=agent, prompts=prompts, home=home, **more)

    @classmethod
    def _begun(cls, begun: Begun, **more: Any) -> Self:
        made = cls(values=begun.values, **more)
        made.notes = begun.notes
        return made

    @property
    def description(self) -> Description:
        """The agent, its fields and their sources, without their texts."""
        names = self.prompts.names()
        sources: dict[str, Json] = {name: self.prompts.describe_source(name) for name in names}
        agent = self.agent.description
        config: dict[str, Json] = {
            "agent": {"kind": agent.kind, "config": dict(agent.config)},
            "fields": [*names],
            "sources": sources,
            "mode": self.mode,
        }
        return Description(kind="prompts", config=config)

    @property
    def surfaces(self) -> Sequence[TextSurface]:
        return self._surfaces

    @property
    def baseline(self) -> Candidate:
        return self._baseline

    @property
    def leaf(self) -> bool:
        return self.agent.leaf

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        return [
            Problem(where=name, message="the field has no text")
            for name in self.prompts.names()
            if not isinstance(candidate.values.get(name), str)
        ]

    def estimate(self, case: Case) -> Spend:
        return self.agent.estimate(case)

    @property
    def calls_function(self) -> bool:
        return calls_function(self.agent)

    @property
    def prompts_summary(self) -> str:
        """What is called, and how it gets its prompts."""
        agent = self.agent.description
        return f"{agent.config.get('call') or agent.kind}, prompts in mode '{self.mode}'"

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """One file per field."""
        del home
        return {f"{name}.md": text.encode() for name, text in self._texts(candidate).items()}

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[None]:
        """Wait for the candidate's turn before the clock of a case starts."""
        return self._way.held(candidate.id, self._texts(candidate))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        texts = self._texts(candidate)
        prompts = CurrentPrompts(
            texts=texts, make_folder=partial(self._way.folder, candidate.id, texts)
        )
        async with self._way.held(candidate.id, texts):
            with providing(prompts):
                receipt = await self.agent.run(
                    self.agent.baseline, case, draw=draw, effects=effects
                )
        return replace(receipt, value=_attributed(receipt.value, prompts.used or texts))

    async def close(self) -> None:
        """Restore everything. No candidate is written after that.

        Raises RollbackError where something could not be restored.
        """
        self.left_alone += tuple(map(str, await self._way.close()))

    def _texts(self, candidate: Candidate) -> dict[str, str]:
        return {name: str(candidate.values[name]) for name in self.prompts.names()}


def _in_order(names: Sequence[str], values: Mapping[str, str]) -> dict[str, str]:
    if not names:
        remedy = "add at least one prompt: a file, or a pair of functions"
        raise ConfigError([Problem(message="there are no prompt fields", remedy=remedy)])
    if set(names) != set(values):
        message = "the values do not match the prompt fields"
        raise ConfigError([Problem(message=message, remedy=f"the fields are: {', '.join(names)}")])
    return {name: values[name] for name in names}


def _attributed(outcome: Outcome, names: Iterable[str]) -> Outcome:
    """Attribute the fields that no step names to each step that names none."""
    claimed = {name for step in outcome.trace.steps for name in step.surfaces}
    unclaimed = tuple(sorted(set(names) - claimed))
    steps = tuple(
        step if step.surfaces else replace(step, surfaces=unclaimed) for step in outcome.trace.steps
    )
    return replace(outcome, trace=Trace(steps=steps))
