"""AgentOptimizer end to end: what it gives back, what is on disk, what is left of the prompts."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from burnish.compat import OptimizeResult, TargetPrompt
from burnish.core.errors import ConfigError, ResumeRefused, RunLocked
from burnish.journal.outages import Waits
from burnish.projects.resuming import described_again
from burnish.runs.directory import Header
from burnish.strategies.reflective.result_files import write_result_files
from burnish.testing.servers import HttpRequest
from tests.compat.optimizing import BASELINE, BETTER, reflection, world, write_set

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("SCRIPTED_LOGIN", "scripted-key-0123456789")


async def test_a_better_prompt_is_found_and_the_source_is_left_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        result = await here.optimize()
        out = here.out
        assert here.prompt.read_text() == BASELINE
    assert (result.status, result.finish_reason) == ("SUCCEEDED", "perfect_pass_rate")
    assert result.stop_reason == "required_metrics_passing"
    assert (result.baseline_pass_rate, result.best_pass_rate) == (0.0, 1.0)
    assert result.best_prompts == {"system": BETTER}
    assert (out / "best_prompts" / "system.md").read_text() == BETTER
    assert (out / "baseline_prompts" / "system.md").read_text() == BASELINE
    assert OptimizeResult.from_file(out / "result.json") == result
    assert result.algorithm == "gepa_reflective"
    assert (
        "status=SUCCEEDED algorithm=gepa_reflective baseline=0 best=1 delta=+1 rounds=1"
        in (out / "run.log").read_text()
    )
    assert (
        "pass_rate     : 0.0000 -> 1.0000 (+1.0000, improved)" in (out / "summary.txt").read_text()
    )
    assert {"run.json", "journal.db", "trials.jsonl", "report.md"} <= {
        p.name for p in out.iterdir()
    }


async def test_only_the_program_itself_goes_on_with_its_run(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.optimize()
    header = Header.read(here.out)
    assert (header.project.kind, dict(header.project.spec)) == ("python", {})
    assert "optimizer" in header.project.config
    with pytest.raises(ResumeRefused, match="started from a Python program"):
        described_again(here.out, {})


async def test_a_reflection_model_without_schemas_that_answers_in_a_fence_will_do(
    tmp_path: Path,
) -> None:
    fenced = f"I would write:\n```json\n{reflection()}\n```\nThat should do."
    async with world(tmp_path, [fenced], refuses=["json_schema", "json_object"]) as here:
        result = await here.optimize()
        calls, asked = len(here.calls), len(here.server.requests)
        again = await here.optimize()
        assert (len(here.calls), len(here.server.requests)) == (calls, asked)
    assert result.best_prompts == again.best_prompts == {"system": BETTER}
    assert result.total_reflection_lm_calls == 1, "what was refused is no answer"


async def test_one_round_with_a_reflection_model_that_never_answers_has_failed(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, ["I only speak in riddles."]) as here:
        here.configure(max_candidate_proposals=1)
        result = await here.optimize()
        asked = len(here.server.requests)
        again = await here.optimize()
        assert len(here.server.requests) == asked, "what was answered is not asked for again"
    assert (result.status, result.finish_reason) == ("FAILED", "error")
    assert "the reflector never gave a usable answer" in result.error_message
    assert result.best_prompts == result.baseline_prompts
    assert (again.status, again.rounds) == ("FAILED", result.rounds)


async def test_a_baseline_that_nobody_answers_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_wait(**_: object) -> Waits:
        return Waits(seconds=0)

    monkeypatch.setattr("burnish.runs.run.Waits", no_wait)

    async def down(query: str) -> str:
        raise ConnectionError("connection refused")

    async with world(tmp_path) as here:
        here.agent = down
        result = await here.optimize()
        assert not here.server.requests
    assert (result.status, result.total_rounds) == ("FAILED", 0)
    assert "in 3 cases: ConnectionError: connection refused" in result.error_message


async def test_best_outputs_are_kept_where_the_config_asks_for_them(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.configure(track_best_outputs=True)
        await here.optimize()
        outputs = here.told()["extras"]["best_outputs"]
    assert outputs
    for told in outputs.values():
        assert (told["score"], told["round"]) == (1.0, 1)
        assert told["output"].startswith("Answer: ")


async def test_a_finished_run_gives_its_result_again_without_paying(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        first = await here.optimize()
        files = {p: p.read_bytes() for p in (here.out / "rounds").iterdir()}
        calls, asked = len(here.calls), len(here.server.requests)
        again = await here.optimize()
        assert (len(here.calls), len(here.server.requests)) == (calls, asked)
        assert again.best_prompts == first.best_prompts
        assert again.rounds == first.rounds
        assert {p: p.read_bytes() for p in (here.out / "rounds").iterdir()} == files
        here.prompt.write_text("Something else that is long enough.\n")
        with pytest.raises(ResumeRefused, match="another baseline"):
            await here.optimize()


async def test_what_the_folder_alone_tells_is_the_same(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        result = await here.optimize()
        kept = (here.out / "result.json").read_bytes()
        for name in ("result.json", "summary.txt", "run.log"):
            (here.out / name).unlink()
        assert write_result_files(here.out) == result
        assert (here.out / "result.json").read_bytes() == kept


async def test_a_cancelled_run_is_resumed_by_the_same_call(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        stuck = asyncio.Event()

        async def agent(query: str) -> str:
            if here.prompt.read_text() != BASELINE and not stuck.is_set():
                stuck.set()
                await asyncio.sleep(3600)
            return await here.call_agent(query)

        here.agent = agent
        task = asyncio.create_task(here.optimize())
        await stuck.wait()
        assert here.prompt.read_text() == BETTER
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert here.prompt.read_text() == BASELINE
        assert here.told()["status"] == "CANCELED"
        paid = list(here.calls)
        result = await here.optimize()
        assert result.status == "SUCCEEDED"
        assert here.calls[: len(paid)] == paid
        assert len(here.calls) == result.total_metric_calls


async def test_two_programs_cannot_share_a_folder(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        refused: list[type[BaseException]] = []

        async def agent(query: str) -> str:
            if not refused:
                refused.append(RunLocked)
                with pytest.raises(RunLocked, match="run out is in use"):
                    await here.optimize()
            return await here.call_agent(query)

        here.agent = agent
        assert (await here.optimize()).status == "SUCCEEDED"
        assert refused


@pytest.mark.parametrize("changed", [False, True])
async def test_the_source_is_updated_after_success_unless_somebody_changed_it(
    tmp_path: Path, changed: bool
) -> None:
    async with world(tmp_path) as here:
        target = here.target()

        class Meddler:
            def on_optimization_end(self, event: dict[str, object]) -> None:
                if changed:
                    (tmp_path / "note.md").write_text("changed by hand")

        (tmp_path / "note.md").write_text("a second prompt of the agent")
        target.add_path("note", tmp_path / "note.md")
        given = {"target_prompt": target, "update_source": True}
        if not changed:
            result = await here.optimize(**given)
            assert result.source_updated
            assert here.prompt.read_text() == BETTER
            assert "update_source : true" in (here.out / "summary.txt").read_text()
            assert here.told()["sourceUpdated"] is True
            return
        with pytest.raises(ConfigError, match="it was changed"):
            await here.optimize(**given, extra_gepa_callbacks=[Meddler()])
        assert here.prompt.read_text() == BASELINE
        assert "not written back" in here.told()["errorMessage"]
        assert here.told()["sourceUpdated"] is False


async def test_a_signal_ends_it_after_the_round_with_everything_on_disk(tmp_path: Path) -> None:
    worse = [reflection(f"{BASELINE}Never mind {n}.\n") for n in range(9)]
    async with world(tmp_path, [*worse]) as here:
        here.configure(max_candidate_proposals=8)

        class Impatient:
            def on_proposal_end(self, event: dict[str, int]) -> None:
                if event["iteration"] == 2:
                    os.kill(os.getpid(), signal.SIGINT)

        if threading.current_thread() is not threading.main_thread():
            pytest.skip("signals reach the main thread only")
        result = await here.optimize(extra_gepa_callbacks=[Impatient()])
        assert (result.status, result.stop_reason) == ("CANCELED", "user_requested_stop")
        assert here.prompt.read_text() == BASELINE
        assert 2 <= result.total_rounds < 8
        assert not (here.out / "summary.txt").exists()
        rounds = sorted(p.name for p in (here.out / "rounds").iterdir())
        assert rounds[:2] == ["round_001.json", "round_002.json"]


PROGRAM = """
import asyncio, pathlib, sys
from tests.compat.optimizing import BASELINE, world

async def main():
    async with world(pathlib.Path(sys.argv[1])) as here:
        async def agent(query):
            if here.prompt.read_text() != BASELINE:
                print("at work", flush=True)
                await asyncio.sleep(3600)
            return await here.call_agent(query)
        here.agent = agent
        await here.optimize()

asyncio.run(main())
"""


def test_item_1_ctrl_c_twice_ends_the_process_at_once_with_the_source_as_it_was(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    root, quiet = Path(__file__).parents[2], subprocess.DEVNULL
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=quiet) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at work\n"
        assert (tmp_path / "system.md").read_text() == BETTER
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.5)
        assert process.wait(timeout=120) != 0
    assert (tmp_path / "system.md").read_text() == BASELINE
    told = OptimizeResult.from_file(tmp_path / "out" / "result.json")
    assert (told.status, told.stop_reason) == ("CANCELED", "user_requested_stop")
    assert told.baseline_pass_rate == 0.0


async def test_it_runs_in_a_thread_that_is_not_the_main_one(tmp_path: Path) -> None:
    def program() -> OptimizeResult:
        async def main() -> OptimizeResult:
            async with world(tmp_path) as here:
                return await here.optimize()

        return asyncio.run(main())

    result = await asyncio.to_thread(program)
    assert result.status == "SUCCEEDED"


async def test_the_stop_file_ends_it(tmp_path: Path) -> None:
    worse = [reflection(f"{BASELINE}Never mind {n}.\n") for n in range(9)]
    async with world(tmp_path, [*worse]) as here:
        here.configure(max_candidate_proposals=8)

        class Stopping:
            def on_iteration_end(self, event: dict[str, int]) -> None:
                (here.out / "optimize.stop").touch()

        result = await here.optimize(extra_gepa_callbacks=[Stopping()])
        assert (result.status, result.stop_reason) == ("SUCCEEDED", "user_requested_stop")
        assert (result.finish_reason, result.total_rounds) == ("no_improvement", 1)
        assert result.best_prompts == result.baseline_prompts
        assert json.loads((here.out / "rounds" / "round_001.json").read_text())["accepted"] is False


async def test_attempts_side_by_side_have_rounds_and_costs_of_their_own(tmp_path: Path) -> None:
    many = [reflection(f"{BASELINE}Never mind {n}.\n") for n in range(20)]
    async with world(tmp_path, [*many]) as here:
        here.configure(name="reflective", proposals_per_round=2, max_candidate_proposals=4)
        early: list[int] = []

        class Reading:
            def on_iteration_end(self, event: dict[str, int]) -> None:
                path = here.out / "rounds" / f"round_{event['iteration']:03d}.json"
                early.append(json.loads(path.read_text())["reflectionLmCalls"])

        result = await here.optimize(extra_gepa_callbacks=[Reading()])
    assert result.algorithm == "reflective"
    assert [each.round for each in result.rounds] == list(range(1, len(result.rounds) + 1))
    asked = [each for each in result.rounds if each.reflections]
    assert len(asked) >= 4
    assert {each.reflection_lm_calls for each in asked} == {1}
    assert sum(each.reflection_lm_calls for each in asked) == result.total_reflection_lm_calls
    assert early == [each.reflection_lm_calls for each in result.rounds]


@pytest.mark.parametrize(("algorithm", "least"), [("gepa_reflective", 57), ("reflective", 55)])
async def test_a_limit_of_60_calls_is_used(tmp_path: Path, algorithm: str, least: int) -> None:
    """An optimizer.json whose rewrites never help: 57 to 60 calls, and none beyond the limit.

    With races, making a candidate lead takes validation twice: fewer calls than that may be left.
    """
    ideas = count()

    def idea(request: HttpRequest) -> str:
        del request
        return reflection(f"{BASELINE}Idea number {next(ideas)}.\n")

    async with world(tmp_path, idea) as here:
        here.configure(name=algorithm, max_metric_calls=60, max_candidate_proposals=1000)
        result = await here.optimize()
        assert len(here.calls) == result.extras["total_metric_calls"]
    assert result.stop_reason == "budget_exhausted"
    assert least <= len(here.calls) <= 60
    last = json.loads((here.out / "rounds" / f"round_{result.total_rounds:03d}.json").read_text())
    assert (last["trainSubsampleCandidateScore"], last["validationPassRate"]) == (None, 0.0)


@pytest.mark.parametrize(
    ("merging", "fires"),
    [
        ({"use_merge": True}, True),
        ({"use_merge": False}, False),
        ({"use_merge": True, "max_merge_invocations": 0}, False),
        ({"use_merge": True, "merge_val_overlap_floor": 6}, False),
    ],
)
async def test_a_merge_fires_as_the_file_says_and_pays(
    tmp_path: Path, merging: dict[str, Any], fires: bool
) -> None:
    """Each of two prompts needs a rule, but a reply to a greeting fits both rules or none.

    So a candidate with one rule loses the greeting, and its reflection goes after that: only a
    merge of two candidates has both rules.
    """
    rules = {"system": "Be kind.", "format": "Be brief."}

    def reflect(request: HttpRequest) -> str:
        asked = json.dumps(request.json)
        if "Greeting" in asked:
            return reflection(f"Say hello first, way {len(asked)}.")
        name = next(name for name in rules if f"a text that is called {name}" in asked)
        return reflection(f"Prompt {name}. {rules[name]}")

    async with world(tmp_path, reflect) as here:
        files = {name: tmp_path / f"{name}.md" for name in rules}
        target = TargetPrompt()
        for name, file in files.items():
            file.write_text(f"Prompt {name}.", encoding="utf-8")
            target.add_path(name, str(file))
        for file, first in (("train", 0), ("val", 2)):
            cases = [("Praise", first), ("Praise", first + 1), ("Summary", first)]
            cases += [("Summary", first + 1), ("Greeting", first)]
            asked = [(f"{word} {n}", "yes") for word, n in cases]
            write_set(tmp_path / f"{file}.evalset.json", *asked)

        async def agent(query: str) -> str:
            kind, brief = (rule in files[name].read_text() for name, rule in rules.items())
            right = {"Praise": kind, "Summary": brief, "Greeting": kind == brief}
            return "yes" if right[query.split()[0]] else "no"

        here.agent = agent
        here.configure(reflection_minibatch_size=5, max_candidate_proposals=20, **merging)
        result = await here.optimize(target_prompt=target)
    kinds = [each.kind for each in result.rounds if each.accepted]
    assert (result.merge_rounds_total > 0, "merge" in kinds) == (fires, fires)
    assert result.best_pass_rate == (1.0 if fires else 0.4)
    assert all(rule in result.best_prompts[name] for name, rule in rules.items()) is fires
