"""`evaluations.optimizer` of an agent file: what is tuned, by which loss, how far.

Two shapes load: limits under `budget`, as seed 000 has them, and limits right in the block, as
HoloDeck ships them. What a flag or a variable may say too is None here when the file is silent.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from burnish.core.objectives import Constraint, Objective, Operator, Penalties
from burnish.core.surfaces import Scalar
from burnish.models.model_block import ModelBlock
from burnish.projects.backprop_block import BackpropBlock
from burnish.projects.reflective_block import ReflectiveBlock
from burnish.system import YamlTree, validate_config
from burnish.system.settings import (
    AboveZero,
    AtLeastOne,
    Limits,
    NoneOrMore,
    NotNegative,
    Repeats,
    Settings,
    Share,
)
from burnish.targets.agent.variables import expanded

AT = ("evaluations", "optimizer")
"""Where the block stands in an agent file."""
MAX_CHARS = 8000
"""How long a text may become where its axis does not say."""

Named: TypeAlias = Annotated[str, Field(min_length=1)]


class NumericAxis(Settings):
    """A number in a range, or one of several choices."""

    path: Named
    type: Literal["float", "int", "categorical"] | None = None
    """`float`, unless there are choices."""
    range: list[Scalar] | None = None
    """Lowest and highest; for `categorical` the choices, as HoloDeck writes them."""
    choices: list[Scalar] | None = None

    @property
    def kind(self) -> str:
        """The type after its default."""
        return self.type or ("float" if self.choices is None else "categorical")


class TextAxis(Settings):
    """A text."""

    path: Named
    max_chars: AtLeastOne = MAX_CHARS


class DemonstrationAxis(Settings):
    """Worked examples from train, shown to the agent."""

    max_demos: AtLeastOne = 8
    max_chars: AtLeastOne | None = None
    """Of all of them together."""


class AxesBlock(Settings):
    """What is tuned."""

    numeric: list[NumericAxis] = Field(default_factory=list[NumericAxis])
    textual: list[TextAxis] = Field(default_factory=list[TextAxis])
    demonstrations: DemonstrationAxis | None = None


class PhaseBlock(Settings):
    """When a phase ends."""

    max_trials: AtLeastOne | None = None
    patience: AtLeastOne | None = None
    """Trials in a row without an accept."""


class WholeBlock(Limits):
    """When the run ends."""

    max_cycles: AtLeastOne | None = None


class BudgetBlock(Settings):
    """Limits of the run and of its phases."""

    whole: WholeBlock = Field(default_factory=WholeBlock, alias="global")
    numeric_phase: PhaseBlock | None = None
    textual_phase: PhaseBlock | None = None
    demonstration_phase: PhaseBlock | None = None


class PenaltiesBlock(Settings):
    """What is added to the loss for being dear or slow."""

    cost_per_usd: NotNegative = 0.0
    latency_per_sec: NotNegative = 0.0


class ConstraintBlock(Settings):
    """What must hold before anything is compared."""

    metric: Named
    """A metric, or `loss`, `pass_rate`, `cost_usd`, `latency_sec`, `failed_cases`."""
    op: Operator
    value: float


class OptimizerBlock(Settings):
    """How an agent file is tuned."""

    loss: Annotated[dict[str, AboveZero], Field(min_length=1)]
    """Metrics by weight; the others are measured and do not count."""
    penalties: PenaltiesBlock = Field(default_factory=PenaltiesBlock)
    constraints: list[ConstraintBlock] = Field(default_factory=list[ConstraintBlock])
    train_cases_file: Named | None = None
    holdout_cases_file: Named | None = None
    sealed_cases_file: Named | None = None
    """Looked at once, at the end: baseline against best."""
    holdout_eval_policy: Literal["on_train_improve", "every_trial", "skip"] = "on_train_improve"
    min_holdout_cases: NoneOrMore = 5
    repeats: Repeats | None = None
    accept_sigma: NotNegative | None = None
    max_errored_fraction: Share = 0.25
    min_confidence: Share = 0.4
    numeric_convergence_eps: NotNegative = 1e-3
    axes: AxesBlock = Field(default_factory=AxesBlock)
    budget: BudgetBlock = Field(default_factory=BudgetBlock)
    critic: ModelBlock | None = None
    """Who diagnoses; the agent's own model unless it is a local one."""
    applier: ModelBlock | None = None
    """Who edits; the critic's model unless named."""
    reflector: ModelBlock | None = None
    """Who rewrites texts in a reflective search; the critic's model unless named."""
    reflective: ReflectiveBlock = Field(default_factory=ReflectiveBlock)
    """The settings of a reflective search."""
    proposer: ModelBlock | None = None
    """Who fills the roles of back-propagation that nobody is named for; else the critic's model."""
    backwarder: ModelBlock | None = None
    aggregator: ModelBlock | None = None
    patcher: ModelBlock | None = None
    backprop: BackpropBlock = Field(default_factory=BackpropBlock)
    """The settings of back-propagation."""
    strategy: Named | None = None
    seed: int | None = None

    max_cycles: AtLeastOne | None = None
    numeric_phase: PhaseBlock | None = None
    textual_phase: PhaseBlock | None = None
    min_delta: NotNegative | None = None
    """HoloDeck's bar. Here the bar is the noise that was measured: see `accept_sigma`."""

    def phase(self, name: str) -> PhaseBlock:
        """The limits of a phase, whichever way they are written."""
        under = getattr(self.budget, name)
        return under or getattr(self, name, None) or PhaseBlock()

    @property
    def cycles(self) -> int | None:
        """How many cycles at most, whichever way it is written."""
        return self.budget.whole.max_cycles or self.max_cycles

    def said_twice(self) -> list[str]:
        """The limits that are written both ways."""
        phases = ("numeric_phase", "textual_phase")
        twice = [name for name in phases if getattr(self, name) and getattr(self.budget, name)]
        both = self.max_cycles is not None and self.budget.whole.max_cycles is not None
        return ["max_cycles", *twice] if both else twice

    def objective(self) -> Objective:
        """What evaluations are reduced to."""
        return Objective(
            weights=self.loss,
            penalties=Penalties(**self.penalties.model_dump()),
            constraints=tuple(Constraint(**each.model_dump()) for each in self.constraints),
        )


class _Evaluations(BaseModel):
    optimizer: OptimizerBlock | None = None


class _AgentFile(BaseModel):
    """As much of an agent file as tells how it is tuned."""

    evaluations: _Evaluations = Field(default_factory=_Evaluations)


def read_optimizer(tree: YamlTree) -> OptimizerBlock | None:
    """The block of an agent file, if it has one; what is wrong with it is said with its lines."""
    source = tree.path.name
    data = expanded(tree.data, where=source)
    return validate_config(data, _AgentFile, source=source, tree=tree).evaluations.optimizer
