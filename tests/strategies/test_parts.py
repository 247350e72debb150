"""The parts of a text and of demonstrations, and what is left without one of them."""

from hypothesis import given
from hypothesis import strategies as st

from burnish.core.surfaces import Demonstration
from burnish.strategies.parts import DivisibleDemonstrations, DivisibleText, Part


def _all(text: DivisibleText) -> list[Part]:
    return [each for part in text.parts for each in (part, *part.smaller)]


def _removals(text: str) -> dict[str, str]:
    divided = DivisibleText(text)
    return {part.what: divided.without(part) for part in _all(divided)}


def test_the_parts_are_lines_then_their_sentences() -> None:
    assert _removals("Be kind.\nName the order. Name the date.\nUse e.g. French.") == {
        "“Be kind.”": "Name the order. Name the date.\nUse e.g. French.",
        "“Name the order. Name the date.”": "Be kind.\nUse e.g. French.",
        "“Name the order.”": "Be kind.\nName the date.\nUse e.g. French.",
        "“Name the date.”": "Be kind.\nName the order.\nUse e.g. French.",
        "“Use e.g. French.”": "Be kind.\nName the order. Name the date.",
    }


def test_a_text_of_one_line_has_sentences_and_one_of_a_sentence_has_no_parts() -> None:
    assert _removals("Be kind. Be brief.") == {
        "“Be kind.”": "Be brief.",
        "“Be brief.”": "Be kind.",
    }
    assert not DivisibleText("Be kind.").parts


_LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12), max_size=6
)


@given(_LINES.map("\n".join).filter(bool))
def test_without_a_part_the_rest_is_left(text: str) -> None:
    divided = DivisibleText(text)
    for part in _all(divided):
        left = divided.without(part)
        assert len(left) <= len(text)
        gone = part.what.strip("“”…")
        kept = len("".join(text.split())) - len("".join(left.split()))
        assert kept >= len("".join(gone.split()))


def test_each_demonstration_is_a_part() -> None:
    one, two = (Demonstration(input=name, output="x") for name in ("one", "two"))
    divided = DivisibleDemonstrations((one, two))
    assert [part.what for part in divided.parts] == ["demonstration one", "demonstration two"]
    assert [divided.without(part) for part in divided.parts] == [(two,), (one,)]
