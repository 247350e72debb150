"""A workflow: everything that a delegation is made of, ready to run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from burnish.core.content import Json, short_id
from burnish.system.sandbox import Limits, Mode
from burnish.targets.delegation.critic import Critic
from burnish.targets.delegation.desk import Worker
from burnish.targets.delegation.envelope import Envelope
from burnish.targets.delegation.evaluating import DelegationMetric, Zones
from burnish.targets.delegation.gates.completion import GateSettings
from burnish.targets.delegation.manager import Manager
from burnish.targets.delegation.metrics import RubricJudge
from burnish.targets.delegation.tools import OwnTool


@dataclass(frozen=True, kw_only=True)
class Deliverable:
    """A file that the workflow always delivers."""

    path: str
    schema: Json = None
    """A JSON schema that it must keep."""
    smoke: bool = False
    """Whether it is a script that must run."""


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """Who works, with what, within which limits, and how the result is checked."""

    name: str
    manager: Manager
    worker: Worker
    critic: Critic | None = None
    metrics: tuple[DelegationMetric, ...] = ()
    zones: Zones = field(default_factory=Zones)
    gates: GateSettings = field(default_factory=GateSettings)
    envelope: Envelope = field(default_factory=Envelope)
    max_repairs: int = 2
    deliverables: tuple[Deliverable, ...] = ()
    own_instructions: str = ""
    """What this workflow tells its manager beside its prompt."""
    tools: tuple[OwnTool, ...] = ()
    folder: Path = Path()
    """What the tools' files are found from."""
    source: Path | None = None
    """A folder whose copy the workspace starts with."""
    sandbox: Mode = "auto"
    env: tuple[str, ...] = ()
    """Names of variables that commands may see."""
    network: bool = False
    limits: Limits = field(default_factory=Limits)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that may not be kept anywhere, beside those that the environment calls secret."""

    def within(self, envelope: Envelope | None) -> Self:
        """The same workflow under another envelope."""
        return self if envelope is None else replace(self, envelope=envelope)

    @property
    def models(self) -> dict[str, str]:
        """Who is who, by role."""
        judges = [m.role.client.ref.label for m in self.metrics if isinstance(m, RubricJudge)]
        found = {
            "manager": self.manager.label,
            "worker": self.worker.label,
            "critic": self.critic.label if self.critic else "",
            "judge": ", ".join(dict.fromkeys(judges)),
        }
        return {role: label for role, label in found.items() if label}

    def notes(self) -> list[str]:
        """What a reader of the result should know."""
        found = [
            f"the {role} is the worker's own model ({label}): it grades its own work"
            for role, label in self.models.items()
            if role in ("critic", "judge") and self.worker.label in label.split(", ")
        ]
        if self.critic is None:
            found.append("there is no critic: the loss counts the critique as neutral")
        if not self.metrics:
            found.append("there are no metrics: the loss counts the evaluation as neutral")
        return found

    def inputs(self) -> Mapping[str, str]:
        """Hashes of all that decides what happens; a resume must find them unchanged."""
        checks: Json = [
            [metric.fingerprint for metric in self.metrics],
            dict(vars(self.zones)),
            dict(vars(self.gates)),
            [[each.path, each.schema, each.smoke] for each in self.deliverables],
            self.max_repairs,
        ]
        tools: Json = [tool.model_dump(mode="json") for tool in self.tools]
        commands: Json = [*self.env, self.network, dict(vars(self.limits))]
        return {
            "manager": short_id([self.manager.fingerprint, self.own_instructions]),
            "worker": self.worker.fingerprint,
            "critic": self.critic.fingerprint if self.critic else "",
            "checks": short_id(checks),
            "tools": short_id([tools, commands]),
            "envelope": short_id(self.envelope.to_json()),
        }
