"""The settings of training by epochs."""

from typing import Annotated

from pydantic import Field

from burnish.core.content import AtLeastOne, NotNegative, Repeats, Share
from burnish.runs.spec import StrategySettings
from burnish.system.settings import Door

MOST_CHARS = 20_000
"""For a text without a bound of its own."""
_PANEL = "Suites of tasks to delegate"


class EpochSettings(StrategySettings):
    """How the training goes about it."""

    epochs: Annotated[AtLeastOne, Door(flag="*", panel=_PANEL)] = 1
    """Passes over the suite, the one that measures the start among them."""
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
            off="Keep an update that is no better, too.",
        ),
    ] = True
    """Take an update back that is no better, as long as it could be measured."""
    repeats: Annotated[Repeats, Door(flag="*", http=True)] = 2
    """Runs of every task in an epoch; they show the noise."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=True)] = 1.0
    """How many times its noise a gain must be."""
    max_errored_fraction: Share = 0.25
    """An update under which more tasks fail is turned down."""


def halved(rate: float) -> float:
    """The step after a regression."""
    return rate / 2


def step_words(rate: float) -> str:
    """How large a step a learning rate allows, in words."""
    if rate >= 0.75:
        return "the text may be rewritten as a whole"
    if rate >= 0.4:
        return "up to about half of the lines may change"
    if rate >= 0.15:
        return "a few lines may change or be added; all others stay word for word"
    return "one line may change or be added; all others stay word for word"
