"""The settings of reflective search."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from burnish.core.cases import Dataset
from burnish.core.content import AtLeastOne, NoneOrMore
from burnish.strategies.settings import PruningSettings
from burnish.system.settings import Door

ParentSelection: TypeAlias = Literal[
    "trail", "pareto", "current_best", "epsilon_greedy", "top_k_pareto"
]
"""`trail` builds on the last candidate that beat its parent on a minibatch, and uses holdout
only now and then; the others build on candidates that were run over holdout."""
FieldSelection: TypeAlias = Literal["round_robin", "all", "random"]
FrontierType: TypeAlias = Literal["instance", "objective", "hybrid", "cartesian"]


class ReflectiveSettings(PruningSettings):
    """How the search works."""

    fields: Annotated[tuple[str, ...], Door(file=False)] = ()
    """The text surfaces to rewrite; all of the target's if none is named."""
    parent_selection: ParentSelection = "trail"
    """Which candidate a round builds on."""
    field_selection: FieldSelection = "round_robin"
    """Which texts a round rewrites."""
    frontier: FrontierType = "instance"
    """What candidates are compared by when parents are chosen."""
    minibatch: AtLeastOne = 3
    """Train cases that a round reflects on."""
    history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    """Earlier replies to each case, best first, that the reflector sees."""
    perfect_score: float = 1.0
    """The score at which there is nothing to learn from a case."""
    skip_perfect: bool = True
    """Leave out cases with `perfect_score`, and rounds in which all cases have it."""
    merge: bool = False
    """Now and then merge two candidates that are good at different cases."""
    max_merges: NoneOrMore = 5
    """The most merges in a run."""
    merge_overlap: AtLeastOne = 5
    """Holdout cases that both sides of a merge must have in common."""
    reuse: bool = True
    """Reuse measurements of a candidate; otherwise each evaluation is a new draw."""
    racing: bool = True
    """Stop evaluating when the verdict is clear; run a provisional winner again."""
    proposals_per_round: AtLeastOne = 1
    """Rewrites that are proposed side by side."""


def budget_floor(
    dataset: Dataset, settings: ReflectiveSettings, *, test_repeats: int, confirm: bool = False
) -> int:
    """The metric calls for the baseline, one round and what is measured after the search."""
    looks = 2 * min(settings.minibatch, len(dataset.train)) * settings.proposals_per_round
    raced = 1 if settings.parent_selection == "trail" else settings.proposals_per_round
    runs = raced * (2 if settings.racing else 1)
    round_and_baseline = settings.repeats * (len(dataset.holdout) * (1 + runs) + looks)
    last = dataset.test or (dataset.holdout if confirm else ())
    return round_and_baseline + 2 * len(last) * test_repeats
