"""Searching: each knob changes what is found, scores keep their scale, any query is a query."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.core.errors import ConfigError
from burnish.core.protocols import Effects
from burnish.models.errors import ModelRefused
from burnish.retrieval.embedders import Vector
from burnish.retrieval.index import Index, Ranking, SearchSettings, fuse
from tests.retrieval.corpus import MeaningEmbedder, hits, names, opened, shop, write

MEANINGS = MeaningEmbedder()
QUERY = "refund"
"""Nearest in meaning: returns. By its words: delivery and office have it."""


@pytest.fixture
async def index(tmp_path: Path) -> Index:
    return await shop(tmp_path, MEANINGS)


async def test_mode_semantic_finds_what_means_the_same(index: Index) -> None:
    found = await hits(index, QUERY, MEANINGS, mode="semantic")
    assert names(found)[0] == "returns"
    assert "refund" not in found[0].chunk.text


async def test_mode_keyword_finds_what_says_the_same(tmp_path: Path) -> None:
    embedder = MeaningEmbedder()
    index = await shop(tmp_path, embedder)
    found = await hits(index, QUERY, embedder, mode="keyword")
    assert sorted(names(found)) == ["delivery", "office"]
    assert len(embedder.asked) == 1, "the query itself need not be embedded"


async def test_mode_hybrid_finds_both(index: Index) -> None:
    found = await hits(index, QUERY, MEANINGS, mode="hybrid")
    assert {"returns", "delivery", "office"} <= set(names(found))


@pytest.mark.parametrize(
    ("semantic", "keyword", "first"), [(0.9, 0.1, "returns"), (0.1, 0.9, "delivery")]
)
async def test_semantic_weight_and_keyword_weight_move_the_order(
    index: Index, semantic: float, keyword: float, first: str
) -> None:
    weights = {"semantic_weight": semantic, "keyword_weight": keyword, "exact_weight": 0}
    assert names(await hits(index, QUERY, MEANINGS, **weights, rrf_k=1))[0] == first


async def test_a_leg_without_weight_finds_nothing(index: Index) -> None:
    words = {"semantic_weight": 0, "keyword_weight": 1, "exact_weight": 0}
    assert "returns" not in names(await hits(index, QUERY, MEANINGS, **words))
    meaning = {"semantic_weight": 1, "keyword_weight": 0, "exact_weight": 0}
    found = await hits(index, QUERY, MEANINGS, **meaning, rrf_k=0)
    assert [hit.score for hit in found] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])


async def test_exact_weight_moves_what_stands_word_for_word(index: Index) -> None:
    query = "not found"
    others = {"semantic_weight": 0.0, "keyword_weight": 1.0}
    without = await hits(index, query, MEANINGS, **others, exact_weight=0)
    with_it = await hits(index, query, MEANINGS, **others, exact_weight=1)
    assert {hit.chunk.id: hit.score for hit in without} != {h.chunk.id: h.score for h in with_it}
    assert names(with_it)[0] == "billing"
    by_name = {name: hit.score for name, hit in zip(names(with_it), with_it, strict=True)}
    assert by_name["office"] == pytest.approx(0.5 * 61 / 62)


async def test_rrf_k_sets_how_much_the_first_ranks_stand_out(index: Index) -> None:
    flat = await hits(index, QUERY, MEANINGS, rrf_k=1000)
    steep = await hits(index, QUERY, MEANINGS, rrf_k=1)

    def spread(found: list[float]) -> float:
        return found[0] - found[-1]

    assert spread([hit.score for hit in steep]) > spread([hit.score for hit in flat]) > 0


async def test_top_k_cuts(index: Index) -> None:
    three, one = [await hits(index, "the", MEANINGS, top_k=n) for n in (3, 1)]
    assert (len(three), len(one)) == (3, 1)
    assert names(three)[:1] == names(one)


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
async def test_min_score_leaves_out_what_fits_less(index: Index, mode: str) -> None:
    found = await hits(index, "the invoice", MEANINGS, mode=mode)
    bar = found[1].score
    kept = await hits(index, "the invoice", MEANINGS, mode=mode, min_score=bar)
    assert [hit.chunk.id for hit in kept] == [hit.chunk.id for hit in found if hit.score >= bar]
    assert len(kept) < len(found)
    assert await hits(index, "the invoice", MEANINGS, mode=mode, min_score=1.01) == []


async def test_the_score_of_semantic_is_the_cosine(index: Index) -> None:
    found = await hits(index, "cat", MEANINGS, mode="semantic")
    scores = {name: hit.score for name, hit in zip(names(found), found, strict=True)}
    # office: four cats or so beside an invoice and a refund; returns: nothing of cats.
    assert scores["office"] > 0.8
    assert scores["returns"] < 0.02
    assert all(0 <= score <= 1 for score in scores.values())


async def test_min_score_holds_after_the_cut_and_top_k_before_it(index: Index) -> None:
    assert len(await hits(index, QUERY, MEANINGS, top_k=1, min_score=0.0)) == 1


async def test_the_first_of_every_leg_scores_one(index: Index) -> None:
    (best, *_) = await hits(index, "the cat sleeps on the invoice", MEANINGS)
    assert best.chunk.headings[-1] == "Office"
    assert best.score == 1.0


async def test_a_question_that_stands_nowhere_word_for_word_loses_nothing(index: Index) -> None:
    (best, *_) = await hits(index, "where does the cat sleep, and on which invoice?", MEANINGS)
    assert best.score == 1.0


async def test_words_in_quotes_are_looked_for_word_for_word(index: Index) -> None:
    only = {"semantic_weight": 0, "keyword_weight": 0, "exact_weight": 1}
    assert names(await hits(index, 'who has "REFUND of  postage"?', None, **only)) == ["delivery"]
    assert names(await hits(index, "who has refund of postage", None, **only)) == []
    assert names(await hits(index, "err-1042", None, **only)) == ["billing"]


async def test_what_occurs_more_often_is_first_in_the_exact_leg(tmp_path: Path) -> None:
    write(tmp_path, a_md="# One\ngreen tea\n# Two\ngreen tea, green tea and Green  Tea again\n")
    index = await opened(tmp_path, "a.md")
    only = {"semantic_weight": 0, "keyword_weight": 0, "exact_weight": 1}
    assert names(await hits(index, "green tea", None, **only)) == ["two", "one"]


async def test_a_part_of_a_word_is_no_phrase(tmp_path: Path) -> None:
    write(tmp_path, a_md="# One\nconcatenate\n# Two\ncats\n# Three\ncat\n")
    index = await opened(tmp_path, "a.md")
    only = {"semantic_weight": 0, "keyword_weight": 0, "exact_weight": 1}
    assert names(await hits(index, "cat", None, **only))[0] == "three"
    assert "one" not in names(await hits(index, "cat", None, **only))


async def test_without_an_embedder_the_search_is_by_words_and_says_so(tmp_path: Path) -> None:
    index = await shop(tmp_path, None)
    assert index.notes == ("shop.md: without an embedding model, the search is by keywords only",)
    by_words = await hits(index, QUERY, None, mode="keyword")
    assert await hits(index, QUERY, None, mode="semantic") == by_words
    both = await hits(index, QUERY, None, mode="hybrid")
    assert sorted(names(both)) == ["delivery", "office"]
    meaning_only = {"semantic_weight": 1.0, "keyword_weight": 0.0, "exact_weight": 0.0}
    assert sorted(names(await hits(index, QUERY, None, **meaning_only))) == ["delivery", "office"]


async def test_equals_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    same = "# Same\nThe very same text.\n"
    write(tmp_path, **{f"{name}_md": same for name in "dbcae"})
    index = await opened(tmp_path, "*.md", MEANINGS)
    for mode in ("semantic", "keyword", "hybrid"):
        found = await hits(index, "very same text", MEANINGS, mode=mode)
        assert [hit.chunk.source for hit in found] == ["a.md", "b.md", "c.md", "d.md", "e.md"]


async def test_each_leg_is_read_deeper_than_the_cut(tmp_path: Path) -> None:
    meant = "# Meant\ncourier delivery"
    said = "# Said\nparcel parcel kitten kitten kitten kitten kitten"
    second_in_both = "# Second\nparcel kitten and a great many more words that say nothing here"
    between = [f"# B{n}\ncourier courier kitten kitten kitten" for n in range(5)]
    write(tmp_path, a_md="\n".join([meant, said, second_in_both, *between]))
    index = await opened(tmp_path, "a.md", MEANINGS)
    assert names(await hits(index, "parcel", MEANINGS, mode="semantic"))[0] == "meant"
    assert names(await hits(index, "parcel", MEANINGS, mode="keyword"))[0] == "said"
    weights = {"semantic_weight": 0.5, "keyword_weight": 0.5, "exact_weight": 0}
    assert names(await hits(index, "parcel", MEANINGS, **weights, top_k=1)) == ["second"]
    assert [SearchSettings(top_k=k).fetched for k in (1, 5, 10)] == [20, 20, 40]


async def test_headings_are_searched_too(index: Index) -> None:
    assert names(await hits(index, "handbook billing", None, mode="keyword"))[0] == "billing"


async def test_words_are_found_in_other_scripts_and_forms(tmp_path: Path) -> None:
    write(
        tmp_path,
        a_md="# Tokyo\n東京都の人口は約1400万人です。\n# Kyoto\n京都は古い町です。\n"
        "# Cafe\nLe café coûte 3 €.\n# Street\nDie Straße ist lang.\n# Hindi\nहिन्दी में किताब\n",
    )
    index = await opened(tmp_path, "a.md")
    expected = {"東京の人口": "tokyo", "cafe": "cafe", "STRASSE": "street", "किताब": "hindi",
                "古い": "kyoto"}  # fmt: skip
    for query, name in expected.items():
        assert names(await hits(index, query, None, mode="keyword"))[0] == name


async def test_in_a_large_index_words_that_are_everywhere_do_not_matter(tmp_path: Path) -> None:
    sections = "\n".join(f"# S{n}\nthe thing number {n}" for n in range(1100))
    write(tmp_path, a_md=f"{sections}\n# Other\nthe odd one")
    index = await opened(tmp_path, "a.md")
    assert names(await hits(index, "the odd thing", None, mode="keyword")) == ["other"]
    assert len(await hits(index, "the thing", None, mode="keyword")) == 10


SYNTAX = [
    *('"', '""', "AND", "OR NOT", "NEAR(a b)", "text: cat", "cat*", "-cat", "^cat", "(", "'", "*"),
    *("cat AND", "{a b}", "\0", "\ud800", "?", ";--", "a" * 5000, "cat " * 3000, '"cat" OR "'),
]


@pytest.mark.parametrize("query", SYNTAX)
async def test_operators_of_the_full_text_engine_are_plain_words(index: Index, query: str) -> None:
    for mode in ("keyword", "hybrid"):
        found = await hits(index, query, MEANINGS, mode=mode)
        assert all(0 <= hit.score <= 1 for hit in found)


@given(query=st.text(max_size=60))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_text_is_a_query(index: Index, query: str) -> None:
    found = await hits(index, query, MEANINGS)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.mark.parametrize("query", ["", " \n"])
async def test_nothing_is_found_for_nothing(index: Index, query: str) -> None:
    assert await hits(index, query, MEANINGS) == []


async def test_nothing_is_found_in_nothing(tmp_path: Path) -> None:
    write(tmp_path, shop_md="")
    index = await opened(tmp_path, embedder=MEANINGS)
    assert await hits(index, "cat", MEANINGS) == []
    assert index.notes == ("shop.md contains no text",)


async def test_a_model_that_changed_behind_its_name_is_noticed(index: Index) -> None:
    class Longer(MeaningEmbedder):
        async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
            return [[0.0] * 7]

    with pytest.raises(ModelRefused, match=r"returned 7 numbers, but the index .* has 5"):
        await hits(index, "cat", Longer())


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"exact_weight": -0.1}, {"rrf_k": -1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="top_k must be 1 or more"):
        SearchSettings(**wrong)  # pyright: ignore[reportArgumentType]


ranks = st.lists(st.integers(1, 30), unique=True, max_size=12)


@given(
    legs=st.lists(st.tuples(ranks, st.floats(0.001, 1)), max_size=3),
    rrf_k=st.floats(0, 200),
    scale=st.floats(0.1, 10),
)
def test_fused_scores_are_shares_of_the_best_possible(
    legs: list[tuple[list[int], float]], rrf_k: float, scale: float
) -> None:
    rankings = [Ranking(rows=rows, weight=weight) for rows, weight in legs]
    fused = fuse(rankings, rrf_k=rrf_k)
    assert all(0 <= score <= 1 for score in fused.values())
    scaled = [Ranking(rows=rows, weight=weight * scale) for rows, weight in legs]
    again = fuse(scaled, rrf_k=rrf_k)
    assert again == pytest.approx(fused)


def test_fusion_by_hand() -> None:
    fused = fuse([Ranking(rows=[7, 8], weight=3), Ranking(rows=[8], weight=1)], rrf_k=1)
    assert fused == pytest.approx({7: 0.75, 8: 0.75 * 2 / 3 + 0.25})
