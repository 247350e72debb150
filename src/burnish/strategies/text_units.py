"""The units of a text: what may be taken out of it on its own.

These are its lines, the sentences of a line, and each example as a whole. An example is a question
with its answer as prompts show them: `Input: …` and `Output: …`, a block under `Example 1:`, an
element `<example>`, a line `question -> answer`, a fence, or JSON. Half of an example teaches
something wrong, so none is ever divided. Where it is not clear where one ends, a unit has more in
it rather than less.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SENTENCE_END = re.compile(r"(?<=[.!?])[ \t]+(?=[^a-z\s])|(?<=[。！？])")
_ABBREVIATIONS = ("e.g.", "i.e.", "etc.", "cf.", "vs.", "Dr.", "Mr.", "Mrs.", "No.")
_LIST = r"(?:[-*+•>]\s+|\(?\d{1,3}[.)]\s+)*"
_LABEL = re.compile(
    rf"\s*(?P<list>{_LIST})(?P<heading>#{{1,6}}\s+)?[*_`\"]{{0,3}}(?P<name>[^\W\d_][^:：\n]{{0,39}}?)"
    r"[*_`\"]{0,3}\s*#?\d*[*_`\"]{0,3}\s*(?P<colon>[:：](?!//)|$)"
)
"""How a line begins: `Input:`, `**Q1**:`, `- User:`, or as a heading `## Example 2`."""
_TAG = re.compile(r"\s*<(?P<end>/?)(?P<name>[A-Za-z][\w.-]{0,39})\b[^<>]*>")
_HEADING = re.compile(r"\s*#{1,6}\s")
_ARROW = re.compile(r"(?:^|\s)(?:[-=]+>|→|⇒|↦|⟶)(?:\s|$)")
_BEGINS_WITH_ARROW = re.compile(r"\s*(?:[-=]+>|→|⇒|↦|⟶)")
_ENDS_WITH_ARROW = re.compile(r"(?:[-=]+>|→|⇒|↦|⟶)\s*$")
_ITEM = re.compile(r"\s*(?:[-*+•>]|\(?\d{1,3}[.)])\s")
_FENCE = re.compile(rf"\s*{_LIST}(?P<sign>`{{3,}}|~{{3,}})")
_JSON = re.compile(rf"\s*{_LIST}(?:[\w \"*_-]{{1,40}}:\s*)?[{{\[]")
_LONGEST_JSON = 500
"""Lines of one object: what does not end before is none."""
_BLOCKS = frozenset({"example", "sample", "shot", "demonstration", "conversation", "dialogue"})
"""Names of blocks: one ends where the next begins, whatever is in it."""
_QUESTIONS = frozenset({"input", "question", "q", "user", "human"})
_ANSWERS = frozenset({"output", "answer", "a", "assistant", "ai"})
_KNOWN = _BLOCKS | _QUESTIONS | _ANSWERS


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A sentence, a line or an example, with the white space after it."""

    text: str
    line: int
    """Sentences of one line have the same number."""


def units_of(text: str) -> Iterator[Unit]:
    """The units of a text in order; white space belongs to what is before it."""
    lines = text.splitlines(keepends=True)
    ends = _Lines(lines).examples()
    held, number, place = "", 0, 0
    while place < len(lines):
        end = ends.get(place, place + 1)
        block, is_example = "".join(lines[place:end]), place in ends
        place = end
        if not block.strip():
            held += block
            continue
        if held:
            yield Unit(text=held, line=number)
        number += 1
        *whole, held = [block] if is_example else _sentences(block)
        for sentence in whole:
            yield Unit(text=sentence, line=number)
    if held:
        yield Unit(text=held, line=number)


def _sentences(line: str) -> list[str]:
    """The sentences of a line, each with the space after it."""
    sentences: list[str] = []
    begun = 0
    for end in _SENTENCE_END.finditer(line):
        sentence = line[begun : end.end()]
        # A number of a list is no sentence.
        if sentence.rstrip().endswith(_ABBREVIATIONS) or not re.search(r"\w{2}", sentence):
            continue
        if end.end() < len(line.rstrip()):
            sentences.append(sentence)
            begun = end.end()
    return [*sentences, line[begun:]]


@dataclass(frozen=True)
class _Mark:
    """What a line begins with: a label, a heading, or a tag."""

    name: str
    is_tag: bool = False
    ends: bool = False
    """Whether it is the tag that ends an element."""
    is_bare: bool = False
    """Whether it is a label in no list and no heading."""
    stands_alone: bool = False
    """Whether nothing comes after it on its line."""


_NO_MARK = _Mark("")


def _mark(line: str) -> _Mark:
    if tag := _TAG.match(line):
        return _Mark(tag["name"].casefold(), is_tag=True, ends=bool(tag["end"]))
    label = _LABEL.match(line.rstrip())
    if label is None or not (label["colon"] or label["heading"]):
        return _NO_MARK
    words = label["name"].casefold().split()
    name = words[-1] if words[-1] in _KNOWN else " ".join(words)
    return _Mark(
        name if len(words) <= 4 else "",  # more is a sentence
        is_bare=not (label["list"] or label["heading"]),
        stands_alone=not line[label.end() :].strip(' \t\r\n*_`"'),
    )


class _Lines:
    """The lines of a text, and which of them are one example."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._whole = {**_arrows(lines), **_json_values(lines), **_fences(lines)}
        inside = {n for begin, end in self._whole.items() for n in range(begin, end)}
        self._marks = [_NO_MARK if n in inside else _mark(line) for n, line in enumerate(lines)]
        self._names = self._names_of_examples()
        self._not_closed: set[str] = set()
        """Ends of elements that do not come any more."""

    def examples(self) -> dict[int, int]:
        """By the number of its first line, where an example ends; they do not overlap."""
        ends: dict[int, int] = {}
        spans = [*self._whole.items(), *self._labelled(), *self._beside_each_other()]
        for begin, end in sorted(spans):
            last = next(reversed(ends), -1)
            if last >= 0 and begin < ends[last]:
                ends[last] = max(end, ends[last])
            else:
                ends[begin] = end
        return ends

    def _names_of_examples(self) -> frozenset[str]:
        """The names of marks that make up examples: usual ones, and those that come in turn."""
        opening = [mark for mark in self._marks if mark.name and not mark.ends]
        often = {name for name, count in Counter(m.name for m in opening).items() if count > 1}
        tags = {mark.name for mark in opening if mark.is_tag} & often
        in_turn = often if len(often) > 1 else set[str]()
        return frozenset({mark.name for mark in opening} & _KNOWN | tags | in_turn)

    def _labelled(self) -> Iterator[tuple[int, int]]:
        """Examples whose parts have labels, headings or tags."""
        place, has_paragraphs = 0, False
        while place < len(self._lines):
            mark = self._marks[place]
            if mark.name not in self._names - _ANSWERS or mark.ends:
                place += 1
                continue
            end = self._end_of_element(place)
            if not end:
                stop, last = self._next_and_last_mark(place)
                end = self._end_of_part(last, stop)
                rest = next((n for n in range(end, stop) if _HEADING.match(self._lines[n])), stop)
                is_last = stop == len(self._lines)
                is_open = mark.name in _BLOCKS and mark.stands_alone and last == place
                has_paragraphs |= not is_last and not self._is_blank(end, rest)
                if not is_last or is_open or has_paragraphs:
                    end = rest
            yield place, end
            place = max(end, place + 1)

    def _end_of_element(self, begin: int) -> int:
        """Where an element ends that is a whole example; 0 if it is none."""
        first = self._marks[begin]
        if not first.is_tag:
            return 0
        close = f"</{first.name}>"
        lines = range(begin, len(self._lines)) if close not in self._not_closed else ()
        end = next((n for n in lines if close in self._lines[n].casefold()), None)
        if end is None:
            self._not_closed.add(close)
            return 0
        inside = {mark.name for mark in self._marks[begin + 1 : end]} & self._names
        tags = {mark.name for mark in self._marks if mark.is_tag} & self._names
        return end + 1 if first.name in _BLOCKS or inside or len(tags) == 1 else 0

    def _next_and_last_mark(self, begin: int) -> tuple[int, int]:
        """Where the next example begins, and the last mark of this one."""
        first = self._marks[begin].name
        seen, last = {first}, begin
        for place in range(begin + 1, len(self._lines)):
            mark = self._marks[place]
            if mark.name not in (seen if mark.ends else self._names):
                continue
            again = first not in _BLOCKS and mark.name in seen - _ANSWERS
            if not mark.ends and (mark.name in _BLOCKS or again):
                return place, last
            seen.add(mark.name)
            last = place
        return len(self._lines), last

    def _end_of_part(self, place: int, stop: int) -> int:
        """Where the paragraph ends that belongs to a mark, or the next example begins."""
        end = place + 1
        if self._marks[place].stands_alone:
            while end < stop and not self._lines[end].strip():
                end += 1
        while end < stop and self._lines[end].strip():
            end = self._whole.get(end, end + 1)
        return end

    def _is_blank(self, begin: int, end: int) -> bool:
        return not any(line.strip() for line in self._lines[begin:end])

    def _beside_each_other(self) -> Iterator[tuple[int, int]]:
        """Lines with labels, one right after the other: a single example may have any labels."""
        stop = len(self._lines)
        done = 0
        for place, (mark, after) in enumerate(pairwise(self._marks)):
            if place < done:
                continue
            is_pair = mark.is_bare and after.is_bare and mark.name != after.name
            if is_pair and mark.name and after.name and not {mark.name, after.name} & self._names:
                done = self._end_of_part(place + 1, stop)
                yield place, done


def _fences(lines: Sequence[str]) -> dict[int, int]:
    """By its first line, where each closed fence ends."""
    ends: dict[int, int] = {}
    begin, sign = -1, ""
    for place, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if begin < 0:
            begin, sign = place, fence["sign"]
        elif fence["sign"].startswith(sign) and not line.strip().strip(sign[0]):
            ends[begin], begin = place + 1, -1
    return ends


def _json_values(lines: Sequence[str]) -> dict[int, int]:
    """By its first line, where each object or list with quotes ends."""
    ends: dict[int, int] = {}
    after = 0
    opened = [sum(map(line.count, "{[")) - sum(map(line.count, "}]")) for line in lines]
    for place, line in enumerate(lines):
        if place < after or not _JSON.match(line):
            continue
        depth = 0
        for end in range(place, min(place + _LONGEST_JSON, len(lines))):
            depth += opened[end]
            if depth <= 0:
                if '"' in "".join(lines[place : end + 1]) or end > place:
                    ends[place] = after = end + 1
                break
    return ends


def _arrows(lines: Sequence[str]) -> Mapping[int, int]:
    """Lines `question -> answer` and rows of tables, with the lines that they go on from."""
    ends: dict[int, int] = {}
    for place, line in enumerate(lines):
        if not _ARROW.search(line.rstrip()):
            if line.count("|") > 1:
                ends[place] = place + 1
            continue
        begin, before = place, lines[place - 1] if place else ""
        goes_on = line[:1].isspace() and not _ITEM.match(line) and not before.rstrip().endswith(":")
        if before.strip() and place - 1 not in ends and (_BEGINS_WITH_ARROW.match(line) or goes_on):
            begin = place - 1
        end = place + 1
        if _ENDS_WITH_ARROW.search(line):
            while end < len(lines) and not lines[end].strip():
                end += 1
            end = min(end + 1, len(lines))
        ends[begin] = end
    return ends
