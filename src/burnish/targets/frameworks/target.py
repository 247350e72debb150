"""FrameworkTarget: an agent of a known framework, with its texts and numbers as surfaces."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Outcome, Step, Trace
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, Origin, Surface
from burnish.targets.callables import CallableTarget, CallingTarget
from burnish.targets.callables.target import Reply
from burnish.targets.frameworks.adapters import AgentAdapter, AgentPart, values_as_json
from burnish.targets.user_code import CurrentPrompts, providing

_VALUES = "values.json"
"""The file of a candidate with all its values."""


@dataclass(frozen=True, kw_only=True)
class FrameworkTarget(CallingTarget):
    """Runs a copy of the agent with the values of a candidate; the agent itself stays as it is."""

    adapter: AgentAdapter
    name: str
    fingerprint: str = ""
    """A hash of its source."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts that no library knows of: the agent asks for them with `burnish.prompt(name)`."""

    @property
    def calls_function(self) -> bool:
        return True

    @property
    def remembers(self) -> bool:
        return self.adapter.remembers

    @cached_property
    def _parts(self) -> Sequence[AgentPart]:
        named = (AgentPart.text(name, text) for name, text in self.texts.items())
        return (*self.adapter.parts(), *named)

    @property
    def surfaces(self) -> Sequence[Surface]:
        return [part.surface for part in self._parts]

    @cached_property
    def _baseline(self) -> Candidate:
        values = {part.surface.id: part.value for part in self._parts}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    @property
    def baseline(self) -> Candidate:
        return self._baseline

    @property
    def description(self) -> Description:
        """Its name, its framework, its surfaces and a hash of its file."""
        config: dict[str, Json] = {
            "call": self.name,
            "library": self.adapter.library,
            "source": self.fingerprint,
            "surfaces": [surface.id for surface in self.surfaces],
        }
        return self._described("framework", config)

    def problems(self) -> Sequence[Problem]:
        ids = [surface.id for surface in self.surfaces]
        return [
            Problem(
                where=f"agent {self.name}",
                message=f"two of its parts would have the name '{name}'",
                remedy="give each agent and each tool a name of its own",
            )
            for name in dict.fromkeys(ids)
            if ids.count(name) > 1
        ]

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        try:
            self._agent(candidate)
        except ConfigError as error:
            return error.problems
        except (TypeError, ValueError) as error:
            return [Problem(where=self.name, message=f"the agent cannot be made: {error}")]
        return ()

    def conversation(self) -> AbstractAsyncContextManager[Reply]:
        return self.conversation_with(self.baseline)

    def conversation_with(self, candidate: Candidate) -> AbstractAsyncContextManager[Reply]:
        agent = self._agent(candidate)
        return CallableTarget(
            agent=lambda: self.adapter.talk(agent), name=self.name, fingerprint=self.fingerprint
        ).conversation()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        texts = {name: str(candidate.values[name]) for name in self.texts}
        with providing(CurrentPrompts(texts=texts, make_folder=_no_folder)):
            receipt = await super().run(candidate, case, draw=draw, effects=effects)
        steps = tuple(map(self._attributed, receipt.value.trace.steps))
        return replace(receipt, value=replace(receipt.value, trace=Trace(steps=steps)))

    def _agent(self, candidate: Candidate) -> Any:
        """A copy of the agent with the values of a candidate."""
        own = {k: value for k, value in candidate.values.items() if k not in self.texts}
        return self.adapter.with_values(own)

    def _attributed(self, step: Step) -> Step:
        """A step with its node's surfaces; with all of them where none has the node's name."""
        if step.surfaces:
            return step
        every = [surface.id for surface in self.surfaces]
        own = [name for name in every if name.startswith(f"{step.node}.")]
        return replace(step, surfaces=tuple(sorted(own or every)))

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """All values in one file, and each text in its own."""
        del home
        texts = {
            f"{name.replace('/', '_')}.md": value.encode()
            for name, value in candidate.values.items()
            if isinstance(value, str)
        }
        return {_VALUES: values_as_json(candidate.values).encode(), **texts}


def _no_folder() -> Path:
    message = "the texts of this agent are not in a folder"
    raise ConfigError([Problem(message=message, remedy="take them with burnish.prompt(name)")])
