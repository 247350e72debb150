"""The settings of coordinate descent."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import AliasChoices, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from burnish.core.content import AtLeastOne, NotNegative, Repeats, Share
from burnish.runs.spec import StrategySettings
from burnish.system.settings import Door, Settings

HoldoutPolicy: TypeAlias = Literal["on_train_improve", "every_trial", "skip"]
_PHASES = {
    "numeric_phase": {"max_trials": 15, "patience": 5},
    "textual_phase": {"max_trials": 10, "patience": 4},
    "demonstration_phase": {"max_trials": 8, "patience": 4},
}


class PhaseLimits(Settings):
    """When a phase ends."""

    max_trials: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=True)]
    """Trials of this phase, in each cycle."""
    patience: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=True)]
    """Trials in a row without an accept, after which this phase ends."""


def _phase(name: str) -> PhaseLimits:
    return PhaseLimits(**_PHASES[name])


class CoordinateSettings(StrategySettings):
    """How the search goes about it. `max_trials` and `patience` alone are those of every phase."""

    model_config = ConfigDict(populate_by_name=True)
    without_holdout: ClassVar[str] = (
        "set holdout_eval_policy: skip, and take the risk of overfitting on yourself"
    )

    numbers: Annotated[tuple[str, ...], Door(file=False)] = ()
    """Surfaces of numbers and choices, searched together."""
    texts: Annotated[tuple[str, ...], Door(file=False)] = ()
    """Surfaces of text, one a trial, in turn."""
    demonstrations: Annotated[str, Door(file=False)] = ""
    """The surface of demonstrations, if any."""
    repeats: Annotated[Repeats, Door(flag="*", http=True)] = 3
    """Runs of every case; they show the noise."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=True)] = 1.0
    """How many times its noise a gain must be."""
    holdout_policy: Annotated[
        HoldoutPolicy,
        Field(validation_alias=AliasChoices("holdout_policy", "holdout_eval_policy")),
    ] = "on_train_improve"
    """When a candidate is run on holdout."""
    max_errored_fraction: Share = 0.25
    """A candidate of which more cases fail is turned down."""
    min_confidence: Share = 0.4
    """A diagnosis that the critic is less sure of leads to no edit."""
    max_cycles: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=True)] = 4
    """Rounds through all phases of a search."""
    numeric_phase: Annotated[PhaseLimits, Door(prefix="numeric")] = _phase("numeric_phase")
    textual_phase: Annotated[PhaseLimits, Door(prefix="textual")] = _phase("textual_phase")
    demonstration_phase: Annotated[PhaseLimits, Door(prefix="demonstration")] = _phase(
        "demonstration_phase"
    )
    numeric_convergence_eps: NotNegative = 1e-3
    """A numeric phase ends when no more than this is expected to be gained anywhere."""

    @property
    def uses_holdout(self) -> bool:
        """Unless it is skipped."""
        return self.holdout_policy != "skip"

    @model_validator(mode="before")
    @classmethod
    def _phases(cls, value: Any) -> Any:
        """Limits of a phase that are not given are the usual ones, or those of every phase."""
        if not isinstance(value, Mapping):
            return value
        data = dict(cast("Mapping[str, Any]", value))
        every = {key: data.pop(key) for key in ("max_trials", "patience") if key in data}
        for name, usual in _PHASES.items():
            limits = data.get(name, {})
            if isinstance(limits, Mapping) and (name in data or every):
                data[name] = {**usual, **every, **limits}
        return data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """With the limits that hold for every phase."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        whole = handler.resolve_ref_schema(schema)
        limits: JsonSchemaValue = {"type": "integer", "minimum": 1}
        whole["properties"] |= dict.fromkeys(("max_trials", "patience"), limits)
        return schema
