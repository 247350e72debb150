"""BLEU and chrF of one reply, by sacrebleu, as numbers in [0, 1]."""

from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

Tokenizer: TypeAlias = Literal["auto", "13a", "intl", "zh", "char", "none"]
"""How words are found; see `tokenizer_for`."""

_KANA = range(0x3040, 0x3100)
_HAN = range(0x3400, 0xA000)


def bleu_score(
    reference: str, reply: str, *, tokenize: Tokenizer = "auto", lowercase: bool = False
) -> float:
    """Sentence BLEU: runs of up to four words that the reply shares with the reference.

    Replies shorter than four words are scored by the runs they can have (effective order).
    """
    scorer = _bleu(tokenizer_for(reference) if tokenize == "auto" else tokenize, lowercase)
    return _in_unit(scorer.sentence_score(reply, [reference]).score)


def chrf_score(reference: str, reply: str, *, words: int = 0, lowercase: bool = False) -> float:
    """chrF: runs of up to six letters, and with `words=2` of words too (chrF++)."""
    scorer = _chrf(words, lowercase)
    return _in_unit(scorer.sentence_score(reply, [reference]).score)


def tokenizer_for(reference: str) -> Tokenizer:
    """sacrebleu's usual one; sign by sign where a script has no spaces between words."""
    if reference.isascii():
        return "13a"
    signs = set(map(ord, reference))
    if any(sign in _KANA for sign in signs):
        return "char"
    return "zh" if any(sign in _HAN for sign in signs) else "13a"


def _in_unit(percent: float) -> float:
    """sacrebleu's perfect score is a hair above 100."""
    return min(1.0, max(0.0, percent / 100))


@cache
def _bleu(tokenize: Tokenizer, lowercase: bool) -> "BLEU":  # noqa: FBT001
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)


@cache
def _chrf(words: int, lowercase: bool) -> "CHRF":  # noqa: FBT001
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=words, lowercase=lowercase)
