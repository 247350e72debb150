"""What a run may be asked for over HTTP: limits and numbers freely, names only from a list."""

from collections.abc import Set
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.projects.overrides import Overrides
from burnish.server.datasets import DatasetName, Datasets
from burnish.server.errors import NotAllowed
from burnish.system import validate_config
from burnish.system.settings import AtLeastOne, Limits, NotNegative, Places, Repeats, Settings

PROMPTITER = "promptiter"
"""The key of a request in PromptIter's terms."""
_NAMED = ("agent", "applier", "critic", "editor", "proposer", "reflector")
_DATASETS = {"train": "train_cases", "holdout": "holdout_cases", "test": "sealed_cases"}
Text = Annotated[str, Field(min_length=1, max_length=200)]


class RunSettings(Limits):
    """What may be said in the place of the project file. Nothing here names a path."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    concurrency: Places | None = None
    strategy: Text | None = None
    repeats: Repeats | None = None
    accept_sigma: NotNegative | None = None
    max_cycles: AtLeastOne | None = None
    max_rounds: AtLeastOne | None = None
    numeric_max_trials: AtLeastOne | None = None
    numeric_patience: AtLeastOne | None = None
    textual_max_trials: AtLeastOne | None = None
    textual_patience: AtLeastOne | None = None
    keep_best_only: bool | None = None
    train: DatasetName | None = None
    """Datasets of this service, by name."""
    holdout: DatasetName | None = None
    test: DatasetName | None = None
    agent: Text | None = None
    """`module:function`, and models as `provider:name`: only what the operator allowed."""
    critic: Text | None = None
    applier: Text | None = None
    reflector: Text | None = None
    proposer: Text | None = None
    editor: Text | None = None

    def overrides(self, datasets: Datasets, allowed: Set[str]) -> Overrides:
        """The same as flags of the command line."""
        said = self.model_dump(exclude_none=True)
        refuse_unlisted({name: str(said[name]) for name in _NAMED if name in said}, allowed)
        for name, flag in _DATASETS.items():
            if name in said:
                said[flag] = str(datasets.path(said.pop(name)))
        return Overrides.from_flags(**said)


class EvaluationSettings(Settings):
    """What may be said of a measurement."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    cases: DatasetName | None = None
    """A dataset of this service, by name."""
    metrics: list[Text] = Field(default_factory=list[str], max_length=100)
    """Only these, by name."""
    repeats: Repeats | None = None
    concurrency: Places | None = None
    judge: Text | None = None
    """A model that the operator allowed."""


class Asked(Settings):
    """A request as the store keeps it."""

    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: Json = None

    @classmethod
    def read(cls, request: Json) -> "Asked":
        """What the store kept, or a program gives."""
        return validate_config(request or {}, cls, source="request")

    def to_json(self) -> dict[str, Json]:
        """As the store keeps it."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def refuse_unlisted(named: dict[str, str], allowed: Set[str]) -> None:
    """Refuse code and models that the operator did not list."""
    for key, name in named.items():
        if name not in allowed:
            raise NotAllowed(
                f"{key}: '{name}' is not allowed here",
                remedy="the operator allows a name with `burnish serve --allow NAME`",
            )


def refuse_kind(kind: str, app: str) -> ConfigError:
    """An app that cannot do what is asked."""
    return ConfigError([Problem(where="kind", message=f'the app "{app}" cannot {kind}')])
