"""Remote agents in project files: `kind: remote`."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from burnish.compat.promptiter.remote import RemoteAgent, RemoteTarget
from burnish.core.cases import Dataset, Split
from burnish.core.content import AboveZero
from burnish.core.errors import Problem
from burnish.core.protocols import Metric
from burnish.core.surfaces import AGENT_SURFACES, Surface
from burnish.projects.called_agents import CalledBlock
from burnish.projects.dialects import Document
from burnish.projects.evaluation_setup import User, read_metrics, read_splits, simulated_user
from burnish.projects.file_kinds import GraphFile
from burnish.runs.events import in_folders
from burnish.runs.plugins import STEPS, Ability, Building, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.system.config import near
from burnish.system.settings import Text


class RemoteBlock(CalledBlock):
    """A remote agent. An address alone is short for `{url: …}`."""

    short: ClassVar[str] = "url"
    url: Text
    """The address of its app, below which `structure` and `runs` are."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Values may contain `${VAR}`, which is expanded when a request is sent."""
    timeout: AboveZero = 120.0
    """Seconds for one turn."""

    def connected(self, user: User | None) -> RemoteTarget:
        """The agent, after asking it for its structure."""
        return RemoteTarget.connect(
            RemoteAgent(
                url=self.url,
                headers=self.headers,
                timeout=self.timeout,
                version=self.version,
                usd_per_call=self.usd_per_call,
                user=user,
            )
        )


class RemoteSpec(TargetSpec):
    """An agent in another process that PromptIter's protocol for remote agents reaches."""

    kind: str = "remote"
    agent: RemoteBlock
    targets: tuple[Text, ...] = ()
    """The surfaces that may be changed; by default all of them."""


class RemoteFile(GraphFile):
    """`kind: remote`: an agent in another process, and in `optimizer` how to improve it."""

    kind: ClassVar[str] = "remote"
    target: ClassVar[str] = "remote"
    keys: ClassVar[Mapping[str, str]] = {
        **{key: field for key, field in GraphFile.keys.items() if field},
        **dict.fromkeys(("description", "optimizer"), ""),
        "target": "target.agent",
    }
    block: ClassVar[Mapping[str, str]] = {
        key: field for key, field in GraphFile.block.items() if key not in ("choices", "ranges")
    }

    def other_problems(self, document: Document) -> list[Problem]:
        del document
        return []


class RemotePlugin(TargetPlugin):
    """Builds a remote agent."""

    kind: ClassVar[str] = "remote"
    Spec: ClassVar[type[TargetSpec]] = RemoteSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        dataset = read_splits(building, strategy)
        cases = [case for split in Split for case in dataset.cases(split)] if dataset else []
        metrics = read_metrics(building, cases)
        target = remote_target(building, simulated_user(building, cases))
        if dataset is None or target is None:
            return None
        return remote_parts(building, target, dataset, metrics)


def remote_target(building: Building, user: User | None) -> RemoteTarget | None:
    """The agent of the description; None if it cannot be reached, with the problem recorded."""
    spec: RemoteSpec = building.spec.target
    target = building.problems.in_block(
        "target.agent", spec.agent, lambda: spec.agent.connected(user)
    )
    known = [] if target is None else [surface.id for surface in target.surfaces]
    for place, name in enumerate(spec.targets if known else ()):
        if name not in known:
            at = ("target", "targets", place)
            building.problems.add(at, f"there is no surface '{name}'", near(name, known))
    return target


def remote_parts(
    building: Building, target: RemoteTarget, dataset: Dataset, metrics: tuple[Metric, ...]
) -> TargetParts:
    """What a remote agent contributes to a run over these cases."""
    spec: RemoteSpec = building.spec.target
    chosen = spec.targets
    return TargetParts(
        target=target,
        dataset=dataset,
        metrics=metrics,
        no_model="the model of a remote agent is not known here",
        left_out=tuple(s.id for s in target.surfaces if chosen and s.id not in chosen),
        cases_demonstrate=False,
        exporter=in_folders(target),
    )
