"""JUnit XML: valid whatever the agent says, one testcase a case, with the reasons."""

from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Outcome
from burnish.reports.evaluation import EvalReport, to_junit
from tests.reports.measured import AWAY, CRASH, failing, report, scored


def parsed(found: EvalReport) -> ElementTree.Element:
    root = ElementTree.fromstring(to_junit(found))
    assert root.tag == "testsuites"
    return root


def test_each_kind_of_case() -> None:
    silent = replace(scored("silent", 1.0), scores=())
    found = report(
        scored("good", 1.0),
        scored("bad", 1.0, 0.2),
        failing("crash", CRASH),
        failing("away", AWAY),
        silent,
    )
    root = parsed(found)
    counts = ("tests", "failures", "errors", "skipped")
    assert [root.get(name) for name in counts] == ["5", "2", "1", "1"]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert [child.tag for child in cases["good"]] == ["system-out"]
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.get("message") == "graded turn 2: scored 0.2"
    assert failure.text is not None
    assert failure.text == "graded turn 2: failed\nscored 0.2\nactual: reply 1"
    crash, away = cases["crash"].find("failure"), cases["away"].find("error")
    assert crash is not None
    assert away is not None
    assert (crash.get("message"), crash.get("type")) == ("agent: KeyError: 'order'", "crashed")
    assert (away.get("message"), away.get("type")) == ("run: 429 too many requests", "missing")
    assert cases["silent"].find("skipped") is not None


def test_a_failure_in_some_repeats_says_in_how_many() -> None:
    root = parsed(report(*(scored("a", value, draw=draw) for draw, value in enumerate((1.0, 0.1)))))
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert "graded: failed in 1 of 2 repeats" in failure.text


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_any_text_makes_valid_xml(name: str, said: str) -> None:
    nasty = "\x00\x1b]0;\x07\x0b\ufffe\uffff]]>&<\"'\x7f\x85"
    bad = scored(f"{name}{nasty}", 0.0)
    bad = replace(
        bad,
        outcome=Outcome(replies=(said + nasty,)),
        scores=(replace(bad.scores[0], reason=said + nasty),),
    )
    root = parsed(report(bad))
    output = root.findtext(".//system-out")
    assert output is not None
    assert "␛]0;" in output
