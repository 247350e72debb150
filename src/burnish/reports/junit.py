"""A measurement as JUnit XML, for CI systems: one testcase a case."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from burnish.core.formatting import shorten, visible
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict, Complaint, Trouble, complaints_of

_MESSAGE = 200
_FORBIDDEN = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""What XML has no place for beside control characters."""


def to_junit(report: EvalReport) -> bytes:
    """The report as JUnit XML, UTF-8."""
    totals, about = report.totals, report.about
    counts = {
        "tests": str(totals.cases),
        "failures": str(totals.failed),
        "errors": str(totals.missing),
        "skipped": str(totals.unjudged),
        "time": f"{totals.active_seconds:.3f}",
    }
    root = Element("testsuites", {"name": "burnish eval", **counts})
    named = {"name": _text(about.agent), **counts, "timestamp": about.at}
    suite = SubElement(root, "testsuite", named)
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
    for row in report.cases:
        _add_case(suite, row, about.agent)
    indent(root)
    return tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _properties(report: EvalReport) -> Iterator[tuple[str, str]]:
    yield "burnish", report.burnish
    yield "source", report.about.source
    yield "run", report.about.folder
    for each in report.metrics:
        if each.mean is not None:
            yield f"mean {each.metric}", f"{each.mean:.6f}"


def _add_case(suite: Element, row: CaseRow, agent: str) -> None:
    seconds = sum(one.seconds for one in row.tries)
    named = {"classname": _text(agent), "name": _text(row.case), "time": f"{seconds:.3f}"}
    case = SubElement(suite, "testcase", named)
    complaints = complaints_of(row)
    match row.verdict:
        case CaseVerdict.FAIL:
            _add_trouble(case, "failure", row, complaints)
        case CaseVerdict.MISSING:
            _add_trouble(case, "error", row, complaints)
        case CaseVerdict.UNJUDGED:
            SubElement(case, "skipped", {"message": "no metric gives a verdict on this case"})
        case CaseVerdict.PASS:
            pass
    output = row.tries[-1].replies if row.tries else ()
    if output:
        SubElement(case, "system-out").text = _text("\n---\n".join(output))


def _add_trouble(case: Element, kind: str, row: CaseRow, complaints: tuple[Complaint, ...]) -> None:
    """One element a case, as readers of JUnit expect; its text has everything."""
    trouble = Trouble.MISSING if row.verdict is CaseVerdict.MISSING else None
    first = next((c for c in complaints if trouble in (None, c.trouble)), None)
    message = "" if first is None else f"{first.where}: {shorten(first.reason, _MESSAGE)}"
    attributes = {
        "message": _text(message),
        "type": first.metric or first.trouble if first else kind,
    }
    SubElement(case, kind, attributes).text = _text(
        "\n\n".join(_complaint_text(row, c) for c in complaints)
    )


def _complaint_text(row: CaseRow, complaint: Complaint) -> str:
    tries = len(row.tries)
    often = f" in {complaint.tries} of {tries} repeats" if complaint.tries < tries else ""
    lines = [f"{complaint.where}: {complaint.trouble}{often}", complaint.reason]
    if complaint.expected is not None:
        lines.append(f"expected: {complaint.expected}")
    if complaint.actual:
        lines.append(f"actual: {complaint.actual}")
    return "\n".join(line for line in lines if line)


def _text(text: str) -> str:
    """The text as XML can hold it."""
    return _FORBIDDEN.sub("\ufffd", visible(text))
