"""Runs that are no result: no baseline, or a proposer that never answers. Exit code 1, and why."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.core.errors import BaselineUnmeasured, EndpointDown, ProposerFailed
from burnish.journal.outages import Waits
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelUnavailable
from burnish.models.references import ModelRef
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import strategy_plugin
from burnish.testing.servers import ScriptedServer, Slow
from tests.cli.console import Burnish, Said
from tests.cli.served_echo import hosted
from tests.projects.optimizer_world import EchoBackend, echo_models, optimizer
from tests.projects.optimizer_world import write_world as write_agent
from tests.projects.prompts.prompt_world import KEY, Change, set_algorithm, write_world

pytestmark = pytest.mark.slow

REFUSED = "connection refused by the test"
BROKEN_AGENT = f"""
async def call_agent(query: str) -> str:
    raise ConnectionError("{REFUSED}")
"""
FLAGS = (
    *("--agent", "numbers_agent:call_agent"),
    *("--prompt", "system=prompts/system.md"),
    *("--train", "train.evalset.json", "--val", "val.evalset.json"),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P2B_TEST_API_KEY", KEY)
    monkeypatch.setenv("ECHO_KEY", "key-of-the-echo-agent")

    def no_wait(**_: object) -> Waits:
        return Waits(seconds=0)

    monkeypatch.setattr("burnish.runs.run.Waits", no_wait)


def failed(said: Said, *words: str) -> RunRecord:
    """One error with exit code 1, whatever is shown; the run's folder says the same."""
    assert said.code == 1, said
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    assert "next     burnish runs show run" in said.err
    record = RunRecord.read(Path("run"))
    assert record.status == "failed"
    report = Path("run/report.md").read_text(encoding="utf-8")
    for word in words:
        assert word in said.err
        assert word in strategy_plugin(record.header.strategy).reason(record)
        assert word in report
    return record


def result_files(*words: str) -> None:
    """What is written for programs and log scanners says so too."""
    result = json.loads(Path("run/result.json").read_text(encoding="utf-8"))
    assert (result["status"], result["finishReason"]) == ("FAILED", "error")
    log = Path("run/run.log").read_text(encoding="utf-8")
    assert "status=FAILED" in log
    assert not Path("run/summary.txt").exists(), "that is for successes"
    for word in words:
        assert word in result["errorMessage"]
        assert word in log


# -- a baseline that cannot be measured ---------------------------------------------------------


@pytest.mark.parametrize(
    "flags", [(), ("-q",), ("--print-baseline",), ("-q", "--print-baseline"), ("--progress=json",)]
)
def test_prompts_without_a_baseline(
    tmp_path: Path, burnish: Burnish, flags: tuple[str, ...]
) -> None:
    with hosted(ScriptedServer()) as url:
        file = write_world(tmp_path, reflecting(url))
        (tmp_path / "numbers_agent.py").write_text(BROKEN_AGENT, encoding="utf-8")
        said = burnish("optimize", str(file), *FLAGS, "-o", "run", *flags)
    record = failed(said, "of 3 cases of holdout, 3 are missing; in 3 cases: ", REFUSED)
    assert len(record.rows) == 1
    result_files("the baseline could not be measured", REFUSED)
    assert burnish("runs", "show", "run").out.startswith("run · failed: the baseline could not")


class DownBackend(EchoBackend):
    """Nobody answers."""

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        raise ModelUnavailable(REFUSED)


@pytest.mark.parametrize("print_baseline", [False, True])
@pytest.mark.parametrize("strategy", [None, "reflective", "backprop"])
def test_an_agent_file_without_a_baseline(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    strategy: str | None,
    print_baseline: bool,
) -> None:
    write_agent(tmp_path)
    request = OptimizeRequest(
        way=RunOpening(output_dir=Path("run")),
        flags={"strategy": strategy, "print_baseline": print_baseline or None},
        progress="none",
    )
    with pytest.raises((BaselineUnmeasured, EndpointDown), match=REFUSED) as error:
        optimize_project(request, models=echo_models(DownBackend(respond=lambda _, __: "")))
    assert error.value.exit_code == 1
    assert RunRecord.read(Path("run")).status == "failed"
    assert capsys.readouterr().out == "", "there is no table of what was not measured"


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_measurement_of_nothing_says_why(
    tmp_path: Path, burnish: Burnish, quiet: tuple[str, ...]
) -> None:
    (tmp_path / "numbers_agent.py").write_text(BROKEN_AGENT, encoding="utf-8")
    rows = [{"input": f"{n}?", "ground_truth": str(n)} for n in range(3)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    agent = (
        "kind: python\nname: a\ntarget: {call: 'numbers_agent:call_agent'}\ncases: cases.jsonl\n"
    )
    metrics = "metrics: [{type: standard, metric: equality}]\n"
    (tmp_path / "agent.yaml").write_text(agent + metrics, encoding="utf-8")
    said = burnish("eval", "agent.yaml", "-o", "run", *quiet)
    assert said.code == 1
    told = " ".join(said.out.split())
    assert f"because in 3 cases: ConnectionError: {REFUSED}" in told
    assert said.lines[-1] == "cannot tell: 3 cases are missing"


RAISING_AGENT = """
import os

async def call_agent(query: str) -> str:
    return os.environ["KEY_OF_THE_AGENT"] and "1"
"""


def test_an_agent_that_only_raises_ends_the_run_which_goes_on_when_it_is_mended(
    tmp_path: Path, burnish: Burnish, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ScriptedServer(answers=['{"diagnosis": "d", "new_text": "Say 7."}'])
    words = ("3 of 3 runs of cases ended in an error", "KeyError: 'KEY_OF_THE_AGENT'")
    with hosted(server) as url:
        file = write_world(tmp_path, reflecting(url))
        (tmp_path / "numbers_agent.py").write_text(RAISING_AGENT, encoding="utf-8")
        said = burnish("optimize", str(file), *FLAGS, "-o", "run")
        assert "resume the run (`burnish runs resume run`)" in said.err
        assert failed(said, *words).rows == ()
        assert not server.requests, "no proposal is paid"
        result_files(*words)
        assert burnish("runs", "show", "run").out.startswith("run · failed: the baseline could not")
        (listed,) = burnish("runs", "list", "--json").records
        assert listed["status"] == "failed"
        assert words[1] in json.dumps(burnish("runs", "show", "run", "--json").json)
        monkeypatch.setenv("KEY_OF_THE_AGENT", "yes")
        said = burnish("runs", "resume", "run")
    assert said.code == 0, said
    assert len(server.requests) == 1
    assert RunRecord.read(Path("run")).status == "finished"


def test_time_that_ends_before_the_first_answer_fails_the_run(
    tmp_path: Path, burnish: Burnish
) -> None:
    server = ScriptedServer(
        answers=['{"diagnosis": "d", "new_text": "Say 7."}'], preflight=Slow(3600)
    )
    with hosted(server) as url:
        file = write_world(tmp_path, reflecting(url))
        said = burnish("optimize", str(file), *FLAGS, "-o", "run", "--max-minutes", "0.001")
        assert "raise the limit, then resume the run (`burnish runs resume run`)" in said.err
        failed(said, "the baseline could not be measured: max_minutes: ", "nothing was run")
        server.preflight = "ok"
        again = ("--max-minutes", "60", "--max-trials", "1")
        said = burnish("runs", "resume", "run", *again)
    assert said.code == 0, said


# -- a proposer that never answers --------------------------------------------------------------


def reflecting(url: str) -> Change:
    """One round, with a reflection model behind this address."""

    model = {"model_name": "m", "base_url": url}
    return set_algorithm(max_candidate_proposals=1, reflection_lm=model)


def test_a_reflector_that_never_answers_in_a_run_of_one_round(
    tmp_path: Path, burnish: Burnish
) -> None:
    server = ScriptedServer(answers=["I would rather not answer in JSON."])
    with hosted(server) as url:
        file = write_world(tmp_path, reflecting(url))
        said = burnish("optimize", str(file), *FLAGS, "-q", "-o", "run")
    record = failed(
        said, "the reflector never gave a usable answer: reflector answered twice without a valid"
    )
    assert len(record.rows) == 2
    result_files("the reflector never gave a usable answer")
    assert len(server.requests) == 2, "the question, and one repair"
    (proposal,) = json.loads(Path("run/trials.jsonl").read_text().splitlines()[1])["trial"][
        "proposals"
    ]
    assert proposal["unusable"] == ["I would rather not answer in JSON."] * 2


def test_a_reflector_that_was_mended_is_asked_again_by_a_fork(
    tmp_path: Path, burnish: Burnish
) -> None:
    """At the same address: what the journal has of its answers could not be used."""
    server = ScriptedServer(
        answers=["Not in JSON.", "Not now either.", '{"diagnosis": "d", "new_text": "Say 7."}']
    )
    with hosted(server) as url:
        file = write_world(tmp_path, reflecting(url))
        assert burnish("optimize", str(file), *FLAGS, "-q", "-o", "run").code == 1
        replayed = burnish("optimize", str(file), *FLAGS, "-q", "-o", "same", "--fork", "run")
        assert (replayed.code, len(server.requests)) == (1, 2)
        again = ("--fork", "run", "--retry-missing")
        said = burnish("optimize", str(file), *FLAGS, "-q", "-o", "again", *again)
    assert said.code == 0, said
    assert len(server.requests) == 3
    assert RunRecord.read(Path("again")).status == "finished"


def texts_only(data: dict[str, Any]) -> None:
    block = optimizer(data)
    block["axes"] = {"textual": [{"path": "instructions"}]}
    block["budget"] = {"textual_phase": {"max_trials": 1}}


class DumbCritic(EchoBackend):
    """The agent works; whoever should improve it does not."""

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        if request.schema_name == "critic":
            return ChatReply(text="no JSON here")
        return await super().complete(ref, request, draw=draw)


def test_a_critic_that_never_answers_fails_texts_and_warns_beside_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def optimize(folder: str) -> None:
        request = OptimizeRequest(
            way=RunOpening(output_dir=Path(folder)), flags={}, progress="none"
        )
        optimize_project(request, models=echo_models(DumbCritic(respond=lambda _, __: "")))

    write_agent(tmp_path, texts_only)
    with pytest.raises(ProposerFailed, match="the critic never gave a usable answer"):
        optimize("texts")
    assert RunRecord.read(Path("texts")).status == "failed"
    write_agent(tmp_path)
    optimize("both")
    assert RunRecord.read(Path("both")).status == "finished"
    assert "warning  the critic never gave a usable answer: " in capsys.readouterr().out
