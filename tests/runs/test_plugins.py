"""Plug-ins: found by name, loaded alone, and replaced by plain words where they are gone."""

import subprocess
import sys

import pytest

from burnish.core.sections import Code, Diff, Facts, Heading, Listing, Series, Space, Table, Text
from burnish.reports.markdown import to_markdown
from burnish.reports.terminal import show
from burnish.runs.events import EventData, SessionBegun, TrialRecorded
from burnish.runs.plugins import StrategyPlugin, TargetPlugin, strategy_plugin, target_plugin
from tests.reports.records import baseline, event, record, tried

STRATEGIES = ("backprop", "coordinate", "edits", "epochs", "reflective")


@pytest.mark.parametrize("name", [*STRATEGIES, "measure"])
def test_ours_are_found_by_their_names(name: str) -> None:
    plugin = strategy_plugin(name)
    assert plugin.name == name
    assert type(plugin) is not StrategyPlugin


def test_a_run_whose_plugin_is_gone_still_has_a_report() -> None:
    assert type(strategy_plugin("gone")) is StrategyPlugin
    assert type(target_plugin("gone")) is TargetPlugin
    page = to_markdown(strategy_plugin("gone").report(record(baseline(), tried(1, accepted=True))))
    assert page.startswith("# run-1\n")
    assert "## Every trial" in page


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_plugin_loads_no_other_strategy(name: str) -> None:
    program = (
        "import sys\n"
        "from burnish.runs.plugins import strategy_plugin\n"
        f"strategy_plugin({name!r})\n"
        "print(*{m.split('.')[2] for m in sys.modules if m.startswith('burnish.strategies.')})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == [name]


SECTIONS = (
    Heading("A run", level=1),
    Text.of("**Good**: `x`", "on two lines"),
    Facts((("status", "finished"),)),
    Table(("", "loss"), (("train", "0.5"),)),
    Listing(("one", "two\nlines"), lead="Points"),
    Diff(("-old", "+new ```")),
    Series({"train": (0.5, None)}, ("train ▁",)),
    Space(),
    Heading("Next"),
    Code(("$ burnish",), "console"),
)


def test_sections_as_markdown() -> None:
    assert to_markdown(SECTIONS) == (
        "# A run\n\n**Good**: `x`\non two lines\n\n| | |\n|---|---|\n| status | finished |\n\n"
        "| | loss |\n|---|---|\n| train | 0.5 |\n\nPoints\n- one\n- two\n  lines\n\n"
        "````diff\n-old\n+new ```\n````\n\n```\ntrain ▁\n```\n\n\n## Next\n\n"
        "```console\n$ burnish\n```\n"
    )


def test_the_same_sections_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(SECTIONS)
    words = capsys.readouterr().out.split()
    assert words == [
        *("A", "run", "Good:", "x", "on", "two", "lines", "status", "finished", "loss"),
        *("train", "0.5", "Points", "-", "one", "-", "two", "lines", "-old", "+new", "```"),
        *("train", "▁", "Next", "$", "burnish"),
    ]


def test_an_event_says_what_its_kind_says_and_nothing_else() -> None:
    begun = event("run_resumed", strategy="climb", trials_recorded=3, unheard_of=True)
    assert begun.read(TrialRecorded) is None
    data = begun.read(SessionBegun)
    assert data is not None
    assert (data.strategy, data.trials_recorded) == ("climb", 3)
    trial = TrialRecorded(trial=2, phase="words").to_json()
    assert trial["train"] is None
    assert "parent_train" not in trial, "left out where a strategy has none"
    assert EventData().to_json() == {}
