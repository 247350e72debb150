"""Surfaces turn away what is outside their bounds, and say what is wrong with it."""

import math

import pytest

from burnish.core.surfaces import (
    ChoiceSurface,
    DemonstratedCall,
    Demonstration,
    DemosSurface,
    FileSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
    out_of_bounds,
    placeholders_in,
)


def complaints(surface: Surface, value: Value) -> str:
    """What the surface says of a value; nothing when it is content."""
    return "; ".join(problem.message for problem in surface.problems(value))


def demo(question: str, answer: str = "yes") -> Demonstration:
    return Demonstration(input=question, output=answer)


class TestText:
    def test_any_text_will_do_without_bounds(self) -> None:
        assert complaints(TextSurface(id="t"), "Answer in French. ☂") == ""

    @pytest.mark.parametrize("empty", ["", "  \n\t"])
    def test_an_empty_text(self, empty: str) -> None:
        assert complaints(TextSurface(id="t"), empty) == "the text is empty"

    @pytest.mark.parametrize("value", [3, 1.5, True, ()])
    def test_not_a_text(self, value: Value) -> None:
        assert complaints(TextSurface(id="t"), value).startswith("expected text")

    def test_length_is_counted_in_characters(self) -> None:
        surface = TextSurface(id="t", max_chars=3)
        assert complaints(surface, "äöü") == ""
        assert complaints(surface, "abcd") == "the text has 4 characters, 3 are allowed"

    def test_every_placeholder_stays(self) -> None:
        surface = TextSurface(id="t", placeholders=("{question}", "${LANG}"))
        assert complaints(surface, "{question} in ${LANG}") == ""
        assert complaints(surface, "{question}") == "the placeholder '${LANG}' is gone"

    @pytest.mark.parametrize("text", ["Say {{x}}", "Say {{ x }}", "Say ${x}", "Say x", "{y}"])
    def test_a_placeholder_of_another_spelling_is_not_it(self, text: str) -> None:
        assert complaints(TextSurface(id="t", placeholders=("{x}",)), text) != ""

    @pytest.mark.parametrize("text", ['{"a": {x}}', "{{x}, {x}}", "{{y}} {x}"])
    def test_a_placeholder_among_other_braces_is_it(self, text: str) -> None:
        assert complaints(TextSurface(id="t", placeholders=("{x}",)), text) == ""

    def test_a_placeholder_in_a_notation_of_its_own(self) -> None:
        surface = TextSurface(id="t", placeholders=("<q>",))
        assert complaints(surface, "say <q>") == ""
        assert complaints(surface, "say q") == "the placeholder '<q>' is gone"

    def test_frozen_spans_stay_word_for_word(self) -> None:
        surface = TextSurface(id="t", frozen=("Never give\nadvice.",))
        assert complaints(surface, "Hi. Never give\nadvice. Bye.") == ""
        assert "frozen part" in complaints(surface, "Hi. Never give advice.")

    def test_all_problems_are_told_at_once(self) -> None:
        surface = TextSurface(id="t", max_chars=2, placeholders=("{x}",), frozen=("f",))
        assert len(surface.problems("abc")) == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{name} and {user.first}", ("{name}", "{user.first}")),
        ("{{ name }} and {{name}}", ("{{ name }}", "{{name}}")),
        ("${HOME} is not {HOME}", ("${HOME}", "{HOME}")),
        ("{a} {a} {b} {a}", ("{a}", "{b}")),
        ('{"json": 1} {1} {} {a b} $HOME', ()),
    ],
)
def test_placeholders_in(text: str, found: tuple[str, ...]) -> None:
    assert placeholders_in(text) == found


class TestNumber:
    unit = NumberSurface(id="n", low=0, high=1)

    @pytest.mark.parametrize("value", [0, 1, 0.5, 0.0, 1.0])
    def test_inside(self, value: Value) -> None:
        assert complaints(self.unit, value) == ""

    @pytest.mark.parametrize("value", [-0.01, 1.01, -5, 7, 10**30])
    def test_outside(self, value: Value) -> None:
        assert "is outside [0, 1]" in complaints(self.unit, value)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
    def test_not_finite(self, value: Value) -> None:
        assert "is not a finite number" in complaints(self.unit, value)

    @pytest.mark.parametrize("value", [True, "0.5", ()])
    def test_not_a_number(self, value: Value) -> None:
        assert complaints(self.unit, value).startswith("expected a number")

    def test_the_bounds_of_a_tiny_range_hold_too(self) -> None:
        tiny = NumberSurface(id="n", low=1e-12, high=1e-10, log=True)
        assert complaints(tiny, 5e-11) == ""
        assert complaints(tiny, 5e-10) != ""

    def test_whole_numbers(self) -> None:
        surface = NumberSurface(id="n", low=1, high=9, integer=True)
        assert complaints(surface, 3) == complaints(surface, 3.0) == ""
        assert complaints(surface, 3.5) == "3.5 is not a whole number"

    def test_the_grid_starts_at_the_low_end(self) -> None:
        surface = NumberSurface(id="n", low=0.1, high=0.9, step=0.2)
        assert [v for v in (0.1, 0.3, 0.2, 0.9, 0.8) if not surface.problems(v)] == [0.1, 0.3, 0.9]

    @pytest.mark.parametrize(
        ("low", "high", "log", "step"),
        [
            (1, 0, False, None),
            (math.nan, 1, False, None),
            (0, math.inf, False, None),
            (0, 1, True, None),
            (-1, 1, True, None),
            (0, 1, False, 0),
            (0, 1, False, -0.1),
            (0, 1, False, math.nan),
        ],
    )
    def test_ranges_that_make_no_sense(
        self, low: float, high: float, log: bool, step: float | None
    ) -> None:
        with pytest.raises(ValueError, match=r"^n: "):
            NumberSurface(id="n", low=low, high=high, log=log, step=step)


class TestChoice:
    @pytest.mark.parametrize(
        ("choices", "value", "fits"),
        [
            (("a", "b"), "a", True),
            (("a", "b"), "A", False),
            ((1, 2), 1, True),
            ((1, 2), 1.0, True),
            ((1, 2), True, False),
            ((True, False), 1, False),
            ((True, False), False, True),
            ((0.5,), 0.5, True),
            (("1",), 1, False),
            ((1,), math.nan, False),
            (("a",), (), False),
        ],
    )
    def test_only_what_is_listed(
        self, choices: tuple[str | int | float | bool, ...], value: Value, fits: bool
    ) -> None:
        assert (complaints(ChoiceSurface(id="c", choices=choices), value) == "") is fits

    def test_the_message_lists_the_choices(self) -> None:
        assert complaints(ChoiceSurface(id="c", choices=("a", 2)), "z") == (
            "'z' is not one of: a, 2"
        )


class TestDemos:
    def test_none_is_fine(self) -> None:
        assert complaints(DemosSurface(id="d"), ()) == ""

    def test_not_demonstrations(self) -> None:
        assert complaints(DemosSurface(id="d"), "text").startswith("expected demonstrations")

    def test_too_many(self) -> None:
        surface = DemosSurface(id="d", max_demos=1)
        assert complaints(surface, (demo("a"),)) == ""
        assert complaints(surface, (demo("a"), demo("b"))) == "2 demonstrations, 1 are allowed"

    def test_too_long(self) -> None:
        surface = DemosSurface(id="d", max_chars=4)
        assert complaints(surface, (demo("a"),)) == ""
        assert "5 characters, 4 are allowed" in complaints(surface, (demo("ab"),))

    def test_tools_count_too(self) -> None:
        call = DemonstratedCall.of("look", {"bin": 7}, "bolts")
        shown = (Demonstration(input="ab", output="c", calls=(call,)),)
        size = len("ab" + "look" + '{"bin":7}' + "bolts" + "c")
        assert complaints(DemosSurface(id="d", max_chars=size), shown) == ""
        assert f"{size} characters" in complaints(DemosSurface(id="d", max_chars=size - 1), shown)

    def test_one_twice(self) -> None:
        surface = DemosSurface(id="d")
        assert complaints(surface, (demo("a"), demo("a"))) == "a demonstration is there twice"
        assert complaints(surface, (demo("a", "x"), demo("a", "y"))) == ""


class TestFile:
    @pytest.mark.parametrize("path", ["prompt.md", "a/b.md", "./a.md", "a..b/c", ".env", "…/x"])
    def test_paths_that_stay_inside(self, path: str) -> None:
        assert FileSurface(id="f", path=path).path == path

    @pytest.mark.parametrize(
        "path",
        ["", "/etc/passwd", "..", "../x", "a/../../x", "a\\..\\x", "\\x", ".", "a/", "a/.", "a\0b"],
    )
    def test_paths_that_do_not(self, path: str) -> None:
        with pytest.raises(ValueError, match="does not name a file inside"):
            FileSurface(id="f", path=path)

    def test_values(self) -> None:
        surface = FileSurface(id="f", path="p.md", max_chars=3)
        assert complaints(surface, "") == complaints(surface, "abc") == ""
        assert complaints(surface, "abcd") == "the file has 4 characters, 3 are allowed"
        assert complaints(surface, "a\0b") == "the file would be binary"
        assert complaints(surface, 3).startswith("expected the text of a file")


def test_out_of_bounds_gathers_every_problem_and_names_unknown_surfaces() -> None:
    surfaces = {"t": TextSurface(id="t"), "n": NumberSurface(id="n", low=0, high=1)}
    assert out_of_bounds({"t": "x", "n": 1}, surfaces) == []
    found = out_of_bounds({"t": "", "n": 2, "tt": "x"}, surfaces)
    assert [str(problem) for problem in found] == [
        "t: the text is empty",
        "n: 2 is outside [0, 1]",
        "tt: no such surface — there are: n, t",
    ]
    assert "there are: none" in str(out_of_bounds({"x": 1}, {})[0])


def test_a_long_value_is_cut_in_messages() -> None:
    assert len(complaints(NumberSurface(id="n", low=0, high=1), "x" * 500)) < 100
