"""`burnish optimize`: exit codes, precedence, dry runs, forks, the stop file, locks."""

import json
from pathlib import Path

import pytest

from burnish.models.chat import ChatRequest
from burnish.runs.directory import RunRecord
from burnish.system import FileLock
from burnish.testing.doubles import ScriptedBackend, story
from burnish.testing.toy import INSTRUCTIONS, RULES
from tests.cli.console import SMALL, Burnish, refused
from tests.projects.optimizer_world import written_for
from tests.projects.prompts import prompt_world

pytestmark = pytest.mark.slow


def calls(toy: Path) -> int:
    """How many calls the scripted agent and proposer really got."""
    path = toy.parent / "calls.txt"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def test_a_run_that_ends_says_where_everything_is(burnish: Burnish, toy: Path) -> None:
    said = burnish("optimize", str(toy))
    assert (said.code, said.err) == (0, "")
    ending = {line[:9].strip(): line[9:] for line in said.lines[-6:]}
    assert list(ending) == ["loss", "stopped", "spent", "report", "best", "next"]
    assert (toy.parent / ending["report"]).is_file()
    assert (toy.parent / ending["best"] / "candidate.json").is_file()
    assert burnish(*ending["next"].split()[1:]).code == 0
    assert ending["spent"].startswith(f"{calls(toy)} calls · ")


def test_no_gain_is_a_success(burnish: Burnish, toy: Path) -> None:
    toy.write_text(SMALL + "budget: {max_trials: 1}\nseed: 1\n", encoding="utf-8")
    toy.write_text(toy.read_text().replace("cycles: 1", "cycles: 1, accept_sigma: 1000"))
    said = burnish("optimize", str(toy), "-q", "-o", "r")
    assert said.code == 0
    assert "1 trial, 0 accepted" in said.out
    assert "no candidate was better" in burnish("runs", "report", "r").out


def test_a_run_that_could_not_even_measure_the_baseline(burnish: Burnish, toy: Path) -> None:
    toy.write_text(SMALL.replace("test: 4", "test: 0"), encoding="utf-8")
    said = burnish("optimize", str(toy), "-q", "-o", "r", "--max-calls", "1")
    assert (said.code, said.out) == (1, "")
    why = "max_calls: 0 of 1 calls spent, and the next step needs 36"
    assert f"the baseline could not be measured: {why}" in said.err
    assert calls(toy) == 0
    assert burnish("runs", "show", "r").code == 0
    assert "Nothing was measured yet." in burnish("runs", "report", "r").out


@pytest.mark.parametrize(
    ("flag", "in_file", "variable", "expected"),
    [
        (None, None, None, None),
        (None, None, "4", 4),
        (None, 3, "4", 3),
        (2, 3, "4", 2),
        (2, None, None, 2),
    ],
)
def test_flag_then_file_then_environment_then_default(
    burnish: Burnish,
    toy: Path,
    monkeypatch: pytest.MonkeyPatch,
    flag: int | None,
    in_file: int | None,
    variable: str | None,
    expected: int | None,
) -> None:
    if in_file is not None:
        toy.write_text(f"{SMALL}budget: {{max_trials: {in_file}}}\n", encoding="utf-8")
    if variable is not None:
        monkeypatch.setenv("BURNISH_MAX_TRIALS", variable)
    flags = [] if flag is None else ["--max-trials", str(flag)]
    told = burnish("optimize", str(toy), "--dry-run", *flags).out
    assert ("limits    none" if expected is None else f"max_trials {expected}") in told


def test_a_dry_run_pays_nothing_and_leaves_nothing(burnish: Burnish, toy: Path) -> None:
    before = sorted(toy.parent.iterdir())
    said = burnish("optimize", str(toy), "--dry-run", "--seed", "7")
    assert said.code == 0
    assert "strategy  climb, seed 7" in said.out
    assert "train     6 cases; once through: about 6 calls · 1,440 tokens · $0.0024" in said.out
    assert "reserved  about 16 calls" in said.out
    assert "nothing was paid" in said.out
    assert sorted(toy.parent.iterdir()) == before
    assert calls(toy) == 0


def test_a_fork_of_what_is_unchanged_pays_nothing(burnish: Burnish, finished: Path) -> None:
    toy = finished.parent / "toy.yaml"
    paid = calls(toy)
    assert burnish("optimize", str(toy), "-q", "--fork", "done", "-o", "again").code == 0
    assert calls(toy) == paid
    ours, theirs = (story(run / "trials.jsonl") for run in (finished, toy.parent / "again"))
    assert [row["trial"] for row in ours] == [row["trial"] for row in theirs]
    facts = burnish("runs", "show", "again", "--json").json
    assert facts["billed"]["calls"] == facts["spent"]["calls"] == 0
    told = burnish("runs", "report", "again").out
    assert "forked from `done`" in told
    assert "Sealed test, looked at before" in told


def test_retry_missing_asks_again_only_for_what_is_missing(burnish: Burnish, toy: Path) -> None:
    rough = SMALL.replace("test: 4", "test: 0, outage_rate: 0.2") + "wait_minutes: 0\n"
    toy.write_text(rough, encoding="utf-8")
    flags = ("-q", "--max-trials", "1")
    assert burnish("optimize", str(toy), *flags, "-o", "first").code == 0
    states = [row["state"] for row in burnish("runs", "show", "first", "--calls", "--json").records]
    missing, paid = states.count("missing"), calls(toy)
    assert missing
    burnish("optimize", str(toy), *flags, "--fork", "first", "-o", "kept")
    assert calls(toy) == paid
    burnish("optimize", str(toy), *flags, "--fork", "first", "--retry-missing", "-o", "retried")
    assert calls(toy) == paid + missing


def test_resume_goes_on_to_the_same_story(burnish: Burnish, stopped: Path) -> None:
    toy = stopped.parent / "toy.yaml"
    paid = calls(toy)
    assert burnish("optimize", str(toy), "-q", "-o", "whole").code == 0
    whole = calls(toy) - paid
    assert burnish("runs", "resume", "part", "-q", "--max-trials", "100").code == 0
    # The winner of the first part was measured again, too: two sweeps of 4 cases, twice each.
    assert calls(toy) == 2 * whole + 16
    assert story(stopped / "trials.jsonl") == story(stopped.parent / "whole" / "trials.jsonl")


def test_resume_keeps_the_limits_it_was_started_with(burnish: Burnish, stopped: Path) -> None:
    said = burnish("runs", "resume", "part", "-q")
    assert said.code == 0
    assert "max_trials: 2 of 2 trials" in said.out


def test_optimize_with_resume_goes_on_too(burnish: Burnish, stopped: Path) -> None:
    said = burnish("optimize", "toy.yaml", "--resume", "part", "--max-trials", "3")
    assert said.code == 0
    assert said.lines[1] == "continuing after 2 recorded trials; nothing is paid twice"
    assert "3 trials" in said.out


def test_a_run_whose_file_is_gone_goes_on_as_it_was_described(
    burnish: Burnish, stopped: Path
) -> None:
    (stopped.parent / "toy.yaml").unlink()
    said = burnish("runs", "resume", "part", "--max-trials", "3")
    assert "train 6, holdout 4" in said.out
    words = " ".join(said.out.split())
    assert "toy.yaml is not there any more: the run goes on with its stored description" in words


def test_resume_is_refused_with_flags_that_make_another_search(
    burnish: Burnish, stopped: Path
) -> None:
    refused(
        burnish("optimize", "toy.yaml", "--resume", "part", "--seed", "5"),
        "another seed",
        "--fork part",
    )


def test_a_finished_run_with_its_test_read_is_not_searched_on(
    burnish: Burnish, finished: Path
) -> None:
    refused(burnish("runs", "resume", "done"), "has read its sealed test", "--fork done")


def test_a_run_of_a_program_says_so(burnish: Burnish, stopped: Path) -> None:
    header = stopped / "run.json"
    data = json.loads(header.read_text())
    data["project"] = {"kind": "python", "file": "", "config": {}}
    header.write_text(json.dumps(data))
    refused(burnish("runs", "resume", "part"), "started from a Python program")


def test_two_processes_cannot_drive_one_run(burnish: Burnish, stopped: Path) -> None:
    with FileLock.acquire(stopped / "run.lock", holding="run part"):
        refused(burnish("runs", "resume", "part", "--max-trials", "9"), "part is in use", "kill")
        refused(burnish("runs", "rm", "part", "-y"), "in use by another process")
        assert burnish("runs", "show", "part", "--json").json["status"] == "running"
        assert burnish("runs", "list").lines[1].split()[3] == "running"
    assert stopped.exists()


def test_the_stop_file_ends_a_run_and_is_removed(burnish: Burnish, stopped: Path) -> None:
    (stopped / "optimize.stop").touch()
    said = burnish("runs", "resume", "part", "-q", "--max-trials", "9")
    assert said.code == 0
    assert "stopped  stop_file: " in said.out
    assert not (stopped / "optimize.stop").exists()
    again = burnish("runs", "resume", "part", "-q", "--max-trials", "9")
    assert "stopped  the strategy had nothing left to try" in again.out
    assert "6 trials" in again.out


def test_runs_in_two_places_under_one_name_are_told_apart(burnish: Burnish, toy: Path) -> None:
    for place in ("a", "b c"):
        said = burnish("optimize", str(toy), "-q", "-o", f"{place}/run", "--max-trials", "1")
        assert said.code == 0
    assert said.lines[-1] in (
        "next     burnish runs show run",
        "next     burnish runs show 'b c/run'",
    )
    assert burnish("runs", "show", "a/run", "--json").json["folder"].endswith("/a/run")


def test_a_fork_without_a_file_takes_what_the_run_was_started_with(
    burnish: Burnish, toy: Path
) -> None:
    toy.write_text(f"{SMALL}budget: {{max_trials: 1}}\n".replace("test: 4", "test: 0"))
    assert burnish("optimize", str(toy), "-q", "-o", "r").code == 0
    toy.write_text(f"{toy.read_text(encoding='utf-8')}seed: 99\n", encoding="utf-8")
    refused(burnish("runs", "resume", "r"), "toy.yaml:5 seed: not set → 99", "--fork r")
    said = burnish("optimize", "--fork", "r", "-o", "f", "--max-trials", "2", "--progress", "lines")
    assert said.code == 0, said.err
    words = " ".join(said.out.split())
    assert "toy.yaml has changed since this run started" in words
    assert "burnish optimize toy.yaml --fork r" in words
    assert json.loads(Path("f/run.json").read_text(encoding="utf-8"))["seed"] != 99


@pytest.mark.parametrize(
    ("strategy", "role"),
    [("auto", "proposer"), ("coordinate", "critic"), ("reflective", "reflector")],
)
def test_another_strategy_on_the_toy_world(
    strategy: str, role: str, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruled = " ".join((INSTRUCTIONS, *RULES.values()))

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        if request.schema_name == "reflector":
            return json.dumps({"diagnosis": "it is told no rules", "new_text": ruled})
        written = written_for(request.schema_name)
        return json.dumps({**written, "new_text": ruled} if "new_text" in written else written)

    monkeypatch.chdir(toy.parent)
    flags = {"strategy": strategy, role: "openai:m", "max_trials": 8}
    prompt_world.optimize(ScriptedBackend(respond=respond), file=toy, **flags)
    record = RunRecord.read(Path("run"))
    assert record.best_candidate is not None
    # Below the rules, auto may show examples.
    assert str(record.best_candidate.values["instructions"]).startswith(ruled)
