"""The settings of reflective search."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from burnish.core.content import AtLeastOne, NoneOrMore
from burnish.runs.spec import StrategySettings
from burnish.system.settings import Door

ParentSelection: TypeAlias = Literal[
    "trail", "pareto", "current_best", "epsilon_greedy", "top_k_pareto"
]
"""`trail` builds on whatever last did better than its parent on a minibatch, and asks holdout
only now and then; the others build on candidates that were run over holdout."""
FieldSelection: TypeAlias = Literal["round_robin", "all", "random"]
FrontierType: TypeAlias = Literal["instance", "objective", "hybrid", "cartesian"]

_MINIBATCH = 3
"""Cases to reflect on in a round, unless a size is given."""


class ReflectiveSettings(StrategySettings):
    """How the search goes about it."""

    fields: Annotated[tuple[str, ...], Door(file=False)] = ()
    """The text surfaces to rewrite; every one of the target when none is named."""
    parent_selection: ParentSelection = "trail"
    """Which candidate a round builds on."""
    field_selection: FieldSelection = "round_robin"
    """Which texts a round rewrites."""
    frontier: FrontierType = "instance"
    """By what candidates are compared when parents are chosen."""
    minibatch: AtLeastOne = _MINIBATCH
    """Train cases that a round reflects on."""
    history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    """Earlier replies to each case, best first, that the reflector is shown."""
    perfect_score: float = 1.0
    """The score of a case that nothing is to be learned from."""
    skip_perfect: bool = True
    """Leave out cases that score `perfect_score`, and rounds in which all of them do."""
    merge: bool = False
    """Now and then merge two candidates that are good at different cases."""
    max_merges: NoneOrMore = 5
    """Merges in a run."""
    merge_overlap: AtLeastOne = 5
    """Holdout cases that both sides of a merge must have in common."""
    reuse: bool = True
    """Use what was measured of a candidate again; else each look at it is a new draw."""
    racing: bool = True
    """Stop evaluating when the verdict is clear; run a provisional winner again."""
    proposals_per_round: AtLeastOne = 1
    """Rewrites that are proposed side by side."""
