"""The loop: what wins, what cannot, when it stops, and what is on disk whatever happens."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import FileTrouble, Interrupted, ResumeRefused
from burnish.delegation.refine.loop import IterationJob
from burnish.delegation.refine.seeds import ModelPair, Tier, TierPlan
from burnish.delegation.refine.sessions import SESSIONS, missing_files
from tests.delegation.refine.run_folders import plain_run, put
from tests.delegation.refine.scripted import Refined, Step, refined

BETTER, WORSE = Step(critique=0.8), Step(critique=0.3)


def seed_in(folder: Path, **more: Any) -> Path:
    """A seed whose critique is 0.5."""
    return plain_run(folder / "seed", **more)


def best_of(done: Refined) -> dict[str, Any]:
    return json.loads((done.seed / "BEST" / "manifest.json").read_text(encoding="utf-8"))


def on_disk(done: Refined) -> dict[str, Any]:
    path = done.seed / SESSIONS / f"{done.session.session_id}.json"
    return json.loads(path.read_text(encoding="utf-8"))


async def test_one_iteration_that_is_better_is_best(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path), BETTER)
    assert (done.session.best_iter, done.session.best_written) == (1, True)
    assert done.session.stop_reason == "max_iterations"
    assert done.report == "draft 1\n"
    assert best_of(done) == {
        "best_run_id": f"{done.session.session_id}.iter_1",
        "best_loss": pytest.approx(0.26),
        "seed_loss": pytest.approx(0.35),
        "session_id": done.session.session_id,
        "winning_run_dir": f"{SESSIONS}/{done.session.session_id}/iter_1/run",
    }
    assert (done.seed / "FINAL" / "report.md").read_text() == "draft\n"


async def test_the_next_iteration_starts_from_the_best_and_not_from_the_last(
    tmp_path: Path,
) -> None:
    done = await refined(seed_in(tmp_path), BETTER, WORSE, Step(critique=0.9))
    starts = [job.deliverable.parent.parent.name for job in done.script.jobs]
    assert starts[1:] == ["iter_1", "iter_1"]
    assert done.script.jobs[0].deliverable == done.seed / "FINAL"
    first = f"{done.session.session_id}.iter_1"
    assert [job.parent_run_id for job in done.script.jobs] == ["seed", first, first]
    assert done.session.best_iter == 3


async def test_every_iteration_is_told_what_is_wrong_and_has_half_of_the_budget(
    tmp_path: Path,
) -> None:
    budget = {"max_loops": 10, "max_depth": 3}
    seed = seed_in(tmp_path, budget=budget, tags=["mine", "refinement"])
    done = await refined(seed, Step(critique=0.8, defects=("still this",)), WORSE)
    first, second = done.script.jobs
    assert "it has no unit" in first.steer
    assert "still this" in second.steer
    assert "Prior loss: 0.260" in second.steer
    assert (first.envelope.max_loops, second.envelope.max_loops) == (5, 5)
    assert first.envelope.max_depth == 3
    assert first.tags == ("mine", "refinement", "refine-iter-1")
    path = first.folder.parent / "gradient_input.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["prior_run_id"] == "seed"
    assert told["prior_loss_total"] == pytest.approx(0.35)


async def test_nothing_wrong_is_nothing_to_refine_and_still_a_session(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path, defects=()), BETTER)
    assert on_disk(done)["stop_reason"] == "empty_gradient"
    assert done.script.jobs == []
    assert not (done.seed / "BEST").exists()


async def test_a_perfect_iteration_ends_it(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path), Step(critique=0.9, defects=()), BETTER)
    assert done.session.stop_reason == "empty_gradient_midloop"
    assert done.session.best_iter == 1


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Step(critique=c) for c in (0.4, 0.3, 0.2, 0.1)], "regression"),
        ([Step(critique=0.4)] * 4, "plateau"),
        ([Step(seconds=700), Step(seconds=600), BETTER], "wall_time_exhausted"),
        ([WORSE, BETTER], "max_iterations"),
    ],
)
async def test_the_four_stops(tmp_path: Path, steps: list[Step], reason: str) -> None:
    done = await refined(seed_in(tmp_path), *steps)
    assert on_disk(done)["stop_reason"] == reason
    assert done.session.completed_at


@pytest.mark.parametrize(
    ("step", "note"),
    [
        (Step(critique=1, evaluation=1, status="failed"), "it failed"),
        (Step(critique=1, evaluation=1, status="aborted"), "it aborted"),
        (Step(critique=1, evaluation=1, files={}), "it delivered nothing"),
        (Step(critique=1, evaluation=1, files={"report.md": "draft\n"}), "exactly the files"),
        (Step(critique=None, evaluation=1), "the critic did not score it"),
        (Step(critique=1, evaluation=None), "no metric scored it"),
        (Step(critique=1, evaluation=1, missing=("m",)), "the metric m has no score"),
    ],
)
async def test_what_can_never_win(tmp_path: Path, step: Step, note: str) -> None:
    # A seed as bad as can be, so that every neutral value would beat it.
    seed = seed_in(tmp_path, critique=0.0, evaluation=0.0)
    done = await refined(seed, step)
    assert done.session.best_iter == 0
    assert note in done.notes[0]
    assert not (seed / "BEST").exists()


async def test_an_equal_loss_does_not_win(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path), Step())
    assert done.session.best_iter == 0


async def test_files_that_are_gone_are_named(tmp_path: Path) -> None:
    seed = seed_in(tmp_path, files={"report.md": "draft\n", "deep/table.csv": "1\n"})
    done = await refined(seed, Step(critique=0.9, files={"report.md": "new\n"}))
    assert done.notes == ["it no longer has deep/table.csv"]
    assert done.session.best_iter == 0
    assert not (seed / "BEST").exists()


async def test_files_may_be_left_out_if_the_user_says_so(tmp_path: Path) -> None:
    seed = seed_in(tmp_path, files={"report.md": "draft\n", "deep/table.csv": "1\n"})
    step = Step(critique=0.9, files={"report.md": "new\n"})
    done = await refined(seed, step, allow_missing_files=True)
    assert done.notes == ["it no longer has deep/table.csv"]
    assert done.session.best_iter == 1


@pytest.mark.parametrize(
    ("seed_files", "files", "gone"),
    [
        ({"a/x.md": "1", "b/x.md": "2"}, {"a/x.md": "3"}, ["b/x.md"]),
        ({"a/x.md": "1", "b/x.md": "2"}, {"x.md": "3", "b/x.md": "2"}, []),
        ({"x.md": "1"}, {"x.md": "", "y.md": "2"}, ["x.md"]),
        ({"x.md": ""}, {"y.md": "2"}, []),
    ],
)
def test_which_files_are_missing(
    tmp_path: Path, seed_files: dict[str, str], files: dict[str, str], gone: list[str]
) -> None:
    for folder, contents in (("seed", seed_files), ("new", files)):
        for name, text in contents.items():
            put(tmp_path / folder / name, text)
    assert missing_files(tmp_path / "seed", tmp_path / "new") == gone


async def test_names_of_any_bytes_and_halves_of_characters(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff.md")
    seed = seed_in(tmp_path, files={odd: "x"}, defects=("half \ud800",), run_id="../else")
    done = await refined(seed, Step(critique=0.9))
    assert done.session.stop_reason == "max_iterations"
    assert "it no longer has" in done.notes[0]
    assert done.script.jobs[0].parent_run_id == "seed"


async def test_best_never_gets_worse_from_session_to_session(tmp_path: Path) -> None:
    seed = seed_in(tmp_path)
    await refined(seed, Step(critique=0.9))
    before = (seed / "BEST" / "manifest.json").read_bytes()
    done = await refined(seed, Step(critique=0.8))
    assert (done.session.best_iter, done.session.best_written) == (1, False)
    assert "BEST already has a loss of 0.2300" in done.notes[0]
    assert (seed / "BEST" / "manifest.json").read_bytes() == before
    again = await refined(seed, Step(critique=0.95))
    assert again.session.best_written


async def test_a_crash_is_a_session_and_no_traceback(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path), BETTER, Step(error=ZeroDivisionError("oh")), BETTER)
    said = on_disk(done)
    assert (said["stop_reason"], said["error"]) == ("error:ZeroDivisionError", "oh")
    assert (said["best_iter"], len(said["iterations"])) == (1, 1)
    assert not done.session.resumable
    assert done.report == "draft 1\n"


async def test_a_best_that_cannot_be_written_is_said_loudly(tmp_path: Path) -> None:
    files = {"manifest.burnish.json": "mine", "report.md": "new\n"}
    done = await refined(seed_in(tmp_path), Step(critique=0.9, files=files))
    assert done.session.stop_reason == "error:FileTrouble"
    assert not done.session.best_written


async def test_a_deliverable_that_vanished(tmp_path: Path) -> None:
    seed = seed_in(tmp_path)

    def vanish(job: IterationJob) -> None:
        if job.folder.parent.name == "iter_1":
            (seed / "FINAL").rename(seed / "elsewhere")

    done = await refined(seed, Step(status="failed"), WORSE, before=vanish)
    assert done.session.stop_reason == "no_prior_deliverable"


@pytest.mark.parametrize(
    "error", [Interrupted("enough"), ResumeRefused("changed"), asyncio.CancelledError()]
)
async def test_what_interrupts_leaves_a_session_that_can_go_on(
    tmp_path: Path, error: BaseException
) -> None:
    seed = seed_in(tmp_path)
    with pytest.raises(type(error)):
        await refined(seed, BETTER, Step(error=error), Step(critique=0.9))
    (path,) = (seed / SESSIONS).glob("*.json")
    said = json.loads(path.read_text(encoding="utf-8"))
    assert (said["stop_reason"], said["completed_at"]) == ("interrupted", None)
    assert len(said["iterations"]) == 1


async def test_going_on_finds_its_own_best_there(tmp_path: Path) -> None:
    steps = (BETTER, Step(critique=0.9))
    done = await refined(seed_in(tmp_path), *steps)
    again = await refined(done.seed, *steps, session=done.session)
    assert again.session.iterations == done.session.iterations
    assert again.session.best_written


async def test_the_session_is_on_disk_after_every_step(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(_: object) -> None:
        (path,) = (tmp_path / "seed" / SESSIONS).glob("*.json")
        seen.append(len(json.loads(path.read_text(encoding="utf-8"))["iterations"]))

    done = await refined(seed_in(tmp_path), WORSE, WORSE, before=look)
    assert seen == [0, 1]
    assert [each.stop_reason for each in done.shown] == ["running"] * 3 + ["max_iterations"]


async def test_tiers_and_models(tmp_path: Path) -> None:
    seed = seed_in(tmp_path, models={"manager": "m", "worker": "w"})
    tiers = TierPlan(
        pairs={
            Tier.LOW: ModelPair(worker="weak"),
            Tier.HIGH: ModelPair(manager="strong", worker="strong"),
        }
    )
    done = await refined(seed, WORSE, BETTER, WORSE, tiers=tiers)
    rows = [(r.tier, r.model_manager, r.model_worker) for r in done.session.iterations]
    assert rows == [("low", "m", "weak"), ("mid", "m", "w"), ("high", "strong", "strong")]
    assert on_disk(done)["tier_plan_used"] is True
    plain = await refined(seed, WORSE, models=ModelPair(manager="other"))
    row = plain.session.iterations[0]
    assert (row.tier, row.model_manager, row.model_worker) == (None, "other", "w")
    assert plain.session.tier_plan_used is None


async def test_damage_in_an_iteration_is_an_error_of_the_session(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path), Step(error=FileTrouble("the disk is full")))
    assert done.session.stop_reason == "error:FileTrouble"
    assert done.session.error == "the disk is full"
    assert done.session.resumable, "the disk may have room again"
