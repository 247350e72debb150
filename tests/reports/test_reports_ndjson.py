"""Progress as NDJSON: events as they are kept, ticks now and then."""

import json
from dataclasses import replace

from burnish.reports.progress import NdjsonView
from tests.reports.records import event
from tests.reports.test_reports_live import tick


def test_an_event_is_one_line_of_json() -> None:
    lines: list[str] = []
    NdjsonView(lines.append).event(event("warning", message="line\nbreak ✓"))
    assert len(lines[0].splitlines()) == 1
    assert json.loads(lines[0])["data"] == {"message": "line\nbreak ✓"}


def test_ticks_are_few_but_the_last_is_there() -> None:
    lines: list[str] = []
    view = NdjsonView(lines.append)
    for done in range(1, 13):
        view.tick(replace(tick(), done=done))
    told = [json.loads(line) for line in lines]
    assert {one["kind"] for one in told} == {"tick"}
    assert told[-1]["data"]["done"] == told[-1]["data"]["total"] == 12
    assert len(told) < 12
    assert told[-1]["data"]["spent"]["calls"] == 25
