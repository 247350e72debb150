"""Whether an iteration can win at all: only what delivered something new, and was measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from burnish.evaluation.matching.excerpts import without_middle
from burnish.strategies.refine.best import Best
from burnish.strategies.refine.file_digests import digests
from burnish.strategies.refine.run_losses import RunSignals
from burnish.system.workspaces import shown
from burnish.targets.delegation.endings import ending_words
from burnish.targets.delegation.result import DelegationResult

DELIVERED = ("complete", "partial")
_MOST_WORDS = 300


@dataclass(frozen=True, kw_only=True)
class Contender:
    """An iteration that wants to be the best."""

    signals: RunSignals
    counts_as: float | None
    """Its loss for the rules that stop; None where it came to nothing."""
    cannot_win: str = ""
    """Why it cannot be the best, whatever its loss."""
    lost: str = ""
    """Files of the best that it no longer has."""

    @property
    def loss(self) -> float:
        """By the same five signals as the seed's."""
        return self.signals.loss.total


def contender(result: DelegationResult, signals: RunSignals, best: Best) -> Contender:
    """What an iteration came to, beside the best that it started from."""
    if result.status not in DELIVERED:
        return Contender(signals=signals, counts_as=None, cannot_win=_why_failed(result))
    if not result.deliverables:
        return Contender(signals=signals, counts_as=None, cannot_win="it delivered nothing")
    new, old = digests(result.final), digests(best.deliverable)
    if new == old:
        # The same files are as good as they were, whatever their grader says this time.
        told = "it delivered the very files it started from"
        return Contender(signals=signals, counts_as=best.loss, cannot_win=told)
    unknown = _unknown(result, signals, best.signals)
    return Contender(
        signals=signals,
        counts_as=None if unknown else signals.loss.total,
        cannot_win=unknown,
        lost=_lost(new, old),
    )


def _why_failed(result: DelegationResult) -> str:
    reason = " ".join(ending_words(result.reason).split())
    return f"it {result.status}: {without_middle(reason, _MOST_WORDS)}"


def _unknown(result: DelegationResult, signals: RunSignals, best: RunSignals) -> str:
    """A signal that counts as neutral because it is missing may not beat one that was measured."""
    pairs = (
        ("no metric scored it", signals.eval_score, best.eval_score),
        ("the critic did not score it", signals.critique_score, best.critique_score),
    )
    missing = [told for told, here, there in pairs if here is None and there is not None]
    unscored = result.evaluation.missing if result.evaluation is not None else ()
    missing += [f"the metric {name} has no score" for name in unscored]
    return f"cannot tell: {', '.join(missing)}" if missing else ""


def _lost(new: Iterable[str], old: Iterable[str]) -> str:
    """By name, since other systems deliver without folders."""
    there = {Path(path).name for path in new}
    gone = [shown(path) for path in old if Path(path).name not in there]
    return f"it no longer has {', '.join(gone)}" if gone else ""
