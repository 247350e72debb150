"""Who spent what: the agent, the judges and the reflection model, from the journal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.money import NOTHING, Spend, total
from burnish.core.trials import TrialRow
from burnish.effects.journal_reader import CostRow
from burnish.reports.optimize_result import CallUsage

REFLECTIVE = "reflective"
"""The phase whose attempts of one round are asked for together."""
_ROLE = "role:"


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was paid, by who spent it; each call once."""

    agent: Spend = NOTHING
    judges: Spend = NOTHING
    reflection: Spend = NOTHING
    by_row: Mapping[int, Spend] = field(default_factory=dict[int, Spend])
    """What reflecting for each trial came to."""

    @classmethod
    def of(cls, effects: Iterable[CostRow], rows: Sequence[TrialRow]) -> "Costs":
        """Add up what the journal holds."""
        found: dict[str, list[Spend]] = {"agent": [], "judges": [], "reflection": []}
        by_row: dict[int, Spend] = {}
        counted: set[str] = set()
        whose = asked_for(rows)
        together = {first for first, _ in whose}
        for effect in effects:
            kind = _spender(effect.kind)
            if not kind:
                continue
            new = {key: spend for key, spend in effect.spends.items() if key not in counted}
            counted |= set(new)
            spend = total(new.values())
            found[kind].append(spend)
            if kind == "reflection":
                row = whose.get((effect.trial, effect.draw - effect.trial))
                if row is None and effect.trial in together:
                    continue  # It was for an attempt of the round that is not recorded yet.
                row = effect.trial if row is None else row
                by_row[row] = by_row.get(row, NOTHING) + spend
        sums = {kind: total(spends) for kind, spends in found.items()}
        return cls(**sums, by_row=by_row)

    @property
    def in_all(self) -> Spend:
        """Everything."""
        return self.agent + self.judges + self.reflection


def _spender(kind: str) -> str:
    """Whose effect it is; what a model was asked is counted with whoever asked."""
    if kind.startswith(_ROLE):
        return "reflection"
    return {"run": "agent", "score": "judges"}.get(kind, "")


def asked_for(rows: Sequence[TrialRow]) -> dict[tuple[int, int], int]:
    """By the trial in which a round began and the place among its questions, whose answer it is.

    The attempts of a round are made together, before the first of them is recorded.
    """
    found: dict[tuple[int, int], int] = {}
    first, place, cycle = -1, 0, -1
    for row in rows:
        if row.trial.phase != REFLECTIVE:
            cycle = -1
            continue
        if row.trial.cycle != cycle:
            first, place, cycle = row.number, 0, row.trial.cycle
        for _ in row.trial.proposals:
            found[first, place] = row.number
            place += 1
    return found


def usage(spend: Spend) -> CallUsage:
    """An amount in the words of the result."""
    return CallUsage(
        calls=spend.calls,
        prompt=spend.tokens_in,
        completion=spend.tokens_out,
        total=spend.tokens,
        cost=spend.usd,
    )


def tokens(spend: Spend) -> dict[str, int]:
    """Tokens as the seed keeps them."""
    return {"prompt": spend.tokens_in, "completion": spend.tokens_out, "total": spend.tokens}
