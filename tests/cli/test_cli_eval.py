"""`burnish eval`: exit codes, what stands where, reports, comparisons, interruption."""

import json
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.console import Burnish, Said, finish, forked
from tests.cli.terminal import Screen, on_terminal

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EQUALITY = "- {type: standard, metric: equality}\n"
CHILD = "from tests.cli.eval_child import main; main()"


def recorded(name: str, reply: str, expected: str | None = "yes") -> dict[str, Any]:
    return {
        "name": name,
        "input": f"{name}?",
        "expected": expected,
        "recorded": {"replies": [reply]},
    }


def lost(name: str, kind: str) -> dict[str, Any]:
    failure = {"kind": kind, "message": f"{kind} trouble"}
    return {**recorded(name, ""), "recorded": {"failure": failure}}


GOOD, BAD = recorded("good", "yes"), recorded("bad", "no")
AWAY, CRASH = lost("away", "infrastructure"), lost("crash", "agent")


@pytest.fixture(autouse=True)
def metrics(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.yaml"
    path.write_text(EQUALITY, encoding="utf-8")
    return path


def write(tmp_path: Path, *rows: Mapping[str, Any], name: str = "cases.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def measured(burnish: Burnish, tmp_path: Path, *rows: Mapping[str, Any]) -> Said:
    cases = write(tmp_path, *rows)
    return burnish("eval", str(cases), "--metrics", "metrics.yaml", "--progress", "none")


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        ([GOOD], 0, "passed: the one case with a verdict passes"),
        ([GOOD, {**GOOD, "name": "also"}], 0, "passed: all 2 cases pass"),
        ([GOOD, BAD], 1, "failed: 1 of 2 cases fails"),
        ([GOOD, CRASH], 1, "failed: 1 of 2 cases fails"),
        ([GOOD, AWAY], 1, "cannot tell: 1 case is missing, the other one passes"),
        ([BAD, AWAY], 1, "failed: 1 of 2 cases fails, and 1 case is missing"),
        ([GOOD, recorded("free", "x", None)], 0, "on 1 case no metric gives a verdict"),
        ([recorded("free", "x", None)], 1, "cannot tell: no metric gives a verdict on any case"),
    ],
)
def test_exit_codes_of_verdicts(
    burnish: Burnish, tmp_path: Path, rows: list[dict[str, Any]], code: int, words: str
) -> None:
    if len(rows) == 2 and rows[1]["name"] == "also":
        rows = [rows[0], {**rows[1], "input": "also?"}]
    said = measured(burnish, tmp_path, *rows)
    assert (said.code, said.err) == (code, "")
    assert words in said.lines[-1]


@pytest.mark.parametrize(
    ("expected", "tools", "code", "words"),
    [
        ({"expected_calls": []}, [{"name": "search"}], 1, "expected no tool call"),
        ({"expected_calls": []}, [], 0, "passed: the one case with a verdict passes"),
        ({}, [{"name": "search"}], 1, "cannot tell: no metric gives a verdict on any case"),
    ],
)
def test_an_empty_list_of_calls_means_no_call(
    burnish: Burnish,
    tmp_path: Path,
    expected: dict[str, Any],
    tools: list[dict[str, Any]],
    code: int,
    words: str,
) -> None:
    metric = "- {metric_name: tool_trajectory_avg_score, threshold: 1.0}\n"
    (tmp_path / "metrics.yaml").write_text(metric, encoding="utf-8")
    trace = {"steps": [{"id": "s", "node": "agent", "tools": tools}]}
    row = {"name": "a", "input": "a?", "recorded": {"replies": ["yes"], "trace": trace}}
    said = measured(burnish, tmp_path, {**row, **expected})
    assert (said.code, said.err) == (code, "")
    assert words in said.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing.jsonl"], "nothing.jsonl"),
        (["cases.jsonl", "--metric", "no_such"], "no such metric"),
        (["cases.jsonl", "--repeats", "0"], "--repeats: expected at least 1, found 0"),
        (["cases.jsonl", "--repeats", "many"], "Invalid value for '--repeats'"),
        (["cases.jsonl", "--aa", "1"], "--aa: must be 2 or more"),
        (["cases.jsonl", "--aa", "2", "--repeats", "2"], "do not go together"),
        (["cases.jsonl", "--concurrency", "0"], "--concurrency"),
        (["cases.jsonl", "--max-usd", "-1"], "--max-usd"),
        (["cases.jsonl", "--json", "no/such/folder.json"], "there is no folder no/such"),
        (["cases.jsonl", "--junit", "."], ". is a folder"),
        (["cases.jsonl", "-o", "."], "already exists"),
        (["cases.jsonl", "--baseline", "nobody"], "no file 'nobody', and there is no run 'nobody'"),
        (["cases.jsonl", "--baseline", "metrics.yaml"], "not a report of `burnish eval`"),
        (["cases.jsonl", "--resume", "nobody"], "there is no run 'nobody'"),
        (["cases.jsonl", "--progress", "loud"], "'loud' is not one of"),
        (["cases.jsonl", "--cases", "cases.jsonl"], "--cases has no effect"),
        (["bare.jsonl"], "have no recorded reply"),
        (["cases.jsonl", "--bogus"], "--bogus"),
        ([], "AGENT"),
    ],
)
@pytest.mark.parametrize("command", [("eval",), ("test", "run")], ids=" ".join)
def test_configuration_errors_are_one_message_and_code_three(
    burnish: Burnish, tmp_path: Path, command: tuple[str, ...], args: list[str], words: str
) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, {"name": "a", "input": "a?"}, name="bare.jsonl")
    said = burnish(*command, *args, "--metrics", "metrics.yaml")
    assert said.code == 3, said
    assert said.err.startswith("error: ")
    assert words in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert not list(tmp_path.glob("results/eval/*"))


@pytest.mark.parametrize("command", [("eval",), ("test",), ("test", "run")], ids=" ".join)
def test_help_fits_eighty_columns(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = burnish(*command, "--help")
    assert said.code == 0
    assert max(map(len, said.lines)) <= 80


def test_metrics_beside_the_cases_are_found(burnish: Burnish, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    said = burnish("eval", "cases.jsonl")
    assert said.code == 3
    assert "put test_config.json beside the cases" in said.err
    config = {"metrics": [{"metric_name": "final_response_avg_score", "threshold": 1}]}
    (tmp_path / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
    said = burnish("eval", "cases.jsonl")
    assert said.code == 0, said
    assert said.lines[0] == "recorded · 1 case"


def test_quiet_shows_only_totals(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD, BAD)
    said = burnish("eval", str(cases), "--metrics", "metrics.yaml", "-q")
    assert said.lines[0].split() == ["metric", "mean", "95", "%", "interval", "pass"]
    assert "bad" not in said.out
    assert "cases    1 passed, 1 failed, of 2" in said.lines


def test_json_on_stdout_is_pure_and_people_read_stderr(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD, BAD)
    said = burnish("eval", str(cases), "--metrics", "metrics.yaml", "--json", "-")
    assert said.code == 1
    found = said.json
    assert found["summary"]["average_scores"] == {"equality": 0.5}
    assert Path(found["about"]["folder"]).is_dir()
    assert found["about"]["source"] == str(cases)
    assert found["cases"][1]["tries"][0]["replies"] == ["no"]
    assert "recorded · 2 cases" in said.err
    assert "failed: 1 of 2 cases fails" in said.err


def test_formats_on_stdout(
    burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = recorded("a: b, 50%", "no")
    cases, job = str(write(tmp_path, GOOD, odd)), tmp_path / "job.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(job))
    words = ("eval", cases, "--metrics", "metrics.yaml", "--format")
    github = burnish(*words, "github")
    assert github.code == 1
    error, notice = github.lines
    assert error == "::error title=a%3A b%2C 50%25::equality: expected 'yes', found 'no'"
    assert notice.endswith("::1 of 2 cases pass")
    assert "1 of 2 cases fails" in job.read_text(encoding="utf-8")
    assert burnish(*words, "json").json["summary"]["passed"] == 1
    junit = ElementTree.fromstring(burnish(*words, "junit").out)
    assert junit.attrib["failures"] == "1"
    markdown = burnish(*words, "markdown")
    assert markdown.lines[0].endswith("failed: 1 of 2 cases fails")
    assert "1 passed, 1 failed" in markdown.err  # people read it there
    assert burnish(*words, "xml").code == 3
    both = burnish(*words, "json", "--json", "-")
    assert (both.code, "both print to stdout" in both.err) == (3, True)


def test_progress_as_json_leaves_stdout_to_events(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD)
    said = burnish("eval", str(cases), "--metrics", "metrics.yaml", "--progress", "json")
    kinds = [record["kind"] for record in said.records]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    assert "passed: " in said.err


def test_the_report_says_which_columns_were_taken(burnish: Burnish, tmp_path: Path) -> None:
    rows = [{"Message": f"where is my order {n}?", "Queue": "shipping"} for n in range(3)]
    (tmp_path / "agent_of_tickets.py").write_text("def call(query):\n    return 'shipping'\n")
    write(tmp_path, *rows, name="tickets.jsonl")
    target = "kind: python\nname: desk\ntarget: {call: agent_of_tickets:call}\n"
    files = "cases: tickets.jsonl\nmetrics_file: metrics.yaml\n"
    (tmp_path / "tickets.yaml").write_text(target + files, encoding="utf-8")
    said = burnish("eval", str(tmp_path / "tickets.yaml"), "--json", "-")
    assert said.code == 0
    assert said.json["about"]["columns"] == {"input": "Message", "expected": "Queue"}


def test_reports_for_programs(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD, BAD, AWAY)
    args = ("--metrics", "metrics.yaml", "-q", "--json", "now.json", "--junit", "now.xml")
    assert burnish("eval", str(cases), *args).code == 1
    found = json.loads(Path("now.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for row in found["cases"]] == ["pass", "fail", "missing"]
    root = ElementTree.parse("now.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")


def test_a_baseline_by_file_by_run_and_by_folder(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD, BAD)
    first = ("eval", str(cases), "--metrics", "metrics.yaml", "-q", "-o", "first")
    assert burnish(*first, "--json", "before.json").code == 1
    write(tmp_path, recorded("good", "no"), recorded("bad", "yes"), recorded("new", "yes"))
    for baseline in ("before.json", "first", str(tmp_path / "first")):
        again = ("eval", str(cases), "--metrics", "metrics.yaml", "--baseline", baseline)
        said = burnish(*again, "--json", "after.json")
        assert said.code == 1
        assert "since first" in said.lines
        assert "  1 new pass, 1 new fail, 1 only here" in said.lines
        assert "  new fail 1.00 → 0.00  good" in said.lines
        counts = json.loads(Path("after.json").read_text())["baseline"]["counts"]
        assert (counts["new pass"], counts["only here"], counts["up"]) == (1, 1, 0)


def test_a_baseline_does_not_change_the_exit_code(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD)
    args = ("eval", str(cases), "--metrics", "metrics.yaml", "-q")
    assert burnish(*args, "--json", "good.json").code == 0
    write(tmp_path, BAD)
    assert burnish(*args, "--json", "bad.json").code == 1
    assert burnish(*args, "--baseline", "good.json").code == 1
    write(tmp_path, GOOD)
    assert burnish(*args, "--baseline", "bad.json").code == 0


NAMES = [f"case {n}" for n in range(8)]


def test_only_a_regression_fails_the_gate(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, BAD, *(recorded(name, "yes") for name in NAMES))
    args = ("eval", str(cases), "--metrics", "metrics.yaml", "-q")
    assert burnish(*args, "--json", "before.json").code == 1
    gate = (*args, "--baseline", "before.json", "--fail-on", "regression")
    same = burnish(*gate)
    assert same.code == 0
    assert "since    no regression: nothing is worse beyond chance" in same.lines
    write(tmp_path, BAD, *(recorded(name, "no" if name == "case 0" else "yes") for name in NAMES))
    assert burnish(*gate).code == 0  # one of nine may be chance
    write(tmp_path, BAD, *(recorded(name, "no") for name in NAMES))
    worse = burnish(*gate)
    assert worse.code == 1
    assert "since    a regression: equality fell by 0.89" in worse.lines
    write(
        tmp_path,
        BAD,
        *(recorded(name, "yes") for name in NAMES[1:]),
        lost("case 0", "infrastructure"),
    )
    away = burnish(*gate)
    assert away.code == 1
    assert "since    cannot tell: 1 case missing" in away.lines


def test_a_measurement_of_errors_alone_does_not_get_through_the_gate(
    burnish: Burnish, tmp_path: Path
) -> None:
    cases = write(tmp_path, CRASH)
    args = ("eval", str(cases), "--metrics", "metrics.yaml", "-q")
    assert burnish(*args, "--json", "before.json").code == 1
    gate = (*args, "--baseline", "before.json", "--fail-on", "regression")
    assert burnish(*gate).code == 1


def test_other_cases_do_not_get_through_the_gate(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, *(recorded(name, "yes") for name in NAMES))
    args = ("eval", str(cases), "--metrics", "metrics.yaml", "-q")
    assert burnish(*args, "--json", "before.json").code == 0
    gate = (*args, "--baseline", "before.json", "--fail-on", "regression")
    write(tmp_path, *(recorded(name, "yes") for name in NAMES[2:]))
    fewer = burnish(*gate)
    assert fewer.code == 0
    assert any(line.endswith("; of its cases 2 are gone and 0 rewritten") for line in fewer.lines)
    write(tmp_path, GOOD)
    others = burnish(*gate)
    assert others.code == 1
    assert any("cannot tell: no case has a score on both sides" in line for line in others.lines)


def test_a_gate_for_regressions_needs_a_baseline(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD)
    said = burnish("eval", str(cases), "--metrics", "metrics.yaml", "--fail-on", "regression")
    assert said.code == 3
    assert "name it: --baseline REPORT" in said.err


def test_a_comment_on_a_pull_request(burnish: Burnish, tmp_path: Path) -> None:
    hostile = "@team | `x` ![](http://a/b)"
    cases = write(tmp_path, GOOD, recorded(hostile, "no"), recorded("worse", "yes"))
    args = ("eval", str(cases), "--metrics", "metrics.yaml", "-q")
    assert burnish(*args, "--json", "before.json", "--markdown", "alone.md").code == 1
    alone = Path("alone.md").read_text(encoding="utf-8").splitlines()
    assert alone[0] == "### `cases` failed: 1 of 3 cases fails"
    assert any(line.startswith("| `equality` | 0.67 | [") for line in alone)
    write(tmp_path, GOOD, recorded(hostile, "yes"), recorded("worse", "no"))
    assert burnish(*args, "--baseline", "before.json", "--markdown", "now.md").code == 1
    now = Path("now.md").read_text(encoding="utf-8").splitlines()
    assert "Fixed, 1 case: `@team \\| 'x' ![](http://a/b)`" in now
    assert "Broken, 1 case: `worse`" in now
    assert any("may be chance" in line for line in now)
    assert any(line.endswith(": no regression: nothing is worse beyond chance.") for line in now)
    assert now[-1].startswith("cases 2 passed, 1 failed, of 3 · ")
    assert "spent " in now[-1]


def test_the_noise_check(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD, BAD)
    said = burnish("eval", str(cases), "--metrics", "metrics.yaml", "--aa", "3", "-o", "aa")
    assert said.code == 1
    assert "noise: the same agent, 3 sweeps over the same cases" in said.lines
    assert "flaky: no case changes its verdict" in said.lines
    assert "! recorded replies do not vary" in said.out
    assert "--aa 3 --baseline aa" in said.out
    again = burnish("eval", str(cases), "--resume", "aa", "-q")
    assert "noise: the same agent, 3 sweeps over the same cases" in again.lines


def test_the_commands_it_prints_work(burnish: Burnish, tmp_path: Path) -> None:
    said = measured(burnish, tmp_path, GOOD, BAD)
    [following] = [line for line in said.lines if line.startswith("next ")]
    words = following.split()[1:]
    assert words[0] == "burnish"
    again = burnish(*words[1:])
    assert again.code == 1
    assert "  2 unchanged" in again.lines


def test_another_agent_cannot_go_on_with_a_run(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD)
    assert burnish("eval", str(cases), "--metrics", "metrics.yaml", "-o", "run", "-q").code == 0
    write(tmp_path, BAD)
    said = burnish("eval", str(cases), "--resume", "run")
    assert said.code == 3
    assert "was started with another data" in said.err
    assert "--fork in place of --resume" in said.err


def test_runs_resume_goes_on_with_a_measurement(burnish: Burnish, tmp_path: Path) -> None:
    cases = write(tmp_path, GOOD, BAD)
    first = burnish("eval", str(cases), "--metrics", "metrics.yaml", "-o", "run", "--aa", "2")
    again = burnish("runs", "resume", "run")
    assert (again.code, again.err) == (first.code, "") == (1, "")
    shown = [line for line in again.lines if not line.startswith(("going on", "latency"))]
    assert shown[-4:] == first.lines[-4:]
    assert "noise: the same agent, 2 sweeps over the same cases" in again.lines
    refused = burnish("runs", "resume", "run", "--patience", "2")
    assert "--patience: only a run that searches has this flag" in refused.err


def test_a_measurement_looks_like_one_later(burnish: Burnish, tmp_path: Path) -> None:
    said = measured(burnish, tmp_path, GOOD, BAD)
    [page] = [line.split()[1] for line in said.lines if line.startswith("report ")]
    run = Path(page).parent.name
    shown = burnish("runs", "show", run)
    assert "recorded · 2 cases" in shown.lines
    assert "loss" not in shown.out
    report = burnish("runs", "report", run)
    assert "**cases · 2 cases: failed: 1 of 2 cases fails**" in report.lines
    assert report.out == Path(page).read_text(encoding="utf-8")


def test_a_thousand_cases_through_the_command(burnish: Burnish, tmp_path: Path) -> None:
    rows = [recorded(f"case {n}", "yes" if n % 100 else "no") for n in range(1000)]
    said = measured(burnish, tmp_path, *rows)
    assert said.code == 1
    assert "  990 other cases not shown" in said.lines
    assert "passing  0.99 [0.98, 0.99]" in said.lines
    assert len(said.lines) < 80


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_nothing_wraps_and_nothing_is_left_over(tmp_path: Path, width: int) -> None:
    long = recorded("日本語の長い名前のケース" * 5, "no " * 400)
    cases = write(tmp_path, GOOD, BAD, CRASH, AWAY, long)
    args = ("eval", cases.name, "--metrics", "metrics.yaml", "-o", "run")
    code, written = on_terminal(*args, cwd=tmp_path, width=width)
    assert code == 1
    screen = Screen(width)
    screen.feed(written)
    assert [line for line in screen.wrapped if not line.startswith(("next", "report"))] == []
    lines = [line.rstrip() for line in screen.lines if line.strip()]
    assert lines[0] == "recorded · 5 cases"
    assert not any("measuring" in line or "no limit is set" in line for line in lines)
    assert lines[-1] == "failed: 3 of 5 cases fail, and 1 case is missing"


def slow(tmp_path: Path, seconds: str, *args: str) -> "subprocess.Popen[str]":
    return forked(seconds, *args, cwd=tmp_path, start=CHILD, PYTHONPATH=str(ROOT))


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.crash
def test_interrupted_it_exits_with_two_and_goes_on_without_paying_twice(tmp_path: Path) -> None:
    process = slow(tmp_path, "0.3")
    assert process.stdout is not None
    for line in process.stdout:
        if '"kind":"tick"' in line:
            break
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    said = finish(process)
    assert said.code == 2, said
    assert "Traceback" not in said.err
    command = said.err.strip().splitlines()[-1]
    assert command.startswith("go on    burnish eval agent.yaml --resume ")
    begun = calls(tmp_path)
    assert 0 < len(begun) < 12
    again = finish(slow(tmp_path, "0", "--resume", command.split()[-1]))
    assert again.code == 0, again
    assert "passed: all 12 cases pass" in again.err
    # Only what was in flight when it was stopped is begun again.
    repeated = len(calls(tmp_path)) - len(set(calls(tmp_path)))
    assert repeated <= 4
    assert len(set(calls(tmp_path))) == 12
    last = finish(slow(tmp_path, "0", "--resume", command.split()[-1]))
    assert last.code == 0
    assert len(calls(tmp_path)) == 12 + repeated


FAILING = """
async def call_agent(query: str) -> str:
    raise RuntimeError("the database is away")
"""
FAILING_FILE = """\
kind: prompts
target: {python: {call: "failing:call_agent", usd_per_call: 0}}
prompts: {rules: rules.md}
metrics: [{type: standard, metric: equality}]
"""


@pytest.mark.slow
def test_a_quiet_measurement_says_why_the_agent_crashed_and_claims_nothing(
    burnish: Burnish, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(FAILING, encoding="utf-8")
    (tmp_path / "rules.md").write_text("Be brief.", encoding="utf-8")
    (tmp_path / "agent.yaml").write_text(FAILING_FILE, encoding="utf-8")
    (tmp_path / "cases.csv").write_text("input,expected\nIs it?,yes\n", encoding="utf-8")
    for name in ("one", "two"):
        said = burnish("eval", "agent.yaml", "--cases", "cases.csv", "-q", "-o", name)
        assert said.code == 1, said
        assert "the database is away" in said.out
    compared = burnish("runs", "compare", "one", "two").out
    assert "spent" in compared
    assert "claim" not in compared
