"""Labels of people beside a file of cases: saved one by one, matched by content, never mixed."""

import json
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, RunLocked
from burnish.datasets.labels import (
    Labels,
    Scale,
    forget_stale,
    labelling,
    labels_beside,
    read_labelled,
)

ROWS = "name,input,reply\nö1,wie?,gut\nb,why?,so\nc,who?,me\n"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "state"))


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def label(cases: Path, person: str, *answers: str | float, scale: Scale | None = None) -> None:
    with labelling(cases, person=person, scale=scale) as session:
        for place, answer in enumerate(answers):
            session.save(place, answer)


def test_every_answer_is_on_disk_at_once(cases: Path) -> None:
    with labelling(cases, person="ana") as session:
        session.save(0, "pass", note="größer")
        there = Labels.read(cases).of("ana")
        assert (there["ö1"].label, there["ö1"].note) == ("pass", "größer")
        assert session.next_open() == 1
        session.save(0, "fail")
        assert Labels.read(cases).of("ana")["ö1"].label == "fail"
    assert cases.read_text(encoding="utf-8") == ROWS


def test_a_later_session_goes_on(cases: Path) -> None:
    label(cases, "ana", "pass", "fail")
    with labelling(cases, person="ana") as session:
        assert (session.count, session.next_open()) == (2, 2)
    with labelling(cases, person="bob") as session:
        assert (session.count, session.next_open()) == (0, 0)


def test_two_people_can_label_at_once_but_nobody_twice(cases: Path) -> None:
    with labelling(cases, person="ana") as one, labelling(cases, person="bob") as other:
        one.save(0, "pass")
        other.save(0, "fail")
        with pytest.raises(RunLocked, match=r"the labelling of cases\.csv as ana is in use"):
            labelling(cases, person="ana").__enter__()
    assert Labels.read(cases).people == ("ana", "bob")


def test_labels_of_changed_and_removed_cases_are_named(cases: Path) -> None:
    label(cases, "ana", "pass", "fail", "pass")
    label(cases, "bob", "pass")
    cases.write_text("name,input,reply\nö1,wie?,schlecht\nb,why?,so\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        Labels.read(cases)
    text = str(refused.value)
    assert "labels of cases that are not in cases.csv: 'c' (ana)" in text
    assert "labels of cases that have changed since: 'ö1' (ana), 'ö1' (bob)" in text
    assert "--forget" in text
    assert {each.case for each in forget_stale(cases)} == {"ö1", "c"}
    assert Labels.read(cases).answers() == {"ana": {"b": "fail"}}
    assert forget_stale(cases) == ()


def test_a_new_name_is_another_case_but_a_label_column_is_not(cases: Path) -> None:
    label(cases, "ana", "pass")
    rows = ROWS.replace("reply\n", "reply,label\n").replace("gut\n", "gut,pass\n")
    cases.write_text(rows.replace("so\n", "so,fail\n").replace("me\n", "me,fail\n"))
    assert Labels.read(cases).answers() == {"ana": {"ö1": "pass"}}


def test_one_file_has_one_scale(cases: Path) -> None:
    label(cases, "ana", "good", scale=Scale.of("good, fair, bad"))
    with pytest.raises(ConfigError, match="on another scale: good, fair, bad"):
        label(cases, "bob", scale=Scale())
    with labelling(cases, person="bob") as session:
        assert session.scale.classes == ("good", "fair", "bad")


@pytest.mark.parametrize(
    ("scale", "typed", "answer"),
    [
        ("pass-fail", " P ", "pass"),
        ("pass-fail", "2", "fail"),
        ("pass-fail", "3", None),
        ("pass-fail", "", None),
        ("score", "0,75", 0.75),
        ("score", "1.1", None),
        ("score", "nan", None),
        ("good,fair,bad,bad luck", "bad", "bad"),
        ("good,fair,bad,bad luck", "ba", None),
        ("gut,größer", "GRÖ", "größer"),
    ],
)
def test_what_is_typed(scale: str, typed: str, answer: str | float | None) -> None:
    assert Scale.of(scale).read(typed) == answer


@pytest.mark.parametrize("text", ["", "pass", ",", "a,a"])
def test_a_scale_has_two_answers(text: str) -> None:
    with pytest.raises(ConfigError, match="is no scale"):
        Scale.of(text)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["{"], ":1"),
        ([{"case": "b"}], "by"),
        (
            [{"case": "b", "content": "x", "by": "ana", "label": "pass"}],
            "the scale must come first",
        ),
        (
            [
                {"scale": ["pass", "fail"]},
                {"case": "b", "content": "x", "by": "ana", "label": "maybe"},
            ],
            "not on the scale: pass, fail",
        ),
        ([{"scale": ["pass", "fail"]}, {"scale": ["a"]}], "different scales"),
    ],
)
def test_a_file_that_is_no_label_file(
    cases: Path, lines: list[dict[str, object] | str], words: str
) -> None:
    spelled = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    labels_beside(cases).write_text("\n".join(spelled))
    with pytest.raises(ConfigError, match=words):
        Labels.read(cases)


def test_nobody_and_nothing(cases: Path) -> None:
    with pytest.raises(ConfigError, match="the name is empty"):
        label(cases, " \t")
    cases.write_text("name,input\n")
    with pytest.raises(ConfigError, match="the file has no cases"):
        Labels.read(cases)


def test_what_most_people_say_is_compared_with_judges(cases: Path) -> None:
    label(cases, "ana", "pass", "fail", "pass")
    label(cases, "bob", "pass", "pass")
    label(cases, "cy", "fail")
    rows = {each.case.id: each.label for each in read_labelled(cases)}
    assert rows == {"ö1": True, "c": True}  # b is a draw


def test_scores_are_averaged(cases: Path) -> None:
    label(cases, "ana", 1, scale=Scale.of("score"))
    label(cases, "bob", 0.5)
    (only,) = read_labelled(cases)
    assert only.label == 0.75
    assert only.case.recorded is not None
    assert only.case.recorded.output == "gut"


def test_classes_cannot_be_compared_with_a_judge(cases: Path) -> None:
    label(cases, "ana", "a", scale=Scale.of("a,b"))
    with pytest.raises(ConfigError, match="these labels are classes: a, b"):
        read_labelled(cases)
