"""A watch: each trace judged once, alarms about falls, failures as proposals."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.measurement_series import report_of_watch
from burnish.core.errors import ConfigError
from burnish.core.money import NOTHING, Spend
from burnish.core.statistics import ChartDesign
from burnish.datasets.formats import read_cases
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelUnavailable
from burnish.projects.watch import Watch, WatchOptions, WatchState
from burnish.runs.events import Event, Tick, TrialRecorded
from burnish.system.redaction import DataRedactor, Redactor
from burnish.testing.doubles import ScriptedBackend
from tests.example_copies import copy_example
from tests.projects.prompts.prompt_world import models, reflector


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


# -- What an alarm starts --------------------------------------------------------------------------


NEW_RULES = '- "voucher" goes to billing\n- "assembly" goes to repairs\n'


class Killed(BaseException):
    """The process ends here."""


class KilledAfter:
    """A listener that ends the process with a trial."""

    def __init__(self, trial: int) -> None:
        self._trial = trial

    def event(self, event: Event) -> None:
        trial = event.read(TrialRecorded)
        if trial is not None and trial.trial == self._trial:
            raise Killed

    def tick(self, tick: Tick) -> None: ...


@dataclass
class Desk:
    """The example: an agent in production, about which something new is asked in week 2."""

    home: Path
    backend: ScriptedBackend
    options: WatchOptions

    @property
    def prompt(self) -> str:
        return (self.home / "prompt.md").read_text(encoding="utf-8")

    def log(self, week: int) -> None:
        """A week of traffic."""
        traffic = [sys.executable, "traffic.py", str(week)]
        rows = subprocess.run(traffic, cwd=self.home, check=True, capture_output=True).stdout
        with self.options.log.open("ab") as file:
            file.write(rows)

    def watch(self, **changes: Any) -> Watch:
        return Watch(options=replace(self.options, **changes), models=models(self.backend))

    def fallen(self) -> WatchState:
        """The state after the alarm of week 2."""
        for week in (1, 2):
            self.log(week)
            state = self.watch().check()
        assert state.check is not None
        assert state.check.alarm
        return state


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in ("EXAMPLE_MODEL", "EXAMPLE_BASE_URL", "EXAMPLE_API_KEY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9" if "URL" in name else "none")
    monkeypatch.setenv("BURNISH_HTML", "never")
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    home = copy_example("watch", tmp_path / "watch")
    options = WatchOptions(
        log=tmp_path / "log.jsonl",
        project=home / "desk.yaml",
        redactor=DataRedactor(secrets=Redactor.from_environment({})),
        folder=tmp_path / "watched",
        sample=60,
        design=ChartDesign(baseline=60, shift=0.2, period=100, histories=100),
        optimize=True,
        max_calls=300,
    )
    better = (home / "prompt.md").read_text(encoding="utf-8") + NEW_RULES
    return Desk(home=home, backend=reflector(better), options=options)


@pytest.mark.slow
def test_an_alarm_starts_one_search_within_the_limits_that_adopts_nothing(desk: Desk) -> None:
    before, state = desk.prompt, desk.fallen()
    assert state.searches == ()
    found = desk.watch().search(state)
    (search,) = found.searches
    assert (search.status, search.verdict, search.has_result) == ("finished", "improved", True)
    assert desk.prompt == before
    assert 0 < found.spent.calls <= 300
    assert found.spent == search.spent + sum((c.spent for c in found.checks), NOTHING)
    assert "improved" in "".join(report_of_watch(found).searches.values())
    asked = len(desk.backend.asked)
    later = desk.watch().check()  # nothing new was logged
    assert desk.watch().search(later).searches == found.searches
    assert len(desk.backend.asked) == asked


@pytest.mark.slow
def test_a_killed_search_goes_on_and_pays_for_nothing_twice(desk: Desk, tmp_path: Path) -> None:
    state = desk.fallen()
    shutil.copytree(desk.options.home, tmp_path / "undisturbed")
    whole = desk.watch(folder=tmp_path / "undisturbed")
    (undisturbed,) = whole.search(whole.check()).searches
    paid = len(desk.backend.asked)
    with pytest.raises(Killed):
        desk.watch().search(state, [KilledAfter(1)])
    resumed = desk.watch().check()
    assert resumed.check is None
    assert [each.status for each in resumed.searches] == ["killed"]
    (search,) = desk.watch().search(resumed).searches
    assert (search.status, search.spent) == ("finished", undisturbed.spent)
    assert len(desk.backend.asked) == 2 * paid


def test_without_anything_left_the_alarm_is_told_and_nothing_is_searched(desk: Desk) -> None:
    state = desk.fallen()
    spent = replace(state.checks[0], spent=Spend(calls=300))
    searched = desk.watch().search(replace(state, checks=(spent, *state.checks[1:])))
    assert searched.not_searched == "the limits of the watch are used up"
    assert (searched.searches, desk.backend.asked) == ((), [])


def test_a_new_baseline_begins_the_chart_anew(desk: Desk) -> None:
    desk.fallen()
    desk.log(3)
    state = desk.watch(new_baseline=True).check()
    assert state.check is not None
    assert (state.check.alarm, state.reading.scores) == ("", 60)
    assert desk.watch().search(state).searches == ()  # the alarm was about another agent
    desk.log(4)
    again = desk.watch().check()
    assert (again.reading.scores, again.reading.alarms) == (120, ())


# -- What could not be judged ----------------------------------------------------------------------


def test_a_judge_that_does_not_answer_leaves_a_check_without_verdicts(
    options: WatchOptions, tmp_path: Path
) -> None:
    add(options, 0, 5, bad_every=10)
    judged = tmp_path / "judged.yaml"
    judged.write_text("- {type: geval, name: Kind, criteria: kind, threshold: 0.5}\n", "utf-8")
    unchecked = replace(options, project=judged, judge="openai:judge")

    def down(request: ChatRequest, draw: int) -> str:
        raise ModelUnavailable("overloaded")

    watch = Watch(options=unchecked, models=models(ScriptedBackend(respond=down)))
    state = watch.check()
    assert state.check is not None
    assert (state.check.missing, state.check.values, state.proposed) == (5, (), 0)
    assert watch.check().check is None


def test_a_metric_without_a_verdict_is_said_and_can_be_charted(options: WatchOptions) -> None:
    add(options, 0, 5, bad_every=10)
    options.project.with_name("polite.py").write_text("def thanks(ctx):\n    return 0.7\n", "utf-8")
    with pytest.raises(ConfigError, match="--chart METRIC"):
        Watch(options=options).check()
    state = Watch(options=replace(options, charted="thanks")).check()
    assert state.check is not None
    assert state.check.values == (0.7,) * 5
