"""The settings of reflective search, with the seed's defaults."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ParentSelection: TypeAlias = Literal[
    "trail", "pareto", "current_best", "epsilon_greedy", "top_k_pareto"
]
"""`trail` builds on whatever last did better than its parent on a minibatch, and asks holdout
only now and then; the others build on candidates that were run over holdout."""
FieldSelection: TypeAlias = Literal["round_robin", "all", "random"]
FrontierType: TypeAlias = Literal["instance", "objective", "hybrid", "cartesian"]

MINIBATCH = 3
"""Cases to reflect on in a round, unless a size is given."""


@dataclass(frozen=True, kw_only=True)
class ReflectiveSettings:
    """How the search goes about it."""

    fields: tuple[str, ...] = ()
    """The text surfaces to rewrite; every one of the target when none is named."""
    parent_selection: ParentSelection = "trail"
    field_selection: FieldSelection = "round_robin"
    frontier: FrontierType = "instance"
    minibatch: int = MINIBATCH
    history_top_k: int = 2
    """Earlier replies to each case, best first, that the reflector is shown."""
    perfect_score: float = 1.0
    skip_perfect: bool = True
    """Leave out cases that score `perfect_score`, and rounds in which all of them do."""
    merge: bool = False
    max_merges: int = 5
    merge_overlap: int = 5
    """Holdout cases that both sides of a merge must have in common."""
    reuse: bool = True
    """Use what was measured of a candidate again; else each look at it is a new draw."""
    repeats: int = 1
    racing: bool = True
    """Stop evaluating when the verdict is clear; run a provisional winner again."""
    proposals_per_round: int = 1
