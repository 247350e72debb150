"""The result of a run for its page: the verdict, what the winner changed.

Delegations show more. This room knows no delegation: a command or a service hands in where it
reads them.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from burnish.core.formatting import Drawing, listed, number, visible
from burnish.core.statistics import Interval
from burnish.core.surfaces import Candidate, Change, Demonstration, Value, diff
from burnish.pages.charts import Chart, drawn
from burnish.runs.claims import claim_words, opinion_words, verdict_title
from burnish.runs.directory import RunRecord
from burnish.runs.events import Claim, ClaimVerdict, TextWithheld, Withheld, read_all
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import alarms

_Tone: TypeAlias = Literal["good", "bad", "open"]

_TONES: dict[ClaimVerdict, _Tone] = {"improved": "good", "worse": "bad"}
_WIDTH, _EDGE = 600.0, 40.0
"""Of the picture, in its own units."""


@dataclass(frozen=True, kw_only=True)
class IntervalPicture:
    """Where zero, the mean and the ends of an interval are on a line."""

    zero: float
    low: float
    mean: float
    high: float

    @classmethod
    def of(cls, gain: Interval) -> "IntervalPicture":
        least, most = min(0.0, gain.low), max(0.0, gain.high)
        scale = (_WIDTH - 2 * _EDGE) / ((most - least) or 1.0)

        def place(value: float) -> float:
            return round(_EDGE + (value - least) * scale, 1)

        return cls(
            zero=place(0.0), low=place(gain.low), mean=place(gain.mean), high=place(gain.high)
        )


@dataclass(frozen=True, kw_only=True)
class VerdictCard:
    """What a reader should know first."""

    title: str
    tone: _Tone
    words: str
    """The claim in one sentence."""
    meaning: str
    """What its numbers mean."""
    advice: str
    """Whether to adopt, and why not."""
    name: str = "score"
    before: float | None = None
    after: float | None = None
    gain: Interval | None = None
    warnings: tuple[str, ...] = ()

    @property
    def picture(self) -> IntervalPicture | None:
        return None if self.gain is None else IntervalPicture.of(self.gain)

    @property
    def adopt(self) -> bool:
        return self.tone == "good"


def verdict_card(run: RunRecord) -> VerdictCard:
    """The verdict on a run, as its claim allows it."""
    claim, warnings = run.claim, _warnings(run)
    if claim is None:
        return VerdictCard(
            title="Nothing is measured yet" if run.driven else "Nothing was measured",
            tone="open",
            words="The baseline is measured first."
            if run.driven
            else "This run has no measured baseline.",
            meaning="",
            advice="" if run.driven else "There is nothing to adopt.",
            warnings=warnings,
        )
    if not run.trials and claim.verdict == "unchanged":
        return VerdictCard(
            title="Measured once",
            tone="open",
            words="No other candidate was tried, so nothing was compared.",
            meaning="",
            advice="There is nothing to adopt.",
            name=claim.primary or "score",
            after=claim.best_score,
            warnings=warnings,
        )
    tone = _TONES.get(claim.verdict, "open")
    if run.second_opinion is not None and not run.second_opinion.agrees:
        tone = "bad" if tone == "bad" else "open"
    words = claim_words(claim)
    return VerdictCard(
        title=verdict_title(claim),
        tone=tone,
        words=f"{words[:1].upper()}{words[1:]}.",
        meaning=_meaning(claim),
        advice=_advice(run, claim),
        name=claim.primary or "score",
        before=claim.baseline_score,
        after=claim.best_score,
        gain=claim.gain,
        warnings=warnings,
    )


def _meaning(claim: Claim) -> str:
    gain = claim.gain
    if gain is None or claim.forgeable:
        return ""
    line = (
        f"Over {gain.cases} cases the best is {number(gain.mean)} ahead of the baseline. "
        f"The true difference is between {number(gain.low)} and {number(gain.high)} "
        "with 95 % confidence"
    )
    if gain.low > 0:
        return f"{line}: all of that is above zero."
    if gain.high < 0:
        return f"{line}: all of that is below zero."
    return f"{line}: that includes zero, so this may be chance."


def _advice(run: RunRecord, claim: Claim) -> str:
    if claim.verdict == "unchanged":
        return "There is nothing to adopt: your current version stays."
    if claim.verdict == "worse":
        return "Do not adopt this: it is worse than what you have."
    if run.second_opinion is not None and not run.second_opinion.agrees:
        return "Read some answers first: the second judge does not see a gain."
    if claim.verdict == "improved" and claim.basis == "sealed test":
        return "Adopt it: cases that the search never saw show a gain."
    if claim.verdict == "improved":
        return (
            "Adopt it if these cases are like those in production: fresh answers show a gain, on "
            "cases that the search has seen."
        )
    if claim.verdict == "looked at before":
        return (
            "Measure it on other cases before you rely on it: an earlier run had read this test. "
            "A new run with other sealed cases would show a gain if there is one."
        )
    if claim.forgeable:
        return (
            "Read the code and measure it yourself before you adopt it: the candidate could have "
            f"written {listed(claim.forgeable)} itself."
        )
    if claim.basis == "selected on holdout" and strategy_plugin(run.header.strategy).over:
        # One task by nature: there are no other cases to measure it on.
        return "Read the result before you use it: the grades that chose it are too optimistic."
    if claim.basis == "selected on holdout":
        return (
            "Measure it before you rely on it: the scores that chose this result are too "
            "optimistic. A sealed test would show what it is worth."
        )
    return (
        "Do not adopt it on this evidence. More cases in the test, or more repeats, would show a "
        "gain if there is one."
    )


def _warnings(run: RunRecord) -> tuple[str, ...]:
    opinion = run.second_opinion
    return (
        *([opinion_words(opinion)] if opinion is not None and not opinion.agrees else []),
        *(withheld.words for withheld in read_all(run.events, Withheld)),
        *(withheld.words for withheld in read_all(run.events, TextWithheld)),
        *alarms(run),
    )


_Mark: TypeAlias = Literal["same", "added", "removed"]
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONG = 20_000
"""Words of both texts together, above which a text is compared line by line."""
_AROUND = 240
"""Characters of unchanged text that are shown beside a change."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of a text that is the same on both sides, or on one side only."""

    mark: _Mark
    text: str


@dataclass(frozen=True, kw_only=True)
class DemoRow:
    """A demonstration that was added, removed or left."""

    mark: _Mark
    demo: Demonstration


@dataclass(frozen=True, kw_only=True)
class ShownChange:
    """One surface that differs, in the way that suits its values."""

    surface: str
    kind: Literal["text", "value", "demonstrations"]
    before: str = ""
    after: str = ""
    pieces: tuple[Piece, ...] = ()
    demos: tuple[DemoRow, ...] = ()

    @property
    def words_added(self) -> int:
        return self._words("added")

    @property
    def words_removed(self) -> int:
        return self._words("removed")

    def _words(self, mark: _Mark) -> int:
        return sum(len(piece.text.split()) for piece in self.pieces if piece.mark == mark)


def shown_changes(before: Candidate, after: Candidate) -> tuple[ShownChange, ...]:
    """Every surface whose value differs."""
    return tuple(map(_shown, diff(before, after)))


def _shown(change: Change) -> ShownChange:
    before, after = change.before, change.after
    if isinstance(before, tuple) or isinstance(after, tuple):
        demos = tuple(_demo_rows(_demos(before), _demos(after)))
        return ShownChange(surface=change.surface, kind="demonstrations", demos=demos)
    old, new = _text(before), _text(after)
    if not (isinstance(before, str) or isinstance(after, str)):
        return ShownChange(surface=change.surface, kind="value", before=old, after=new)
    return text_change(change.surface, old, new)


def text_change(name: str, before: str, after: str) -> ShownChange:
    """How a text changed, word by word."""
    pieces = tuple(_folded(word_pieces(before, after)))
    return ShownChange(surface=name, kind="text", before=before, after=after, pieces=pieces)


def _text(value: Value | None) -> str:
    return "" if value is None else visible(str(value))


def _demos(value: Value | None) -> tuple[Demonstration, ...]:
    return value if isinstance(value, tuple) else ()


def _demo_rows(
    before: Sequence[Demonstration], after: Sequence[Demonstration]
) -> Iterator[DemoRow]:
    yield from (DemoRow(mark="same" if d in before else "added", demo=d) for d in after)
    yield from (DemoRow(mark="removed", demo=d) for d in before if d not in after)


def word_pieces(before: str, after: str) -> list[Piece]:
    """Two texts as pieces: the same ones and the added ones make up the second text."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _LONG:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    pieces: list[Piece] = []
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal":
            pieces.append(Piece(mark="same", text="".join(new[first:last])))
            continue
        sides: tuple[tuple[_Mark, str], ...] = (
            ("removed", "".join(old[start:end])),
            ("added", "".join(new[first:last])),
        )
        pieces += [Piece(mark=mark, text=text) for mark, text in sides if text]
    return list(_joined(pieces))


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Replaced words that only spaces part, taken together: that is easier to read."""
    pending: dict[_Mark, str] = {"removed": "", "added": ""}
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        changed = all(pending.values())
        if piece.mark != "same":
            pending[piece.mark] += piece.text
        elif changed and not last and not piece.text.strip() and "\n" not in piece.text:
            pending = {mark: text + piece.text for mark, text in pending.items()}
        else:
            yield from _pending_pieces(pending)
            pending = {"removed": "", "added": ""}
            yield piece
    yield from _pending_pieces(pending)


def _pending_pieces(pending: dict[_Mark, str]) -> Iterator[Piece]:
    yield from (Piece(mark=mark, text=text) for mark, text in pending.items() if text)


def _folded(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces with long unchanged stretches cut in their middle."""
    for index, piece in enumerate(pieces):
        first, last = index == 0, index == len(pieces) - 1
        room = _AROUND * (1 if first or last else 2)
        if piece.mark != "same" or len(piece.text) <= room + 80:
            yield piece
            continue
        head = "" if first else piece.text[:_AROUND]
        tail = "" if last else piece.text[-_AROUND:]
        yield Piece(mark="same", text=f"{head} […] {tail}")


# -- Delegations -----------------------------------------------------------------------------------


REFINEMENTS = "refinements"
"""The part of an address between a delegation and one of its refinements."""


def is_refinement(key: str) -> bool:
    """Whether the key of a page names a refinement below its run."""
    return f"/{REFINEMENTS}/" in key


@dataclass(frozen=True, kw_only=True)
class RefinementLine:
    """A refinement in a list."""

    name: str
    ended: str
    """How it ended, in words; or that it goes on."""
    iterations: int
    loss: str
    """Of the seed and of the best."""
    folder: Path
    """Of its run."""
    has_page: bool = True
    """Whether its run has begun."""
    running: bool = False
    resumable: bool = False
    """Whether it was interrupted and nobody refines now."""
    most_iterations: int = 0
    """How many it may have."""
    can_have_more: bool = False
    """Whether it ran all of them, and goes on if it may have more."""


@dataclass(frozen=True, kw_only=True)
class IterationLine:
    """One iteration of a refinement."""

    number: int
    models: str
    """The tier, the manager and the worker, as far as they are known."""
    status: str
    loss: str
    is_best: bool = False
    note: str = ""
    gradient: tuple[str, ...] = ()
    """What it was told to repair."""


@dataclass(frozen=True, kw_only=True)
class BestFiles:
    """BEST: the best deliverable so far."""

    run: str
    loss: str
    why: str = ""
    """Why it is the best: its loss, or somebody's choice."""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DelegationPart:
    """What the page of a delegation or of a refinement has beyond that of any run."""

    task: str
    seed: str = ""
    """The run that a refinement began with; empty for a delegation."""
    home: Path
    """The folder that has BEST."""
    iterations: tuple[IterationLine, ...] = ()
    refinements: tuple[RefinementLine, ...] = ()
    best: BestFiles | None = None

    @property
    def idle(self) -> bool:
        """Whether no refinement goes on."""
        return not any(line.running for line in self.refinements)


@dataclass(frozen=True, kw_only=True)
class TaskRunLine:
    """A finished run of a task of an experiment."""

    name: str
    folder: Path
    status: str
    loss: str


@dataclass(frozen=True, kw_only=True)
class TaskLine:
    """A task of an experiment."""

    name: str
    prompt: str
    mode: str
    inputs: tuple[str, ...] = ()
    """The tasks whose results it starts from."""
    runs: tuple[TaskRunLine, ...] = ()
    refinements: tuple[RefinementLine, ...] = ()
    best: BestFiles | None = None


@dataclass(frozen=True, kw_only=True)
class ExperimentCard:
    """An experiment with its tasks."""

    key: str
    name: str
    goal: str = ""
    created: str = ""
    tasks: tuple[TaskLine, ...] = ()
    trouble: str = ""
    """Why it cannot be read."""


@dataclass(frozen=True, kw_only=True)
class TextVersion:
    """A version of a policy text."""

    number: int
    content: str
    parent: int | None = None
    """None for the shipped one."""
    created: str = ""
    active: bool = False
    pinned: bool = False
    change: ShownChange | None = None
    """From its parent."""


@dataclass(frozen=True, kw_only=True)
class PolicyText:
    """A policy text with all of its versions, the shipped one first."""

    name: str
    versions: tuple[TextVersion, ...]

    @property
    def active(self) -> TextVersion:
        return next(each for each in self.versions if each.active)

    @property
    def pinned(self) -> TextVersion | None:
        return next((each for each in self.versions if each.pinned), None)

    @property
    def in_use(self) -> TextVersion:
        """The version that runs read."""
        return self.pinned or self.active


@dataclass(frozen=True, kw_only=True)
class SuiteEpoch:
    """One pass over a suite of tasks."""

    number: int
    suite: int
    """The version of the suite: an edited one is another."""
    loss: float | None
    ended: str


@dataclass(frozen=True, kw_only=True)
class SuiteLine:
    """A suite of tasks on which policy texts were trained."""

    name: str
    epochs: tuple[SuiteEpoch, ...]


class DelegationSource(Protocol):
    """Reads delegations for pages."""

    def refinements(self, folder: Path) -> Sequence[RefinementLine]:
        """The refinements beside a run, the oldest first; none if it is no delegation."""
        ...

    def part(self, folder: Path) -> DelegationPart | None:
        """What is known about the delegation or refinement in a folder; None for another run."""
        ...

    def experiments(self) -> Sequence[ExperimentCard]:
        """Every experiment, the newest first."""
        ...

    def policy(self, experiment: str = "") -> Sequence[PolicyText]:
        """The policy texts, or those of an experiment."""
        ...

    def suites(self, experiment: str = "") -> Sequence[SuiteLine]:
        """The suites on which these texts were trained."""
        ...


class NoDelegations:
    """For pages that show none."""

    def refinements(self, folder: Path) -> Sequence[RefinementLine]:
        del folder
        return ()

    def part(self, folder: Path) -> DelegationPart | None:
        del folder
        return None

    def experiments(self) -> Sequence[ExperimentCard]:
        return ()

    def policy(self, experiment: str = "") -> Sequence[PolicyText]:
        del experiment
        return ()

    def suites(self, experiment: str = "") -> Sequence[SuiteLine]:
        del experiment
        return ()


def loss_chart(suites: Sequence[SuiteLine]) -> Chart | None:
    """The mean loss of every epoch of every suite; None if there are none."""
    epochs = [(suite, epoch) for suite in suites for epoch in suite.epochs]
    if not epochs:
        return None
    names = list(dict.fromkeys(f"{suite.name} #{epoch.suite}" for suite, epoch in epochs))
    drawing = Drawing(
        title="The loss of every epoch",
        labels=tuple(f"{epoch.ended} ({epoch.number})" for _, epoch in epochs),
        series={
            name: tuple(
                epoch.loss if f"{suite.name} #{epoch.suite}" == name else None
                for suite, epoch in epochs
            )
            for name in names
        },
        unit="mean loss",
        label="ended (epoch)",
        note="Lower is better. Losses of two versions of a suite cannot be compared.",
    )
    return drawn(drawing, "epochs")
