"""The settings of coordinate descent."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import AliasChoices, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from burnish.core.content import AtLeastOne, NotNegative, Repeats, Share
from burnish.strategies.settings import PruningSettings
from burnish.system.settings import Access, Door, Settings

HoldoutPolicy: TypeAlias = Literal["on_train_improve", "every_trial", "skip"]
PHASES = {
    "numeric_phase": {"max_trials": 15, "patience": 5},
    "textual_phase": {"max_trials": 10, "patience": 4},
    "demonstration_phase": {"max_trials": 8, "patience": 4},
}
"""By setting, the limits of each kind of phase."""


class PhaseLimits(Settings):
    """When a phase ends."""

    max_trials: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)]
    """Trials of this phase, in each cycle."""
    patience: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)]
    """Trials in a row without an accept, after which this phase ends."""


def _phase(name: str) -> PhaseLimits:
    return PhaseLimits(**PHASES[name])


class CoordinateSettings(PruningSettings):
    """How the search works. `max_trials` and `patience` on their own apply to every phase."""

    model_config = ConfigDict(populate_by_name=True)
    without_holdout: ClassVar[str] = (
        "set holdout_eval_policy: skip, and accept the risk of overfitting"
    )

    numbers: Annotated[tuple[str, ...], Door(file=False)] = ()
    """Surfaces of numbers and choices, searched together."""
    texts: Annotated[tuple[str, ...], Door(file=False)] = ()
    """Surfaces of text, one a trial, in turn."""
    demonstrations: Annotated[str, Door(file=False)] = ""
    """The surface of demonstrations, if any."""
    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 3
    """Runs of every case; they show the noise."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """How many times its noise a gain must be to count."""
    holdout_policy: Annotated[
        HoldoutPolicy,
        Field(validation_alias=AliasChoices("holdout_policy", "holdout_eval_policy")),
    ] = "on_train_improve"
    """When a candidate is run on holdout."""
    max_errored_fraction: Share = 0.25
    """A candidate with a larger share of failed cases is rejected."""
    min_confidence: Share = 0.4
    """A diagnosis with less confidence does not lead to an edit."""
    max_cycles: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)] = 4
    """Rounds through all phases of a search."""
    numeric_phase: Annotated[PhaseLimits, Door(prefix="numeric")] = _phase("numeric_phase")
    textual_phase: Annotated[PhaseLimits, Door(prefix="textual")] = _phase("textual_phase")
    demonstration_phase: Annotated[PhaseLimits, Door(prefix="demonstration")] = _phase(
        "demonstration_phase"
    )
    numeric_convergence_eps: NotNegative = 1e-3
    """A numeric phase ends when no point promises a larger gain than this."""

    @property
    def uses_holdout(self) -> bool:
        """Whether candidates are run on holdout."""
        return self.holdout_policy != "skip"

    @property
    def phases(self) -> dict[str, PhaseLimits]:
        """The limits of each phase that has something to search, in order."""
        phases = {
            "demonstrations": (self.demonstrations, self.demonstration_phase),
            "numeric": (self.numbers, self.numeric_phase),
            "textual": (self.texts, self.textual_phase),
        }
        return {name: limits for name, (surfaces, limits) in phases.items() if surfaces}

    @model_validator(mode="before")
    @classmethod
    def _phases(cls, value: Any) -> Any:
        """Limits that a phase does not set are those of every phase, or the defaults."""
        if not isinstance(value, Mapping):
            return value
        data = dict(cast("Mapping[str, Any]", value))
        every = {key: data.pop(key) for key in ("max_trials", "patience") if key in data}
        for name, usual in PHASES.items():
            limits = data.get(name, {})
            if isinstance(limits, Mapping) and (name in data or every):
                data[name] = {**usual, **every, **limits}
        return data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        whole = handler.resolve_ref_schema(schema)
        limits: JsonSchemaValue = {"type": "integer", "minimum": 1}
        whole["properties"] |= dict.fromkeys(("max_trials", "patience"), limits)
        return schema
