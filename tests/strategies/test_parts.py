"""The parts of a winner: what each edit brought, and what is left without it."""

from hypothesis import given
from hypothesis import strategies as st

from burnish.core.surfaces import (
    Candidate,
    Demonstration,
    DemosSurface,
    FileSurface,
    NumberSurface,
    Origin,
    TextSurface,
)
from burnish.strategies.parts import Edited, LineageStep, Part, TextParts, parts_of


def _texts(*texts: str, by_sentence: bool = True) -> TextParts:
    changes = [Edited(trial=n, value=text, gain=0.1) for n, text in enumerate(texts)]
    return TextParts("prompt", changes, by_sentence=by_sentence)


def _all(parts: TextParts) -> list[Part]:
    def below(part: Part) -> list[Part]:
        return [part, *(each for inner in part.smaller for each in below(inner))]

    return [each for part in parts.parts for each in below(part)]


def _removals(parts: TextParts) -> dict[str, str]:
    return {part.what: str(parts.without([part])) for part in _all(parts)}


def test_each_edit_is_a_part_then_its_lines_then_its_sentences() -> None:
    parts = _texts(
        "Be kind.",
        "Be kind.\nName the order. Name the date.\nSign it.",
        "Be kind.\nName the order. Name the date.\nSign it.\nUse e.g. French.",
    )
    assert _removals(parts) == {
        "“Name the order. Name the date. Sign it.”": "Be kind.\nUse e.g. French.",
        "“Name the order. Name the date.”": "Be kind.\nSign it.\nUse e.g. French.",
        "“Name the order.”": "Be kind.\nName the date.\nSign it.\nUse e.g. French.",
        "“Name the date.”": "Be kind.\nName the order.\nSign it.\nUse e.g. French.",
        "“Sign it.”": "Be kind.\nName the order. Name the date.\nUse e.g. French.",
        "“Use e.g. French.”": "Be kind.\nName the order. Name the date.\nSign it.",
        "all changes of prompt": "Be kind.",
    }


def test_a_rewording_goes_back_to_the_shorter_text_or_to_the_baselines() -> None:
    longer = _texts("Answer.", "Answer.\nBe brief.", "Answer.\nBe brief, and so on and on.")
    assert longer.without([longer.parts[0]]) == "Answer.\nBe brief."
    alike = _texts("Style 1.\nGo.", "Style 2.\nGo.", "Style 3.\nGo.")
    assert alike.without([alike.parts[0]]) == "Style 1.\nGo."


def test_no_part_makes_a_text_longer() -> None:
    shorter = _texts("Answer with the greatest possible care.\nGo.", "Answer.\nGo.")
    assert set(_removals(shorter).values()) == {"Go."}
    assert _texts("Be kind.\nBe brief.", "Be kind.").parts == []


def test_of_a_hunk_that_a_later_edit_changed_what_is_left_counts() -> None:
    parts = _texts("Go.", "Go.\nOne.\nTwo.\nThree.", "Go.\nOne.\nZwei.\nThree.")
    removals = _removals(parts)
    first = next(part for part in parts.parts if part.trial == 1)
    assert parts.without([first]) == "Go.\nZwei."
    assert removals["“One.”"] == "Go.\nZwei.\nThree."
    later = next(part for part in parts.parts if part.trial == 2)
    assert parts.without([later]) == "Go.\nOne.\nTwo.\nThree."


def test_files_have_lines_and_no_sentences() -> None:
    parts = _texts("a = 1\n", 'a = 1\nb = "One. Two"\n', by_sentence=False)
    assert _removals(parts)['“b = "One. Two"”'] == "a = 1\n"
    assert all(part.smaller == () for part in parts.parts)


_LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12), max_size=6
)


@given(st.lists(_LINES.map("\n".join), min_size=2, max_size=5), st.data(), st.booleans())
def test_what_is_kept_and_what_is_removed_rebuild_the_text(
    texts: list[str], data: st.DataObject, by_sentence: bool
) -> None:
    parts = _texts(*texts, by_sentence=by_sentence)
    assert "".join(piece.text for piece in parts.pieces) == texts[-1]
    assert parts.without([]) == texts[-1]
    every = [part for part in _all(parts) if not part.whole]
    removed = data.draw(st.lists(st.sampled_from(every), unique_by=id)) if every else []
    gone = {place for part in removed for place in part.pieces}
    back = [text for part in removed for text in part.put_back.values()]
    kept = [piece.text for n, piece in enumerate(parts.pieces) if n not in gone]
    left = str(parts.without(removed))
    assert len(left) <= len(texts[-1]) + sum(map(len, back))
    place = 0
    for text in (each.strip() for each in kept):
        place = left.index(text, place) + len(text)
    if not back:
        assert "".join("".join(kept).split()) == "".join(left.split())


@given(st.lists(st.sampled_from(["Be kind.", "Be brief.", "Sign it."]), unique=True, min_size=1))
def test_without_all_insertions_the_baseline_is_back(rules: list[str]) -> None:
    texts = ["Go.", *("\n".join(["Go.", *rules[: n + 1]]) for n in range(len(rules)))]
    parts = _texts(*texts)
    edits = [part for part in parts.parts if not part.whole]
    assert parts.without(edits) == "Go."
    assert sum(part.rules for part in edits) == len(rules)


def test_numbers_demonstrations_and_files_are_parts_too() -> None:
    one, two = (Demonstration(input=name, output="x") for name in ("one", "two"))
    start = Candidate(values={"heat": 0.9, "shots": (one,), "code": "a\n", "prompt": "Go."})
    first = start.child({"heat": 0.5, "shots": (one, two)}, origin=Origin())
    last = first.child({"code": "a\nb\n"}, origin=Origin())
    steps = [
        LineageStep(trial=n, candidate=each, gain=gain)
        for n, (each, gain) in enumerate(((start, None), (first, 0.2), (last, None)))
    ]
    surfaces = [
        NumberSurface(id="heat", low=0, high=1),
        DemosSurface(id="shots"),
        FileSurface(id="code", path="code"),
        TextSurface(id="prompt"),
    ]
    parts = parts_of(steps, surfaces)
    assert {name: each.without(each.parts) for name, each in parts.items()} == {
        "heat": 0.9,
        "shots": (one,),
        "code": "a\n",
    }
    ranked = sorted((part for each in parts.values() for part in each.parts), key=lambda p: p.rank)
    assert ranked[0].surface == "code", "nothing supports it"
    assert {part.trial for part in ranked if part.surface != "code"} == {1}
