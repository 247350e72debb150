"""What a search over an agent file is told, after flag, file, environment and default."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.effects.budget import Budget
from burnish.models.references import ModelRef
from burnish.projects.backprop_block import PROPOSER, ROLES, BackpropBlock
from burnish.projects.loading import Given
from burnish.projects.optimizer_block import OptimizerBlock
from burnish.projects.overrides import Overrides
from burnish.projects.settings import DEFAULT_SEED, BudgetSettings
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits

COORDINATE, REFLECTIVE, BACKPROP = "coordinate", "reflective", "backprop"
_USUAL = CoordinateSettings()


@dataclass(frozen=True, kw_only=True)
class TuningPlan:
    """The block of the file, and what counts in the end where others have a say."""

    block: OptimizerBlock
    flags: Overrides
    strategy: str
    repeats: int
    accept_sigma: float
    max_cycles: int
    numeric: PhaseLimits
    textual: PhaseLimits
    demonstrations: PhaseLimits
    budget: Budget
    seed: int
    critic: ModelRef | None
    """None where nobody is named."""
    applier: ModelRef | None
    reflector: ModelRef | None
    proposers: Mapping[str, ModelRef]
    """The roles of back-propagation that somebody is named for, `proposer` among them."""
    sealed: Path | None
    """The sealed cases, if any."""

    @property
    def reflects(self) -> bool:
        """Whether texts are rewritten by reflection, and nothing else is tuned."""
        return self.strategy == REFLECTIVE

    @property
    def walks_back(self) -> bool:
        """Whether losses are walked back."""
        return self.strategy == BACKPROP

    @property
    def backprop(self) -> BackpropBlock:
        """The settings of back-propagation after flags."""
        said = {"max_rounds": self.flags.max_rounds, "accept_sigma": self.flags.accept_sigma}
        return self.block.backprop.model_copy(
            update={name: value for name, value in said.items() if value is not None}
        )

    @property
    def holdout(self) -> bool:
        """Whether a holdout has a say."""
        return self.block.holdout_eval_policy != "skip"

    def place(self, name: str) -> str:
        """The flag, where a flag has said it: then that is what to change. Else empty."""
        return "" if getattr(self.flags, name) is None else name


def plan_of(block: OptimizerBlock, given: Given) -> TuningPlan:
    """What counts: the first that says anything, of flag, file, environment and default."""
    flags, environment = given.flags, given.environment
    limits = block.budget.whole.model_dump(exclude={"max_cycles"})
    sealed = flags.choose(
        "sealed_cases", _beside(given.path, block.sealed_cases_file), environment, None
    )
    strategy = flags.choose("strategy", block.strategy, environment, COORDINATE)
    usual = _USUAL.repeats if strategy == COORDINATE else 1
    return TuningPlan(
        block=block,
        flags=flags,
        strategy=strategy,
        repeats=flags.choose("repeats", block.repeats, environment, usual),
        accept_sigma=flags.choose(
            "accept_sigma", block.accept_sigma, environment, _USUAL.accept_sigma
        ),
        max_cycles=flags.choose("max_cycles", block.cycles, environment, _USUAL.max_cycles),
        numeric=_phase(block, given, "numeric", _USUAL.numeric_phase),
        textual=_phase(block, given, "textual", _USUAL.textual_phase),
        demonstrations=_demonstrations(block),
        budget=BudgetSettings(**limits).budget(flags, environment),
        seed=flags.choose("seed", block.seed, environment, DEFAULT_SEED),
        critic=_model(block, given, "critic"),
        applier=_model(block, given, "applier"),
        reflector=_model(block, given, "reflector"),
        proposers=_proposers(block, given),
        sealed=None if sealed is None else Path(sealed),
    )


def _phase(block: OptimizerBlock, given: Given, name: str, usual: PhaseLimits) -> PhaseLimits:
    said = block.phase(f"{name}_phase")
    flags, environment = given.flags, given.environment
    trials, patience = f"{name}_max_trials", f"{name}_patience"
    return PhaseLimits(
        max_trials=flags.choose(trials, said.max_trials, environment, usual.max_trials),
        patience=flags.choose(patience, said.patience, environment, usual.patience),
    )


def _demonstrations(block: OptimizerBlock) -> PhaseLimits:
    said, usual = block.phase("demonstration_phase"), _USUAL.demonstration_phase
    return PhaseLimits(
        max_trials=said.max_trials or usual.max_trials, patience=said.patience or usual.patience
    )


def _proposers(block: OptimizerBlock, given: Given) -> dict[str, ModelRef]:
    found = {role: _model(block, given, role) for role in (PROPOSER, *ROLES)}
    return {role: ref for role, ref in found.items() if ref is not None}


def _model(block: OptimizerBlock, given: Given, role: str) -> ModelRef | None:
    named = getattr(block, role)
    flag, weaker = (getattr(told, role, None) for told in (given.flags, given.environment))
    if flag is None and named is not None:
        return named.reference()
    said = flag or weaker
    return None if said is None else ModelRef.parse(said)


def _beside(path: Path, name: str | None) -> str | None:
    """A file that the agent's file names, as seen from here."""
    return None if name is None else str(path.resolve().parent / name)
