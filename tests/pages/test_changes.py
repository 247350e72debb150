"""What changed, word by word."""

from hypothesis import given
from hypothesis import strategies as st

from burnish.core.surfaces import Candidate, Demonstration
from burnish.pages.run_result import shown_changes, word_pieces

_TEXTS = st.text(alphabet="ab .,\n", max_size=60)


@given(_TEXTS, _TEXTS)
def test_the_pieces_make_up_both_texts(before: str, after: str) -> None:
    pieces = word_pieces(before, after)
    assert "".join(p.text for p in pieces if p.mark != "added") == before
    assert "".join(p.text for p in pieces if p.mark != "removed") == after


def test_only_the_words_that_changed_are_marked() -> None:
    pieces = word_pieces("Be brief and kind.", "Be brief, careful and kind.")
    assert [p.text for p in pieces if p.mark == "added"] == [", careful"]
    assert not [p for p in pieces if p.mark == "removed"]


def test_replaced_words_that_stand_together_are_one_change() -> None:
    pieces = word_pieces("answer very slowly now", "answer quite fast now")
    assert [(p.mark, p.text) for p in pieces if p.mark != "same"] == [
        ("removed", "very slowly"),
        ("added", "quite fast"),
    ]


def test_long_unchanged_parts_are_cut() -> None:
    text = "word " * 2_000
    (change,) = shown_changes(
        Candidate(values={"text": f"{text}end"}), Candidate(values={"text": f"{text}stop"})
    )
    assert len("".join(piece.text for piece in change.pieces)) < 600
    assert (change.words_added, change.words_removed) == (1, 1)


def test_numbers_and_demonstrations_have_their_own_form() -> None:
    old, new = (Demonstration(input=name, output="yes") for name in ("old", "new"))
    before = Candidate(values={"n": 1, "demos": (old,)})
    after = Candidate(values={"n": 2.5, "demos": (new,)})
    demos, number = shown_changes(before, after)
    assert (number.kind, number.before, number.after) == ("value", "1", "2.5")
    assert [(row.mark, row.demo.input) for row in demos.demos] == [
        ("added", "new"),
        ("removed", "old"),
    ]
