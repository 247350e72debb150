"""Metrics of overlap: their scores, when they apply, and what they say."""

from dataclasses import replace

import pytest

from burnish.core.cases import Case, Outcome, Turn
from burnish.core.content import codec
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Score
from burnish.journal.once import DirectEffects
from burnish.metrics.overlap import (
    Bleu,
    Chrf,
    Meteor,
    OverlapMetric,
    ResponseMatch,
    RougeMetric,
    installed_synonyms,
)
from burnish.testing.doubles import check_metric

EVERY: list[OverlapMetric] = [Bleu(), Chrf(), RougeMetric(), ResponseMatch(), Meteor()]


async def score(metric: OverlapMetric, expected: str | None, reply: str) -> Score:
    (found,) = await scores(metric, Case.single("q", expected), reply)
    return found


async def scores(metric: OverlapMetric, case: Case, *replies: str) -> list[Score]:
    return list(await metric.score(case, Outcome(replies=replies), effects=DirectEffects()))


TABLE = [
    (ResponseMatch(), "The totals are 42 and 43", "total is 42", 4 / 9),
    (RougeMetric(kind="rouge1"), "The totals are 42 and 43", "total is 42", 2 / 9),
    (RougeMetric(), "a b c d", "a c x", 4 / 7),
    (RougeMetric(measure="recall"), "a b c d", "a c x", 0.5),
    (RougeMetric(measure="precision"), "a b c d", "a c x", 2 / 3),
    (RougeMetric(kind="rouge2"), "a b c d", "a b d", 0.4),
    (Bleu(), "the cat sat here", "the cat sat here", 1.0),
    (Chrf(), "abc", "xyz", 0.0),
    (Meteor(synonyms=False), "yes", "yes", 0.5),
    (Meteor(synonyms=False), "a b", "a b", 1 - 0.5 / 8),
]


@pytest.mark.parametrize(("metric", "expected", "reply", "value"), TABLE)
async def test_scores(metric: OverlapMetric, expected: str, reply: str, value: float) -> None:
    assert (await score(metric, expected, reply)).value == pytest.approx(value)


def test_names_are_those_of_the_seeds() -> None:
    names = [metric.name for metric in EVERY]
    assert names == ["bleu", "chrf", "rouge", "response_match_score", "meteor"]


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
class TestEvery:
    async def test_a_turn_without_a_reference_is_left_out(self, metric: OverlapMetric) -> None:
        assert await scores(metric, Case.single("q"), "anything") == []
        case = Case(turns=(Turn(input="a"), Turn(input="b", expected="two words")))
        assert [s.turn for s in await scores(metric, case, "x", "two words")] == [1]

    async def test_a_reference_without_words_asks_for_the_same(self, metric: OverlapMetric) -> None:
        for expected, reply, value in (("✓", "✓ ", 1), ("✓", "✗", 0), ("", "", 1), ("", "so", 0)):
            assert (await score(metric, expected, reply)).value == value
        assert "expected '✓', found '✗'" in (await score(metric, "✓", "✗")).reason

    async def test_an_equal_reply_needs_no_reason(self, metric: OverlapMetric) -> None:
        assert (
            await score(metric, "Five words are enough here", "Five words are enough here")
        ).reason == ""

    async def test_no_reply_scores_nothing(self, metric: OverlapMetric) -> None:
        found = await score(metric, "two words", "")
        assert found.value == 0
        assert found.passed is None
        assert found.reason.startswith("none of the 2 expected words is there")

    async def test_what_is_missing_is_said(self, metric: OverlapMetric) -> None:
        found = await score(metric, "The total is 42 euros, due in March", "The total is 41 euros")
        assert found.reason == (
            "of 8 expected words 4 are missing: 42, due, march and 1 more; "
            "1 word not expected: 41 (expected 'The total is 42 euros, due in March', "
            "found 'The total is 41 euros')"
        )

    async def test_words_that_are_too_many_are_said(self, metric: OverlapMetric) -> None:
        found = await score(metric, "Paris", "Well, the capital of France is Paris")
        assert found.reason.startswith(
            "every one of the 1 expected word is there; 6 words not expected: well, capital, france"
        )

    async def test_the_threshold_decides(self, metric: OverlapMetric) -> None:
        strict = replace(metric, threshold=0.95)
        assert (await score(strict, "a b c d e f g h", "a b c d e f g h")).passed
        assert not (await score(strict, "a b c d e f g h", "a b c d")).passed

    async def test_the_contract_of_metrics(self, metric: OverlapMetric) -> None:
        turns = (Turn(input="?", expected="It is 42."), Turn(input="and?", expected="はい"))
        outcomes = [Outcome(replies=("It is 42.", "はい")), Outcome(replies=("no " * 2000, "x"))]
        for strict in (metric, replace(metric, threshold=1.0)):
            await check_metric(strict, Case(turns=turns), outcomes)

    def test_settings_survive_being_kept(self, metric: OverlapMetric) -> None:
        kept = codec(type(metric))
        assert kept.decode(kept.encode(metric)) == metric


async def test_another_order_is_called_that() -> None:
    assert "in another order" in (await score(RougeMetric(), "a b c", "c b a")).reason


async def test_what_only_bleu_sees_is_said() -> None:
    found = await score(Bleu(), "Yes, of course.", "yes of course")
    assert found.reason.startswith("the words are the same, but capital letters, punctuation")


async def test_words_with_one_stem_are_not_called_missing() -> None:
    found = await score(ResponseMatch(), "Relations matter", "relation matters not")
    assert found.reason.startswith("every one of the 2 expected words is there; 1 word not")


async def test_runs_longer_than_the_reference_are_a_fault_of_the_metric() -> None:
    found = await score(RougeMetric(kind="rouge2"), "yes", "yes")
    assert found.value == 0
    assert found.reason.startswith("rouge2 counts longer runs of words than the reference has")


async def test_meteor_asks_more_of_one_word_than_one_word_can_give() -> None:
    found = await score(Meteor(threshold=0.7, synonyms=False), "yes", "yes")
    assert found.reason.startswith(
        "the words are the same, but METEOR gives such a short text at most 0.500"
    )
    assert (await score(Meteor(threshold=0.5, synonyms=False), "yes", "yes")).reason == ""


async def test_details_say_what_a_score_is_made_of() -> None:
    rouge = await score(RougeMetric(), "a b", "a")
    assert rouge.details == {"kind": "rougeL", "precision": 1.0, "recall": 0.5, "f1": 2 / 3}
    assert (await score(Bleu(), "今天很好", "今天")).details == {"tokenize": "zh"}


async def test_meteor_says_which_stages_it_had() -> None:
    plain = await score(Meteor(synonyms=False), "cats", "cat")
    assert plain.details == {"stages": ["exact", "stem"], "matches": 1, "chunks": 1}
    found = await score(Meteor(), "cats", "cat")
    corpus = [] if installed_synonyms() is None else ["synonym"]
    assert found.details["stages"] == ["exact", "stem", *corpus]


def test_meteor_with_synonyms_is_another_metric() -> None:
    class WithCorpus(Meteor):
        @property
        def stages(self) -> tuple[str, ...]:
            return ("exact", "stem", "synonym")

    class Without(Meteor):
        @property
        def stages(self) -> tuple[str, ...]:
            return ("exact", "stem")

    WithCorpus.__name__ = Without.__name__ = "Meteor"
    assert WithCorpus().fingerprint != Without().fingerprint


def test_settings_are_part_of_the_fingerprint() -> None:
    metrics = [RougeMetric(), RougeMetric(kind="rouge1"), RougeMetric(stem=True), ResponseMatch()]
    assert len({metric.fingerprint for metric in metrics}) == 4
    assert RougeMetric().fingerprint == RougeMetric().fingerprint


def test_an_unknown_kind_is_refused_when_the_metric_is_made() -> None:
    with pytest.raises(ConfigError, match="unknown kind of ROUGE: 'rougeX'"):
        RougeMetric(kind="rougeX")
