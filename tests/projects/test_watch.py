"""A watch: each trace judged once, alarms about falls, failures as proposals."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.cli.watch_checks import report_of_watch
from burnish.core.control_chart import ChartDesign
from burnish.core.errors import ConfigError
from burnish.datasets.formats import read_cases
from burnish.models.factory import Models
from burnish.projects.watch import Watch, WatchOptions
from burnish.system.personal_data import DataRedactor
from burnish.system.redaction import Redactor
from burnish.testing.doubles import ScriptedBackend


@pytest.fixture
def options(tmp_path: Path) -> WatchOptions:
    """Answers are good if they say thanks."""
    grader = "def thanks(ctx):\n    return 'thanks' in ctx.agent_response\n"
    (tmp_path / "polite.py").write_text(grader, encoding="utf-8")
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("- {type: code, grader: 'polite:thanks'}\n", encoding="utf-8")
    return WatchOptions(
        log=tmp_path / "log.jsonl",
        project=metrics,
        redactor=DataRedactor(secrets=Redactor.from_environment({})),
        folder=tmp_path / "watched",
        sample=40,
        design=ChartDesign(baseline=40, shift=0.3, period=80, histories=100),
    )


def add(options: WatchOptions, first: int, count: int, *, bad_every: int) -> None:
    """Log some answers, one in `bad_every` of them bad."""
    with options.log.open("a", encoding="utf-8") as file:
        for n in range(first, first + count):
            said = "no" if n % bad_every == 0 else "thanks"
            row = {"id": f"t{n}", "time": f"{n:04}", "input": f"question {n}", "output": said}
            file.write(json.dumps(row) + "\n")


def test_a_fall_raises_an_alarm_and_failures_become_proposals(options: WatchOptions) -> None:
    add(options, 0, 40, bad_every=10)
    first = Watch(options=options).check()
    assert first.check is not None
    assert (len(first.check.judged), first.check.alarm, first.proposed) == (40, "", 4)
    add(options, 40, 40, bad_every=1)
    state = Watch(options=options).check()
    assert state.check is not None
    assert [each.case for each in state.check.judged] == [f"t{n}" for n in range(40, 80)]
    assert state.check.alarm.startswith("the pass rate has fallen: 0.0")
    proposals = read_cases(options.home / "proposals.jsonl").cases
    assert len(proposals) == 44
    assert all(case.recorded is None for case in proposals)
    assert "watch" in json.dumps(proposals[0].extras["source"])
    text = report_of_watch(state).write(options.home).read_text(encoding="utf-8")
    assert "Alarm in check 2: the pass rate has fallen" in text


def test_no_trace_is_judged_twice(options: WatchOptions) -> None:
    add(options, 0, 50, bad_every=10)
    first = Watch(options=options).check()
    again = Watch(options=options).check()
    assert again.check is None  # the ten that were not in the sample were seen too
    assert again.checks == first.checks


def test_another_sample_size_is_refused(options: WatchOptions) -> None:
    add(options, 0, 40, bad_every=10)
    Watch(options=options).check()
    add(options, 40, 5, bad_every=10)
    with pytest.raises(ConfigError, match="another sample"):
        Watch(options=replace(options, sample=3)).check()
    assert Watch(options=options).check().check is not None


def test_a_search_that_starts_by_itself_needs_a_limit(options: WatchOptions) -> None:
    add(options, 0, 5, bad_every=10)
    with pytest.raises(ConfigError, match="needs a limit"):
        Watch(options=replace(options, optimize=True)).check()


def test_a_judge_must_be_checked_first(options: WatchOptions, tmp_path: Path) -> None:
    add(options, 0, 5, bad_every=10)
    judged = tmp_path / "judged.yaml"
    judged.write_text("- {type: geval, name: Kind, criteria: kind, threshold: 0.5}\n", "utf-8")
    unchecked = replace(options, project=judged, judge="openai:judge")
    backend = ScriptedBackend(respond=lambda request, draw: "{}")
    with pytest.raises(ConfigError, match="--unchecked-judge"):
        Watch(options=unchecked, models=Models(backends={"openai": backend})).check()
    assert backend.asked == []
