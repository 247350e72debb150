"""Merging: from two candidates that learned different things, one that knows both."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case
from burnish.core.comparisons import Pair, cases, compare, decide, versus
from burnish.core.decisions import Decision
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.surfaces import EPSILON, Value
from burnish.strategies.reflective.frontier import presence
from burnish.strategies.reflective.pool import Lineage, Member, Pool

SUBSAMPLE = 5
"""Holdout cases on which a merged candidate must hold its own before it is run over all."""


def mergeable(pool: Pool, *, overlap: int) -> list[Lineage]:
    """Pairs of the frontier that descend from one candidate and from neither of each other."""
    numbers = sorted(presence(pool.frontier()))
    pairs = combinations([pool.members[number] for number in numbers], 2)
    return [
        found
        for one, other in pairs
        if len(set(one.holdout.cases) & set(other.holdout.cases)) >= overlap
        for found in _lineages(pool, one, other)
    ]


def merged(lineage: Lineage, rng: random.Random) -> Candidate:
    """Each text from whoever changed it; where both did, from the better, by lot at a tie."""
    one, other = lineage.pair
    values: dict[str, Value] = {}
    for name, original in lineage.ancestor.candidate.values.items():
        texts = (one.candidate.values[name], other.candidate.values[name])
        changed = [text for text in texts if text != original]
        if len(changed) < 2 or texts[0] == texts[1]:
            values[name] = changed[0] if changed else original
        elif abs(one.score - other.score) <= EPSILON:
            values[name] = rng.choice(texts)
        else:
            values[name] = lineage.better.candidate.values[name]
    origin = Origin(kind="merge", by="reflective", note="merge of two")
    return Candidate(values=values, parents=(one.candidate.id, other.candidate.id), origin=origin)


def telling_cases(
    lineage: Lineage, holdout: Sequence[Case], objective: Objective, rng: random.Random
) -> tuple[Case, ...]:
    """A few cases: where one is better, where the other is, and where neither is."""
    one, other = lineage.pair
    groups: dict[int, list[Case]] = {1: [], -1: [], 0: []}
    for case in holdout:
        scores = [objective.case_score(each.holdout, case.id) for each in (one, other)]
        known = [score for score in scores if score is not None]
        if len(known) == 2:
            gain = known[0] - known[1]
            groups[0 if abs(gain) <= EPSILON else (1 if gain > 0 else -1)].append(case)
    share = -(-SUBSAMPLE // 3)
    chosen = [c for group in groups.values() for c in rng.sample(group, min(share, len(group)))]
    rest = [case for case in holdout if case not in chosen]
    more = rng.sample(rest, min(max(0, SUBSAMPLE - len(chosen)), len(rest)))
    return tuple([*chosen, *more][:SUBSAMPLE])


def as_good_as(found: Evaluation, sides: Sequence[Evaluation], objective: Objective) -> Decision:
    """Whether a merged candidate scores no less than the better of its two sides."""
    pairs = [Pair(candidate=found, incumbent=side) for side in sides]
    seen = [compare(pair, objective, max_missing=1.0) for pair in pairs]
    known = [(s.candidate.score, s.incumbent.score) for s in seen]
    scores = [(new, old) for new, old in known if new is not None and old is not None]
    if not scores:
        return decide("merge", "missing", "cannot tell: scores are missing", {})
    new, best = min(scores, key=lambda each: each[0] - each[1])
    left, sign, right = versus(new, best)
    code = "better" if new >= best - EPSILON else "worse"
    told = f"{left} on {cases(len(found.cases))} {sign} the better side's {right}"
    return decide("merge", code, told, {"score": new, "better_side": best})


def _lineages(pool: Pool, one: Member, other: Member) -> Iterator[Lineage]:
    """Common ancestors that both improved on, each in texts of its own."""
    mine, theirs = pool.ancestors(one), pool.ancestors(other)
    if one.candidate.id in theirs or other.candidate.id in mine:
        return
    for name in sorted(mine & theirs):
        ancestor = pool.named(name)
        better = ancestor.score <= min(one.score, other.score) + EPSILON
        if better and _complementary(ancestor.candidate, one.candidate, other.candidate):
            yield Lineage(ancestor, (one, other))


def _complementary(ancestor: Candidate, one: Candidate, other: Candidate) -> bool:
    """Whether some text was changed by one of them only: otherwise there is nothing to merge."""
    return any(
        (one.values[name] == original) != (other.values[name] == original)
        for name, original in ancestor.values.items()
    )
