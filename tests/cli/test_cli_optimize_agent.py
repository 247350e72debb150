"""`burnish optimize agent.yaml`: from flags to a tuned agent, with scripted models."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import typer

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.core.errors import ConfigError
from burnish.runs.directory import RunRecord
from burnish.targets.agent.files import load_agent
from burnish.testing.doubles import story
from burnish.testing.servers import HttpRequest as Question
from tests.cli.console import Burnish, refused, tree
from tests.cli.served_echo import served, serving
from tests.projects.optimizer_world import (
    COLD,
    RULE,
    EchoBackend,
    echo,
    echo_models,
    optimizer,
    write_world,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def backend() -> EchoBackend:
    return echo()


def run(backend: EchoBackend, folder: str | None = "run", **values: Any) -> None:
    """`burnish optimize agent.yaml -o run` and more."""
    more = {k: v for k, v in values.items() if k in OptimizeRequest.__dataclass_fields__}
    flags = {k: v for k, v in values.items() if k not in more}
    more.setdefault("way", RunOpening(output_dir=Path(folder) if folder else None))
    more.setdefault("progress", "lines")
    optimize_project(OptimizeRequest(flags=flags, **more), models=echo_models(backend))


def said_of(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def short(data: dict[str, Any]) -> None:
    """One cycle with one phase of few trials."""
    block = optimizer(data)
    block["axes"] = {"numeric": [{"path": "model.temperature", "range": [0.0, 1.0]}]}
    block["budget"] = {"global": {"max_cycles": 1}, "numeric_phase": {"max_trials": 3}}


def test_wins_of_all_phases_end_up_in_one_agent(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path, lambda data: optimizer(data).update(sealed_cases_file="sealed.yaml"))
    before = tree(tmp_path)
    run(backend)
    told = said_of(capsys)
    record = RunRecord.read(tmp_path / "run")
    assert record.best is not None
    assert record.best.trial.train is not None
    assert record.best.trial.train.measurement.loss == 0.0
    best = load_agent(tmp_path / "run" / "best.yaml")
    assert (best.block.model.temperature or 0) <= COLD
    assert RULE in best.instructions.text
    assert best.block.demonstrations
    assert "sealed test, looked at once: score 0.000 → 1.000" in told
    assert "nobody told it how to answer" not in told  # that takes -v
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before


def test_a_dry_run_says_everything_and_asks_nobody(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(
        tmp_path,
        lambda data: optimizer(data).update(
            constraints=[{"metric": "latency_sec", "op": "<=", "value": 2}],
            penalties={"latency_per_sec": 0.5},
        ),
    )
    before = tree(tmp_path)
    run(backend, None, dry_run=True, test=str(tmp_path / "sealed.yaml"), max_usd=5.0)
    told = said_of(capsys)
    assert not backend.asked
    assert tree(tmp_path) == before
    for part in (
        "agent     echo, openai:m",
        "strategy  coordinate, seed 42",
        "loss      1 − the weighted mean of equality × 1 + 0.5 latency per sec",
        "only if   latency_sec <= 2",
        "number  model.temperature: 0 to 1, now 0.9",
        "text    instructions.inline: 19 of at most 400 characters, keeps {question}",
        "demos   demonstrations: at most 2, now 0",
        "cases     train 6, holdout 3, sealed test 3",
        "repeats   2; a gain counts from 1 × its noise",
        "no change of the pass rate can be told from chance with 3 cases",
        "numeric: at most 4 trials, patience 3; warm-up 2 points, then TPE",
        "textual: at most 2 trials, patience 2; critic openai:m and applier openai:m",
        "limits    max_cycles 2, max_usd 5.0",
        # 6 cases, twice; 3 cases, twice.
        "a trial   about 12 calls ·",
        "+ 6 calls · ",
        "on holdout where train improves",
        "+ 2 calls · 6,000 tokens · $0.0070 for critic and applier in a textual phase",
        "reserved  about 12 calls",
        # The start takes 12 + 6 + 12; 1 + 3 + 2 trials take 12; 2 of them ask both roles.
        "the run   about 106 calls",
        "if nothing helps (6 trials)",
        # 2 cycles of 1 + 4 + 2 trials take 18; 4 of them ask both roles.
        "at most about 290 calls",
        "(14 trials)",
        "! numeric_phase.max_trials is 4, below the usual warm-up of 10 points",
        "nothing was paid",
    ):
        assert part in told, part


def test_the_estimate_of_a_trial_is_what_a_trial_takes(
    tmp_path: Path, backend: EchoBackend
) -> None:
    write_world(tmp_path, short)
    run(backend, quiet=True)
    rows = RunRecord.read(tmp_path / "run").rows
    assert rows[0].spend.calls == 12 + 6
    assert {row.spend.calls for row in rows[1:]} <= {12, 18}


def test_print_baseline_measures_it_and_stops(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path, lambda data: optimizer(data).update(sealed_cases_file="sealed.yaml"))
    run(backend, print_baseline=True, quiet=True)
    told = said_of(capsys)
    assert len(backend.asked) == 12 + 6
    assert not any("sealed" in message.content for r in backend.asked for message in r.messages)
    table = [line.split() for line in told.splitlines() if line.startswith(("loss ", "equality "))]
    assert table[-2:] == [
        ["loss", "1.000", "±0.000", "1.000", "±0.000"],
        ["equality", "0.000", "±0.000", "0.000", "±0.000"],
    ]
    counts = "a gain on train counts however small it is"
    assert f"noise    ±0.000 on train, ±0.000 on holdout over 2 repeats: {counts}" in told
    assert "the run  about 94 calls" in told
    assert "can be told from chance with 3 cases" in told
    go_on = next(line for line in told.splitlines() if line.startswith("go on"))
    assert go_on == "go on    burnish optimize agent.yaml --fork run"


def test_print_baseline_begins_no_phase(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path, short)
    run(backend, print_baseline=True)
    told = said_of(capsys)
    assert "baseline " in told
    assert "cycle 1" not in told
    assert told.count("noise    ") == 1


def test_a_search_forked_from_a_baseline_does_not_pay_for_it_again(
    tmp_path: Path, backend: EchoBackend
) -> None:
    write_world(tmp_path, short)
    run(backend, print_baseline=True, quiet=True)
    paid = len(backend.asked)
    run(backend, quiet=True, way=RunOpening(fork="run", output_dir=Path("search")))
    rows = RunRecord.read(tmp_path / "search").rows
    assert rows[0].spend.calls == 0
    assert len(backend.asked) - paid == sum(row.spend.calls for row in rows)
    assert len(rows) > 1


def test_report_only_writes_the_report_again(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path, short)
    run(backend, quiet=True)
    report = tmp_path / "run" / "report.md"
    run(backend, None, report_only="run")  # from here the folder is seen by its whole path
    before = report.read_bytes()
    report.unlink()
    paid = len(backend.asked)
    said_of(capsys)
    run(backend, None, report_only="run")
    assert said_of(capsys) == f"report   {report}\n"
    assert report.read_bytes() == before
    assert len(backend.asked) == paid


def test_keep_best_only_leaves_the_best_and_the_ledger(
    tmp_path: Path, backend: EchoBackend
) -> None:
    write_world(tmp_path)
    run(backend, quiet=True, keep_best_only=True)
    folder = tmp_path / "run"
    record = RunRecord.read(folder)
    assert (record.accepted, record.trials) == (3, len(record.rows) - 1)
    (left,) = (folder / "candidates").glob("iter-*.yaml")
    assert left.resolve() == (folder / "best.yaml").resolve()
    assert len(list((folder / "instructions").iterdir())) == 1
    assert RULE in load_agent(folder / "best.yaml").instructions.text


def test_verbose_says_what_critic_and_applier_said(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    def texts(data: dict[str, Any]) -> None:
        optimizer(data)["axes"] = {"textual": [{"path": "instructions"}]}

    write_world(tmp_path, texts)
    run(backend, verbose=True)
    told = said_of(capsys)
    critic = next(line for line in told.splitlines() if line.startswith("critic "))
    assert "it says it has no idea nobody told it how to answer" in critic
    assert "applier  it has to know how one word more" in told
    assert told.index(critic) < told.index("[c1/t")


def test_no_gain_is_a_success(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    def hopeless(data: dict[str, Any]) -> None:
        short(data)
        optimizer(data)["axes"]["numeric"][0]["range"] = [COLD + 0.05, 1.0]

    write_world(tmp_path, hopeless)
    run(backend, quiet=True)
    assert "3 trials, 0 accepted" in said_of(capsys)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {"dry_run": True, "suggest_axes": True},
            "--dry-run and --suggest-axes do not go together",
        ),
        ({"print_baseline": True, "dry_run": True}, "--dry-run and --print-baseline"),
        ({"quiet": True, "verbose": True}, "-q and -v"),
        ({"report_only": "x", "way": RunOpening(resume="y")}, "--report-only names the run itself"),
        ({"way": RunOpening(resume="a", fork="b")}, "--resume and --fork"),
        ({"max_cycles": 0}, "--max-cycles"),
        ({"accept_sigma": -1.0}, "--accept-sigma"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    tmp_path: Path, backend: EchoBackend, asked: dict[str, Any], told: str
) -> None:
    write_world(tmp_path)
    with pytest.raises(ConfigError, match=told) as error:
        run(backend, **asked)
    assert error.value.exit_code == 1


def test_suggest_axes_prints_a_block_for_this_agent(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path, tools=True)
    run(backend, None, suggest_axes=True)
    told = said_of(capsys)
    for part in (
        "  optimizer:\n    loss: {equality: 1.0}\n",
        '- {path: "tools[name=mixed].semantic_weight", range: [0.0, 1.0]}',
        '- {path: "tools[name=near].top_k", type: int, range: [2, 10]}',
        "- {path: instructions, max_chars: 2000}",
    ):
        assert part in told
    assert "tools[name=archive].semantic_weight" not in told
    assert not backend.asked


# -- through the whole command line, with a model that is a real endpoint --------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    monkeypatch.setenv("ECHO_KEY", "key-of-the-echo-agent")
    return []


def test_a_run_that_was_stopped_goes_on_with_the_flags_it_had(
    tmp_path: Path, burnish: Burnish, asked: list[Question]
) -> None:
    with serving(asked) as url:
        write_world(tmp_path, served(url))
        flags = ("--seed", "5", "--accept-sigma", "0.5", "--keep-best-only", "-q")
        assert burnish("optimize", *flags, "-o", "whole").code == 0
        whole = len(asked)
        part = burnish("test", "optimize", "agent.yaml", *flags, "-o", "part", "--max-trials", "4")
        assert part.code == 0
        assert "4 trials" in part.out
        again = burnish("runs", "resume", "part", "-q", "--max-trials", "100")
        assert (again.code, again.err) == (0, "")
        assert len(asked) == 2 * whole
        assert story(tmp_path / "part" / "trials.jsonl") == story(
            tmp_path / "whole" / "trials.jsonl"
        )
        assert len(list((tmp_path / "part" / "candidates").glob("iter-*.yaml"))) == 1
        # The same again by the other command, which needs no file to be named either.
        assert burnish("optimize", "--resume", "part", "-q").code == 0
        assert len(asked) == 2 * whole
        refused(burnish("optimize", "--resume", "part", "--accept-sigma", "2"), "another strategy")


def test_a_changed_agent_is_not_resumed(
    tmp_path: Path, burnish: Burnish, asked: list[Question]
) -> None:
    with serving(asked) as url:
        write_world(tmp_path, served(url), short)
        assert burnish("optimize", "-q", "-o", "part", "--max-trials", "1").code == 0
        (tmp_path / "system.md").write_text("Answer {question} well.\n", encoding="utf-8")
        refused(burnish("runs", "resume", "part"), "another target", "--fork part")


def test_mistakes_end_with_exit_code_1(tmp_path: Path, burnish: Burnish) -> None:
    refused(burnish("optimize"), "no file was given, and there is no agent.yaml here")
    write_world(tmp_path, lambda data: data["evaluations"].pop("optimizer"))
    refused(burnish("optimize"), "does not say what to tune", "  optimizer:")
    toy = tmp_path / "toy.yaml"
    toy.write_text("kind: toy\n", encoding="utf-8")
    useless = burnish("optimize", str(toy), "--max-rounds", "2", "--test", "x")
    refused(useless, "--max-rounds: only the strategy 'backprop'", "--test: only a target of")
    refused(burnish("optimize", str(toy), "--suggest-axes"), "only an agent file has axes")


def test_an_interrupted_run_ends_with_exit_code_2(tmp_path: Path, backend: EchoBackend) -> None:
    class Impatient(EchoBackend):
        async def complete(self, ref: Any, request: Any, *, draw: int) -> Any:
            if len(self.asked) == 20:
                os.kill(os.getpid(), signal.SIGINT)
            return await super().complete(ref, request, draw=draw)

    write_world(tmp_path, short)
    with pytest.raises(typer.Exit) as end:
        run(Impatient(respond=lambda _, __: ""), quiet=True)
    assert end.value.exit_code == 2
    assert RunRecord.read(tmp_path / "run").status == "interrupted"
    run(backend, quiet=True, way=RunOpening(resume="run"))
    assert RunRecord.read(tmp_path / "run").status == "finished"


def test_help_of_both_names_is_the_same(burnish: Burnish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one, other = burnish("optimize", "--help"), burnish("test", "optimize", "--help")
    assert max(map(len, other.lines)) <= 80
    assert other.out.replace("burnish test optimize", "burnish optimize").split() == one.out.split()


def shipped_block(data: dict[str, Any]) -> None:
    """The block as HoloDeck 0.7 has it: phases beside the axes, every axis with its type."""
    block = optimizer(data)
    needed = ("train_cases_file", "holdout_cases_file", "min_holdout_cases")
    files = {name: block[name] for name in needed}
    phase = {"max_trials": 1, "patience": 1}
    data["evaluations"]["optimizer"] = {
        **files,
        "loss": {"equality": 1.0},
        "axes": {
            "numeric": [{"path": "model.temperature", "type": "float", "range": [0.0, 1.0]}],
            "textual": [{"path": "instructions.inline", "max_chars": 400}],
        },
        "max_cycles": 1,
        "numeric_phase": phase,
        "textual_phase": phase,
        "min_delta": 0.01,
        "seed": 42,
    }


def test_holodecks_own_block_tells_programs_its_progress_and_names_who_edited(
    tmp_path: Path, backend: EchoBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path, shipped_block)
    run(backend, progress="holodeck")
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    assert {each["schema"] for each in events} == {"holodeck.optimize.progress/v1"}
    assert [each["event"] for each in events] == [
        *("run_started", "baseline", "cycle_started"),
        *("phase_started", "trial", "phase_completed") * 2,
        *("cycle_completed", "run_completed"),
    ]
    assert "stopped  " in err, "what people read is beside the events"
    rows = (tmp_path / "run" / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    source = next(row for row in map(json.loads, rows) if row["phase"] == "textual")[
        "proposal_source"
    ]
    assert (source["critic"]["model"], source["applier"]["model"]) == ("openai:m", "openai:m")
