"""PromptsTarget: an agent that is called, and the prompts of it that may be edited."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome, Trace
from burnish.core.protocols import Description, Receipt, Scope, Target, calls_function
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.system.files import state_folder
from burnish.targets.current_prompts import CurrentPrompts, providing
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


class PromptsTarget:
    """Runs an agent under the texts of a candidate.

    In `source` mode they are written where the agent reads them, inside the effect, one candidate
    at a time; `close` puts back what was there. In `isolated` mode the agent asks for them, by
    `burnish.prompt`, in a folder of its own or in the request, and nothing of the user's is
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
        self._asked: set[str] = set()
        if problems := list(reach_problems(agent, prompts.names(), mode)):
            raise ConfigError(problems)
        self._way = _way(prompts, own, mode=mode, root=root, home=home or state_folder())

    @classmethod
    async def load(
        cls, agent: Target, prompts: TargetPrompt, *, home: Path | None = None, **more: Any
    ) -> Self:
        """The target with the values that the fields have now, after what a killed run left in
        them was put back.
        """
        begun = await begin(prompts, home or state_folder())
        return cls._begun(begun, agent=agent, prompts=prompts, home=home, **more)

    @classmethod
    def load_files(
        cls, agent: Target, prompts: TargetPrompt, *, home: Path | None = None, **more: Any
    ) -> Self:
        """The same without waiting for anybody, where all fields are files."""
        begun = begin_at_once(prompts, home or state_folder())
        return cls._begun(begun, agent=agent, prompts=prompts, home=home, **more)

    @classmethod
    def _begun(cls, begun: Begun, **more: Any) -> Self:
        made = cls(values=begun.values, **more)
        made.notes = begun.notes
        return made

    @property
    def description(self) -> Description:
        """The agent, its fields and where they lie; what they say is the candidate's."""
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
        """One text a field."""
        return self._surfaces

    @property
    def baseline(self) -> Candidate:
        """What the fields said when the target was made."""
        return self._baseline

    @property
    def leaf(self) -> bool:
        """As the agent's."""
        return self.agent.leaf

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """Whether every field has a text; the rest is a matter of bounds."""
        return [
            Problem(where=name, message="the field has no text")
            for name in self.prompts.names()
            if not isinstance(candidate.values.get(name), str)
        ]

    def estimate(self, case: Case) -> Spend:
        """What the agent costs."""
        return self.agent.estimate(case)

    @property
    def calls_function(self) -> bool:
        """Whether the agent is a function."""
        return calls_function(self.agent)

    @property
    def prompts_summary(self) -> str:
        """What is called, and how it gets its prompts."""
        agent = self.agent.description
        return f"{agent.config.get('call') or agent.kind}, prompts in mode '{self.mode}'"

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """One file a field."""
        del home
        return {f"{name}.md": text.encode() for name, text in self._texts(candidate).items()}

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[None]:
        """The candidate's turn, for those who wait for it before the clock of a case runs."""
        return self._way.held(candidate.id, self._texts(candidate))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """Run the agent while it finds the candidate's texts."""
        texts = self._texts(candidate)
        prompts = CurrentPrompts(
            texts=texts, make_folder=partial(self._way.folder, candidate.id, texts)
        )
        async with self._way.held(candidate.id, texts):
            with providing(prompts):
                receipt = await self.agent.run(
                    self.agent.baseline, case, draw=draw, effects=effects
                )
        self._asked |= prompts.used
        return replace(receipt, value=_attributed(receipt.value, prompts.used or texts))

    @property
    def never_asked(self) -> tuple[str, ...]:
        """The fields that no run so far asked for by `burnish.prompt`."""
        return tuple(name for name in self.prompts.names() if name not in self._asked)

    async def close(self) -> None:
        """Put everything back and let go of it. No candidate is written after that.

        Raises RollbackError where something could not be put back.
        """
        self.left_alone += tuple(map(str, await self._way.close()))

    def _texts(self, candidate: Candidate) -> dict[str, str]:
        return {name: str(candidate.values[name]) for name in self.prompts.names()}


def _way(
    prompts: TargetPrompt, values: Mapping[str, str], *, mode: Mode, root: Path | None, home: Path
) -> Way:
    place = common_root(prompts, root)
    if mode == "isolated":
        return IsolatedWay(prompts, root=place, home=home)
    return SourceWay(prompts, values, root=place, home=home)


def _in_order(names: Sequence[str], values: Mapping[str, str]) -> dict[str, str]:
    if not names:
        remedy = "name at least one prompt: a file, or a pair of functions"
        raise ConfigError([Problem(message="there are no prompt fields", remedy=remedy)])
    if set(names) != set(values):
        message = "the values are not those of the prompt fields"
        raise ConfigError([Problem(message=message, remedy=f"the fields are: {', '.join(names)}")])
    return {name: values[name] for name in names}


def _attributed(outcome: Outcome, names: Iterable[str]) -> Outcome:
    """The outcome with the fields that no step speaks of on each step that speaks of none."""
    claimed = {name for step in outcome.trace.steps for name in step.surfaces}
    unclaimed = tuple(sorted(set(names) - claimed))
    steps = tuple(
        step if step.surfaces else replace(step, surfaces=unclaimed) for step in outcome.trace.steps
    )
    return replace(outcome, trace=Trace(steps=steps))
