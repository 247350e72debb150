"""The settings of training by epochs."""

from typing import Annotated

from pydantic import Field

from burnish.core.content import AtLeastOne, NotNegative, Repeats, Share
from burnish.runs.spec import StrategySettings
from burnish.system.settings import Access, Door

_PANEL = "Suites of tasks to delegate"


class EpochSettings(StrategySettings):
    """How the training works."""

    epochs: Annotated[AtLeastOne, Door(flag="*", panel=_PANEL)] = 1
    """Passes over the suite, including the first, which measures the start."""
    learning_rate: Annotated[float, Field(gt=0, le=1), Door(flag="*", panel=_PANEL)] = 0.5
    """How large a step may be, from a few words to the whole text; halved after a regression."""
    with_textgrad: Annotated[bool, Door(flag="*", panel=_PANEL)] = False
    """Propose better policy texts; without it the suite is only measured."""
    rollback: Annotated[
        bool,
        Door(
            flag="*",
            panel=_PANEL,
            environment=False,
            off="Keep updates that are not better, too.",
        ),
    ] = True
    """Roll back an update that is not better, if it could be measured."""
    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 2
    """Runs of every task in an epoch; they show the noise."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """How many times its noise a gain must be."""
    max_errored_fraction: Share = 0.25
    """An update is rejected if a larger share of tasks fails."""


def step_words(rate: float) -> str:
    """The step size that a learning rate allows, in words."""
    if rate >= 0.75:
        return "the text may be rewritten as a whole"
    if rate >= 0.4:
        return "up to about half of the lines may change"
    if rate >= 0.15:
        return "a few lines may change or be added; all others stay word for word"
    return "one line may change or be added; all others stay word for word"
