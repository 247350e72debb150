"""Plug-ins: found by name, loaded alone, and replaced by plain words where they are gone."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.formatting import Code, Diff, Facts, Heading, Listing, Series, Space, Table, Text
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.reports.rendering import to_markdown
from burnish.reports.terminal import show
from burnish.runs.events import EventData, SessionBegun, TrialRecorded
from burnish.runs.plugins import (
    StrategyPlugin,
    TargetPlugin,
    proposing_plugins,
    strategy_names,
    strategy_plugin,
    target_plugin,
)
from tests.reports.records import baseline, event, record, tried

PAGES = {"delegate": "RUN_SUMMARY.md", "refine": "REFINEMENT.md"}
SHARED = (
    *("measure", "partial_evaluations", "parts", "text_units"),
    *("races", "requirements", "trail"),
)
"""Modules beside the strategies that are no searches."""
STRATEGIES = ("auto", "backprop", "coordinate", "edits", "epochs", "frugal", "reflective")


@pytest.mark.parametrize("name", [*STRATEGIES, "delegate", "measure", "refine"])
def test_ours_are_found_by_their_names(name: str) -> None:
    plugin = strategy_plugin(name)
    assert plugin.name == name
    assert type(plugin) is not StrategyPlugin


def test_who_offers_proposers_is_known_without_loading_the_others() -> None:
    plugins = {name: strategy_plugin(name) for name in strategy_names()}
    offering = {
        name
        for name, each in plugins.items()
        if type(each).proposers is not StrategyPlugin.proposers
    }
    assert {each.name: type(each) for each in proposing_plugins()} == {
        name: type(plugins[name]) for name in offering
    }
    program = (
        "import sys; from burnish.runs.plugins import proposing_plugins; proposing_plugins(); "
        "print([name for name in sys.modules if name.startswith('burnish.delegation')])"
    )
    came = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert came.stdout.split() == [b"[]"]


@pytest.mark.parametrize("name", ["delegate", "refine"])
def test_a_strategy_with_a_command_of_its_own_is_not_one_for_files(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.yaml"
    file.write_text(f"kind: prompts\nstrategy: {name}\n")
    with pytest.raises(ConfigError) as refused:
        describe(Document.read(file), {})
    (problem,) = refused.value.problems
    assert problem.message == f"'{name}' needs a task to do, but a file of kind 'prompts' has none"
    offered = problem.remedy.partition("there are: ")[2].split(", ")
    assert "reflective" in offered
    assert name not in offered


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_the_report_of_a_task_is_how_it_stands_and_the_page_it_wrote(
    name: str, page: str, tmp_path: Path
) -> None:
    run = record(baseline(), tried(1, accepted=True))
    run = replace(run, folder=tmp_path)
    plugin = strategy_plugin(name)
    bare = to_markdown(plugin.report(run))
    assert bare.startswith("# run-1\n\n| | |\n|---|---|\n| status | ")
    assert bare.count("\n#") == 0
    written = "# What was done\n\n- a *point*\n"
    (tmp_path / page).write_text(written)
    assert to_markdown(plugin.report(run)) == f"{bare}\n{written}"


def test_a_run_whose_plugin_is_gone_still_has_a_report() -> None:
    assert type(strategy_plugin("gone")) is StrategyPlugin
    assert type(target_plugin("gone")) is TargetPlugin
    page = to_markdown(strategy_plugin("gone").report(record(baseline(), tried(1, accepted=True))))
    assert page.startswith("# run-1\n")
    assert "## Every trial" in page


@pytest.mark.slow
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
    assert {*loaded.stdout.split()} <= {name, *SHARED}


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
