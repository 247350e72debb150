"""Examples in the only text of an agent: cases of train, written out beside its rules.

A rewrite says in general words what an answer should be. Many models follow a few answers better.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import zip_longest

from burnish.core.cases import Case, closed_labels, squeeze
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Origin, TextSurface
from burnish.runs.run import Run
from burnish.runs.setup import Proposed, ProposerEvidence, Tried
from burnish.system.redaction import MARKER

EXAMPLES = "examples"
_HEADING = "Examples:"
_FIRST, _MOST = 4, 8
"""How many examples a text gets first, and once these have helped."""
_ROOM = 4000
"""The most characters of examples: every call of the agent pays for them."""
_TRIES = 2
"""Choices of examples that are tried on one incumbent."""
_UNKNOWN = 0.5
"""What a case counts that was not run: it is shown after those that failed."""
_TEMPLATE_SIGNS = frozenset("{}$")


def example(case: Case) -> str:
    """A case as it is written out, after another paragraph."""
    return f"\n\nInput: {case.input.strip()}\nOutput: {(case.expected or '').strip()}"


@dataclass(frozen=True, kw_only=True)
class TextWithExamples:
    """A text, apart from the cases that are written out in it."""

    text: str
    cases: tuple[Case, ...] = ()

    @classmethod
    def read(cls, text: str, cases: Iterable[Case]) -> "TextWithExamples":
        """Find those of the cases that `write` has put into a text."""
        before, heading, after = text.partition(f"\n\n{_HEADING}")
        shown: list[Case] = []
        while heading and (case := max(_begins(after, cases), key=_length, default=None)):
            shown.append(case)
            after = after[_length(case) :]
        return cls(text=f"{before}{after}", cases=tuple(shown)) if shown else cls(text=text)

    def write(self, placeholders: Sequence[str] = ()) -> str:
        """The examples stand at the end; in a template, before the paragraph that it fills in."""
        if not self.cases:
            return self.text
        block = "".join([f"\n\n{_HEADING}", *map(example, self.cases)])
        bare = self.text.rstrip()
        filled_in = max((bare.rfind(each) for each in placeholders), default=-1)
        paragraph = bare.rfind("\n\n", 0, filled_in) if filled_in >= 0 else -1
        at = len(bare) if paragraph < 0 else paragraph
        return f"{self.text[:at]}{block}{self.text[at:]}"


def _begins(text: str, cases: Iterable[Case]) -> Iterator[Case]:
    """The cases with which a text may begin."""
    for case in cases:
        if text.startswith(example(case)) and text[_length(case) :][:1].strip() == "":
            yield case


def _length(case: Case) -> int:
    return len(example(case))


class ExamplesProposer:
    """Shows some cases of train with their answers in a text, other ones each time."""

    def __init__(self, run: Run, *, field: str) -> None:
        self._run = run
        self._field = field
        (self._surface,) = (
            each
            for each in run.target.surfaces
            if each.id == field and isinstance(each, TextSurface)
        )
        self._labels = {squeeze(label) for label in closed_labels(run.dataset.train)}
        self._cases = [case for case in run.dataset.train if self._fits(case)]
        self._parent = ""
        self._tries = 0
        """Choices that did not help this parent."""

    @property
    def need(self) -> Spend:
        """Nothing: nobody is asked."""
        return NOTHING

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """The incumbent's text with examples that are not in the minibatch."""
        parent = evidence.parent
        if parent.id != self._parent:
            self._parent, self._tries = parent.id, 0
        if self._tries >= _TRIES:
            return Proposed(nothing_left="examples_tried")
        now = TextWithExamples.read(str(parent.values[self._field]), self._cases)
        chosen = self._chosen(evidence, _MOST if now.cases else _FIRST)
        new = self._fitting(now.text, chosen)
        if not new.cases:
            return Proposed(nothing_left="no_examples")
        note = f"{len(new.cases)} example{'' if len(new.cases) == 1 else 's'}"
        origin = Origin(kind="proposal", by="reflective", note=note)
        text = new.write(self._surface.placeholders)
        shows = tuple(case.id for case in new.cases)
        return Proposed(
            candidate=parent.child({self._field: text}, origin=origin),
            touched=(self._field,),
            source={EXAMPLES: [*shows]},
            shows=shows,
        )

    def learn(self, tried: Tried) -> None:
        """Count a choice that did not help."""
        self._tries += not tried.accepted

    def _fits(self, case: Case) -> bool:
        """Whether a case is a question with an answer, and can be shown as it is."""
        plain = len(case.turns) == 1 and not (case.history or case.scenario)
        if not plain or not case.expected or case.turns[0].attachments:
            return False
        words = example(case)
        filled_in = bool(self._surface.placeholders) and not _TEMPLATE_SIGNS.isdisjoint(words)
        return not filled_in and MARKER not in words

    def _chosen(self, evidence: ProposerEvidence, count: int) -> list[Case]:
        """Cases beside the minibatch, each label in turn, first those that went wrong."""
        # With the answers to the minibatch, any text would pass it.
        compared = {case.id for case in evidence.cases}
        cases = [case for case in self._cases if case.id not in compared]
        scores = {
            result.case: self._run.objective.run_score(result) for result in evidence.train.results
        }
        self._run.rng(EXAMPLES, evidence.round).shuffle(cases)
        cases.sort(key=lambda case: _UNKNOWN if (s := scores.get(case.id)) is None else s)
        return list(_in_turn(cases, self._labels))[:count]

    def _fitting(self, text: str, cases: Sequence[Case]) -> TextWithExamples:
        """The text with those for which there is room."""
        most = min(len(text) + _ROOM, self._surface.max_chars or math.inf)
        fitting = TextWithExamples(text=text)
        for case in cases:
            more = TextWithExamples(text=text, cases=(*fitting.cases, case))
            if len(more.write()) <= most:
                fitting = more
        return fitting


def _in_turn(cases: Iterable[Case], labels: AbstractSet[str]) -> Iterator[Case]:
    """The cases in this order, but one of each label before the second of any."""
    queues: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        label = squeeze(case.expected or "")
        queues[label if label in labels else ""].append(case)
    for row in zip_longest(*queues.values()):
        yield from (case for case in row if case is not None)
