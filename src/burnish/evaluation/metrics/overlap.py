"""Metrics that ask how many words a reply shares with the reference answer."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from burnish.core.cases import squeeze
from burnish.core.content import Json, short_id
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.excerpts import quoted
from burnish.evaluation.metrics.answers import answer_text
from burnish.evaluation.metrics.bleu import Tokenizer, bleu_score, chrf_score, tokenizer_for
from burnish.evaluation.metrics.meteor import installed_synonyms, meteor_score
from burnish.evaluation.metrics.overlap_words import (
    Script,
    difference_in_words,
    unicode_words,
    words_by,
)
from burnish.evaluation.metrics.rouge import check_kind, long_stem, rouge_score
from burnish.evaluation.metrics.stems import stem
from burnish.evaluation.turn_metric import EPSILON, ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class OverlapMetric(ComputedMetric):
    """Compares a reply with the reference; a turn that expects nothing is not its business.

    A reference without any word, such as a tick or an empty text, has nothing to share: there
    the reply must be the same.
    """

    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    def compute(self, exchange: Exchange) -> Verdict | None:
        """The share, and in words what keeps it from being whole."""
        if exchange.expected is None:
            return None
        answer = answer_text(exchange, self.response_path)
        if answer.problem:
            return Verdict.of(held=False, reason=answer.problem)
        expected, reply = exchange.expected, answer.text
        told = f"expected {quoted(expected)}, found {quoted(reply)}"
        if not unicode_words(expected):
            return Verdict.of(held=squeeze(expected) == squeeze(reply), reason=told)
        value, details = self.measured(expected, reply)
        gap = "" if value >= 1 - EPSILON else self.gap(expected, reply, value)
        return Verdict(value=value, reason=f"{gap} ({told})" if gap else "", details=details)

    @abstractmethod
    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """The score, and what it was made of."""

    def gap(self, expected: str, reply: str, value: float) -> str:
        """What the reply lacks, in words."""
        del value
        wanted, given = unicode_words(expected), unicode_words(reply)
        if wanted == given:
            return "the words are the same, but capital letters, punctuation or spacing differ"
        return difference_in_words(wanted, given)


@dataclass(frozen=True, kw_only=True)
class Bleu(OverlapMetric):
    """Sentence BLEU: runs of up to four words, capital letters and punctuation included."""

    name: str = "bleu"
    tokenize: Tokenizer = "auto"
    lowercase: bool = False

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """BLEU, and how words were found."""
        tokenize = tokenizer_for(expected) if self.tokenize == "auto" else self.tokenize
        value = bleu_score(expected, reply, tokenize=tokenize, lowercase=self.lowercase)
        return value, {"tokenize": tokenize}


@dataclass(frozen=True, kw_only=True)
class Chrf(OverlapMetric):
    """chrF: runs of up to six letters, kind to endings and to every script."""

    name: str = "chrf"
    words: int = 0
    """2 counts words and pairs of words too, which is called chrF++."""
    lowercase: bool = False

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """chrF."""
        return chrf_score(expected, reply, words=self.words, lowercase=self.lowercase), {}


@dataclass(frozen=True, kw_only=True)
class RougeMetric(OverlapMetric):
    """ROUGE: words, runs of words, or the longest common subsequence.

    The defaults are those of HoloDeck: the F1 of ROUGE-L, words as they stand.
    """

    name: str = "rouge"
    kind: str = "rougeL"
    measure: Literal["f1", "precision", "recall"] = "f1"
    stem: bool = False
    """Compare words by their stems: `totals` is as good as `total`."""
    split_summaries: bool = False
    """For rougeLsum: sentences end at full stops too, not only at line ends."""
    script: Script = "auto"
    """`auto` sees Latin letters and digits alone, unless the reference has none of them."""

    def __post_init__(self) -> None:
        check_kind(self.kind)

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """One of the three numbers, and all of them."""
        found = rouge_score(
            expected,
            reply,
            kind=self.kind,
            stem=self.stem,
            split_summaries=self.split_summaries,
            script=self.script,
        )
        numbers = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
        return numbers[self.measure], {"kind": self.kind, **numbers}

    def gap(self, expected: str, reply: str, value: float) -> str:
        """What the reply lacks, counted as ROUGE counts words."""
        del value
        find = words_by(expected, self.script)
        wanted, given = find(expected), find(reply)
        same = long_stem if self.stem else str
        if list(map(same, wanted)) != list(map(same, given)):
            return difference_in_words(wanted, given, same)
        if self.kind == "rougeLsum":
            return "the words are the same, but their sentences are divided otherwise"
        return f"{self.kind} counts longer runs of words than the reference has: take rouge1"


@dataclass(frozen=True, kw_only=True)
class ResponseMatch(RougeMetric):
    """`response_match_score`: the F1 of ROUGE-1 by stems."""

    name: str = "response_match_score"
    kind: str = "rouge1"
    stem: bool = True


@dataclass(frozen=True, kw_only=True)
class Meteor(OverlapMetric):
    """METEOR: equal words, then stems, then synonyms where nltk's wordnet corpus is there."""

    name: str = "meteor"
    synonyms: bool = True
    """Use synonyms where the corpus is; without them every machine gives the same score."""

    @property
    def stages(self) -> tuple[str, ...]:
        """What words are matched by, on this machine."""
        found = self.synonyms and installed_synonyms() is not None
        return ("exact", "stem", "synonym") if found else ("exact", "stem")

    @property
    def fingerprint(self) -> str:
        """The stages count: with synonyms and without are two metrics."""
        return short_id([super().fingerprint, *self.stages])

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """METEOR, by which stages, and how the words fell."""
        synonyms = installed_synonyms() if self.synonyms else None
        found = meteor_score(expected, reply, synonyms=synonyms)
        return found.value, {
            "stages": list(self.stages),
            "matches": found.matches,
            "chunks": found.chunks,
        }

    def gap(self, expected: str, reply: str, value: float) -> str:
        """What the reply lacks by stems; an equal text, which never scores 1, lacks nothing."""
        wanted, given = unicode_words(expected), unicode_words(reply)
        if [stem(word) for word in wanted] != [stem(word) for word in given]:
            return difference_in_words(wanted, given, stem)
        if self.threshold is None or value >= self.threshold - EPSILON:
            return ""
        most = f"METEOR gives so short a text {value:.3f} at most"
        return f"the words are the same, but {most}: lower the threshold"
