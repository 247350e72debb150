"""`burnish watch` from files, as a user starts it: again and again, killed, and with bad input."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.cli.measurement_series import run_watch
from burnish.core.errors import Interrupted
from burnish.core.statistics import ChartDesign
from burnish.datasets.formats import read_cases
from burnish.projects.watch import WatchOptions
from burnish.runs.directory import look_into
from burnish.system.redaction import DataRedactor, Redactor
from tests.cli.console import Burnish, finish, forked, refused, until

pytestmark = pytest.mark.slow

GRADER = """
import time
from pathlib import Path

def thanks(ctx):
    return "thanks" in ctx.agent_response

def held(ctx):
    asked = ctx.turn_input
    while asked == "question 7" and not Path("go").exists():
        Path("stuck").touch()
        time.sleep(0.01)
    with Path("judged.txt").open("a") as file:
        file.write(asked + "\\n")
    return True
"""
ONCE = ("--once", "--sample", "40", "--baseline", "40", "--shift", "0.3", "--period", "80")
WATCH = ("watch", "log.jsonl", "--project", "metrics.yaml", "-o", "watched", *ONCE)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Metrics that need no model, and a log in which one answer in ten is bad."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BURNISH_HTML", "never")
    Path("watched_grader.py").write_text(GRADER, encoding="utf-8")
    for file, name in (("metrics.yaml", "thanks"), ("held.yaml", "held")):
        grader = f"- {{type: code, grader: 'watched_grader:{name}'}}\n"
        Path(file).write_text(grader, encoding="utf-8")
    add(0, 40, bad_every=10)


def add(first: int, count: int, *, bad_every: int) -> None:
    rows = [
        {"id": f"t{n}", "input": f"question {n}", "output": "thanks" if n % bad_every else "no"}
        for n in range(first, first + count)
    ]
    with Path("log.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def test_noise_is_no_alarm_and_a_fall_is_one(burnish: Burnish) -> None:
    first = burnish(*WATCH)
    assert first.code == 0
    assert first.lines[0] == "check 1  40 new traces, 40 judged, mean 0.90"
    assert "5% of all periods of 80 judged traces raise an alarm" in first.out
    add(40, 40, bad_every=8)  # a little worse
    noise = burnish(*WATCH)
    assert (noise.code, noise.lines[1][:18]) == (0, "chart    No alarm:")
    add(80, 40, bad_every=2)
    fall = burnish(*WATCH)
    assert fall.code == 4
    assert "ALARM    the pass rate has fallen" in fall.out
    assert len(read_cases(Path("watched/proposals.jsonl")).cases) == 4 + 5 + 20
    assert "Alarm in check 3" in Path("watched/report.md").read_text(encoding="utf-8")
    again = burnish(*WATCH)
    assert again.code == 0
    assert again.lines[0] == "nothing  no new traces in log.jsonl"
    assert "Alarm in check 3" in again.lines[1]


def test_a_killed_check_is_finished_and_no_trace_is_judged_again(burnish: Burnish) -> None:
    command = [each.replace("metrics", "held") for each in WATCH]
    process = forked(*command, cwd=Path.cwd())
    run = Path("watched/checks/0001/run")
    until(lambda: Path("stuck").exists() and _scored(run) == 39)
    process.kill()
    finish(process)
    judged = Path("judged.txt").read_text(encoding="utf-8").splitlines()
    add(40, 5, bad_every=10)  # logged meanwhile: for the next check
    Path("go").touch()
    ended = burnish(*command)
    assert ended.lines[0] == "check 1  40 new traces, 40 judged, mean 1.00"
    after = Path("judged.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(after) == sorted(f"question {n}" for n in range(40))
    assert after[: len(judged)] == judged
    assert burnish(*command).lines[0] == "check 2  5 new traces, 5 judged, mean 1.00"


def _scored(run: Path) -> int:
    with look_into(run) as journal:
        return sum(row.kind == "score" and row.state == "done" for row in journal.effects())


def test_every_goes_on_until_ctrl_c(tmp_path: Path) -> None:
    process = forked(*(each for each in WATCH if each != "--once"), "--every", "1h", cwd=tmp_path)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any(line.startswith("next check in 1h") for line in lines)
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.code == 2
    assert "the same command continues it" in ended.err


def test_a_new_baseline_waits_for_the_first_check_of_a_schedule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = WatchOptions(
        log=tmp_path / "log.jsonl",
        project=tmp_path / "metrics.yaml",
        redactor=DataRedactor(secrets=Redactor.from_environment({})),
        folder=tmp_path / "watched",
        sample=40,
        design=ChartDesign(baseline=20, shift=0.3, period=80, histories=50),
    )
    rounds: list[float] = []

    def wait(seconds: float) -> bool:
        """The log is the same in the second round, rotated in the third, new in the fourth."""
        rounds.append(seconds)
        if len(rounds) == 2:
            options.log.write_text("", encoding="utf-8")
        if len(rounds) == 3:
            add(40, 30, bad_every=2)
        return len(rounds) == 5

    run_watch(options, seconds=60, progress="lines", wait=lambda _: True)
    with pytest.raises(Interrupted):
        run_watch(options, seconds=60, progress="lines", wait=_ctrl_c)
    capsys.readouterr()
    run_watch(replace(options, new_baseline=True), seconds=60, progress="lines", wait=wait)
    said = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("nothing") for line in said) == 4
    assert "check 2  30 new traces, 30 judged, mean 0.50" in said
    assert not any(line.startswith("ALARM") for line in said)  # half is what is usual now


def _ctrl_c(seconds: float) -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--once", "--every", "1h"), "either --once or --every"),
        ((), "either --once or --every"),
        (("--every", "soon"), "'soon' is not a duration"),
        (("--every", "0m"), "at least a minute"),
        (("--once", "--field", "input=nosuch"), "this trace has no question"),
        (("--once", "--field", "nosuch=input"), "the parts are"),
        (("--once", "--from", "prometheus"), "unknown format"),
        (("--once", "--chart", "speed"), "no metric is called 'speed'"),
        (("--once", "--metric", "speed"), "speed"),
        (("--once", "--optimize"), "needs a limit"),
        (("--once", "--optimize", "--max-calls", "5"), "metrics.yaml"),
        (("--once", "--project", "none.yaml"), "none.yaml"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    judged = "- {type: geval, name: Kind, criteria: kind, threshold: 0.5}\n"
    Path("judged.yaml").write_text(judged, encoding="utf-8")
    project = () if "--project" in arguments else ("--project", "metrics.yaml")
    refused(burnish("watch", "log.jsonl", *project, "-o", "watched", *arguments), words)
    assert not Path("watched/watch.json").exists()  # put right, the same folder can be used


@pytest.mark.parametrize("text", ["", "not json\n", None])
def test_a_first_look_at_no_log_is_refused(burnish: Burnish, text: str | None) -> None:
    Path("log.jsonl").unlink()
    if text is not None:
        Path("log.jsonl").write_text(text, encoding="utf-8")
    refused(burnish(*WATCH), "log.jsonl")


def test_an_emptied_log_is_no_error_later(burnish: Burnish) -> None:
    burnish(*WATCH)
    Path("log.jsonl").write_text("", encoding="utf-8")
    rotated = burnish(*WATCH, "--new-baseline")
    assert rotated.code == 0
    assert rotated.lines[0] == "nothing  no new traces in log.jsonl"
    assert "give --new-baseline again" in rotated.lines[1]
    add(30, 20, bad_every=10)  # ten of them were seen before the log was rotated
    assert burnish(*WATCH).lines[0] == "check 2  10 new traces, 10 judged, mean 0.90"
