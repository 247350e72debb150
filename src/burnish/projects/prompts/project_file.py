"""Project files of kind `prompts`: an agent that is called, and the prompts of it to rewrite."""

from typing import Any, Literal

from pydantic import Field, model_validator

from burnish.models.model_block import ModelBlock
from burnish.projects.agent_blocks import (
    CalledBlock,
    CommandBlock,
    HttpBlock,
    PythonBlock,
    Text,
)
from burnish.projects.backprop_block import BackpropBlock
from burnish.projects.case_splits import SplitFile
from burnish.projects.reflective_block import ReflectiveBlock
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.system.settings import AtLeastOne, NotNegative, Settings, Share
from burnish.targets.prompts.ways import Mode

_USUAL = CoordinateSettings()


class PromptField(Settings):
    """One prompt. A path alone is short for `{path: …}`."""

    path: Text
    """From the folder of the file."""
    max_chars: AtLeastOne | None = None
    frozen: list[Text] = Field(default_factory=list[str])
    """Parts that must stay word for word."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class TargetBlock(Settings):
    """How the agent is called: one of the three."""

    python: PythonBlock | None = None
    http: HttpBlock | None = None
    command: CommandBlock | None = None

    @model_validator(mode="after")
    def _one(self) -> "TargetBlock":
        if len([each for each in self._all if each is not None]) != 1:
            raise ValueError("say how the agent is called: python, http or command, one of them")
        return self

    @property
    def _all(self) -> tuple[PythonBlock | HttpBlock | CommandBlock | None, ...]:
        return self.python, self.http, self.command

    @property
    def block(self) -> PythonBlock | HttpBlock | CommandBlock:
        """The one that is there."""
        return next(each for each in self._all if isinstance(each, CalledBlock))


class CoordinateBlock(Settings):
    """The settings of coordinate descent over texts."""

    accept_sigma: NotNegative = _USUAL.accept_sigma
    min_confidence: Share = _USUAL.min_confidence
    max_cycles: AtLeastOne = _USUAL.max_cycles
    max_trials: AtLeastOne = _USUAL.textual_phase.max_trials
    """Of each cycle."""
    patience: AtLeastOne = _USUAL.textual_phase.patience

    def settings(self, *, repeats: int, fields: tuple[str, ...]) -> CoordinateSettings:
        """How the search goes about it."""
        return CoordinateSettings(
            texts=fields,
            repeats=repeats,
            accept_sigma=self.accept_sigma,
            min_confidence=self.min_confidence,
            max_cycles=self.max_cycles,
            textual_phase=PhaseLimits(max_trials=self.max_trials, patience=self.patience),
        )


class PromptsFile(SplitFile):
    """The prompts of an agent that is called."""

    target: TargetBlock | None = None
    prompts: dict[str, PromptField] = Field(default_factory=dict[str, PromptField])
    """The prompts to rewrite, by name."""
    isolation: Mode = "source"
    """`source` writes candidates where the agent reads its prompts, one at a time, and puts the
    files back; `isolated` hands them to it, so that nothing is written and many run at once.
    """
    max_prompt_tokens: AtLeastOne | None = None
    """Of each prompt, estimated; a longer text is turned away before any call."""
    strategy: Literal["reflective", "coordinate", "backprop"] | None = None
    reflector: ModelBlock | None = None
    """Who rewrites prompts in a reflective search."""
    critic: ModelBlock | None = None
    """Who diagnoses in coordinate descent; the reflector unless named."""
    applier: ModelBlock | None = None
    """Who edits there; the critic unless named."""
    reflective: ReflectiveBlock = Field(default_factory=ReflectiveBlock)
    coordinate: CoordinateBlock = Field(default_factory=CoordinateBlock)
    proposer: ModelBlock | None = None
    """Who fills the roles of back-propagation that nobody is named for; else the reflector."""
    backwarder: ModelBlock | None = None
    aggregator: ModelBlock | None = None
    patcher: ModelBlock | None = None
    backprop: BackpropBlock = Field(default_factory=BackpropBlock)
