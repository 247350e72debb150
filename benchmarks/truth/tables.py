"""Shares of runs with their intervals, the goals they must meet, and the tables that show them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.truth.cheats import Attempt, Cheat
from benchmarks.truth.plays import Played
from burnish.core.statistics import Share

FALSE_CLAIMS, COVERAGE, POWER = 0.05, 0.93, 0.80


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share of runs, and its goal."""

    share: Share | None
    """None of no runs."""
    goal: float | None
    """None if it is only shown."""
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether the share itself meets the goal; without runs it does not."""
        if self.goal is None:
            return True
        if self.share is None:
            return False
        value = self.share.value
        return value <= self.goal if self.at_most else value >= self.goal

    def cells(self) -> list[str]:
        """The share, its interval, and the goal with a mark."""
        goal = "–"
        if self.goal is not None:
            goal = f"{'≤' if self.at_most else '≥'} {self.goal:.0%} {'✓' if self.met else '✗'}"
        if self.share is None:
            return ["–", "–", goal]
        low, high = self.share.low, self.share.high
        return [f"{self.share.value:.1%}", f"{low:.1%} to {high:.1%}", goal]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A part of the benchmark as markdown, and whether all of its goals are met."""

    words: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    met: bool

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return f"{self.words}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


_KEY = ["strategy", "claim from"]
_RATE = ["95 % interval", "goal"]


def null_table(played: Sequence[Played]) -> Table:
    """How often a gain is claimed where there is none."""

    def rate(group: Sequence[Played]) -> Rate:
        share = Share.of_counts(claims(group), len(group))
        return Rate(share=share, goal=FALSE_CLAIMS, at_most=True)

    def cells(group: Sequence[Played]) -> list[str]:
        return [str(len(group)), percent(each.changed for each in group)]

    return _table(
        "**No proposal changes anything.** Some runs still end with another text, by luck. None of "
        "them may call it a gain:",
        [*_KEY, "runs", "offer another text", "claim a gain", *_RATE],
        played,
        cells,
        rate,
    )


def shift_table(played: Sequence[Played]) -> Table:
    """How often a gain is claimed that only the cases at hand have."""

    def rate(group: Sequence[Played]) -> Rate:
        # Fresh draws are of the cases that chose the winner: what is special about them stays.
        goal = FALSE_CLAIMS if group[0].play.sealed else None
        return Rate(share=Share.of_counts(claims(group), len(group)), goal=goal, at_most=True)

    def cells(group: Sequence[Played]) -> list[str]:
        offers = [each.truth.here for each in group if each.changed]
        return [
            str(len(group)),
            percent(each.changed for each in group),
            _mean(offers, sign="+"),
        ]

    return _table(
        "**Every proposal helps half of all kinds of cases and harms the other half as much.** A "
        "text that suits the cases of holdout wins, and gains nothing elsewhere. Only new cases "
        "can show that, so the goal is for the sealed test. *Gain here* is the true gain on the "
        "cases of the claim:",
        [*_KEY, "runs", "offer another text", "gain here", "claim a gain", *_RATE],
        played,
        cells,
        rate,
    )


def gain_table(played: Sequence[Played]) -> Table:
    """How often the claimed interval contains the truth."""

    def rate(group: Sequence[Played]) -> Rate:
        covered = [each.covers for each in group if each.covers is not None]
        return Rate(share=Share.of_counts(sum(covered), len(covered)), goal=COVERAGE)

    def cells(group: Sequence[Played]) -> list[str]:
        offers = [each for each in group if each.changed]
        shown = [each for each in group if each.interval is not None]
        errors = [each.error for each in shown if each.error is not None]
        useless = [each for each in shown if each.truth.everywhere <= 0]
        return [
            str(len(group)),
            str(len(shown)),
            _mean([each.truth.everywhere for each in offers]),
            _mean(errors, sign="+"),
            percent(each.covers_everywhere is True for each in shown),
            f"{claims(useless)} of {len(useless)}",
        ]

    return _table(
        "**Of ten proposals, four help, two harm and four change nothing.** *In interval* "
        "is the share of claims whose interval contains the true gain of the text that is "
        "offered. A sealed test speaks of all cases that may come; fresh draws speak of the cases "
        "that they were made on, and *all cases* shows what they say of others:",
        [
            *_KEY,
            "runs",
            "claims",
            "mean true gain",
            "claimed − true",
            "all cases",
            "gains claimed without one",
            "in interval",
            *_RATE,
        ],
        played,
        cells,
        rate,
    )


def power_table(played: Sequence[Played]) -> Table:
    """How often a gain is claimed that is large enough to be shown."""

    def rate(group: Sequence[Played]) -> Rate:
        return Rate(share=Share.of_counts(claims(group), len(group)), goal=POWER)

    def cells(group: Sequence[Played]) -> list[str]:
        shown = group[0].play.smallest_shown
        return [
            str(len(group)),
            f"{shown:.3f}",
            f"{2 * shown:.3f}",
            percent(each.changed for each in group),
        ]

    return _table(
        "**The first proposal gains twice what the claim can show.** *Can show* is the smallest "
        "gain whose expected interval excludes zero: Student's t over the cases of the claim, "
        "with the noise of their repeats and how unevenly the gain is spread; over the repeats "
        "where there is one case:",
        [*_KEY, "runs", "can show", "true gain", "offer it", "claim it", *_RATE],
        played,
        cells,
        rate,
    )


def cheat_table(attempts: Sequence[tuple[Cheat, Attempt]]) -> Table:
    """What became of each cheat."""
    rows = [
        [cheat.name, cheat.strategy, _accepted(a), _yes(a.offered), _mark(a)]
        for cheat, a in attempts
    ]
    return Table(
        words="**A worse candidate that looks better to a naive decision.** It must be neither "
        "accepted nor offered. Where the rule itself accepts it (*by rule*: by luck, or within "
        "what may be lost or missing), it may not be what is offered, or not be called a gain:",
        head=["cheat", "strategy", "accepted", "offered", ""],
        rows=rows,
        met=not any(a.accepted or a.offered for _, a in attempts),
    )


def _table(
    words: str,
    head: Sequence[str],
    played: Sequence[Played],
    cells: Callable[[Sequence[Played]], list[str]],
    rate: Callable[[Sequence[Played]], Rate],
) -> Table:
    groups = list(_groups(played))
    rates = [rate(group) for _, group in groups]
    rows = [
        [*key, *cells(group), *each.cells()]
        for (key, group), each in zip(groups, rates, strict=True)
    ]
    return Table(words=words, head=head, rows=rows, met=all(each.met for each in rates))


def _groups(played: Sequence[Played]) -> Iterator[tuple[tuple[str, str], list[Played]]]:
    keys = dict.fromkeys((each.play.strategy, each.play.basis) for each in played)
    for key in keys:
        yield key, [each for each in played if (each.play.strategy, each.play.basis) == key]


def claims(played: Iterable[Played]) -> int:
    """How many of these runs claim a gain."""
    return sum(each.verdict == "improved" for each in played)


def _mean(values: Sequence[float], *, sign: str = "") -> str:
    return f"{fmean(values):{sign}.3f}" if values else "–"


def percent(flags: Iterable[bool]) -> str:
    """A share in words; a dash of nothing."""
    values = list(flags)
    return f"{fmean(values):.0%}" if values else "–"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _accepted(attempt: Attempt) -> str:
    return "by rule" if attempt.by_rule and not attempt.accepted else _yes(attempt.accepted)


def _mark(attempt: Attempt) -> str:
    return "✗" if attempt.accepted or attempt.offered else "✓"
