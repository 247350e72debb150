"""The settings of training by epochs, with the seed's defaults where it has them."""

from dataclasses import dataclass

MOST_CHARS = 20_000
"""For a text without a bound of its own."""


@dataclass(frozen=True, kw_only=True)
class EpochSettings:
    """How the training goes about it."""

    epochs: int = 1
    """Passes over the suite, the one that measures the start among them."""
    learning_rate: float = 0.5
    """How large a step may be, from a few words to the whole text; told to whoever proposes."""
    rollback: bool = True
    """Without it an update that is no better stays, as long as it could be measured."""
    repeats: int = 2
    """Runs of every task in an epoch; they show the noise."""
    accept_sigma: float = 1.0
    """How many times its noise a gain must be."""
    max_errored_fraction: float = 0.25


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
