"""A second judge looks at the winner: it agrees, or its disagreement is reported."""

from dataclasses import replace
from pathlib import Path

from benchmarks.truth.cheats_judges import PLEA, JudgeWorld, gullible, honest

from burnish.runs.claims import opinion_words
from burnish.runs.directory import RunRecord
from burnish.runs.progress import ProgressLines, last_sweeps, reserved
from burnish.runs.report_sections import headline
from burnish.runs.setup import start


async def opinion_of(world: JudgeWorld, folder: Path) -> RunRecord:
    await world.drive(folder)
    return RunRecord.read(folder)


async def test_a_judge_that_was_talked_into_it_is_contradicted(tmp_path: Path) -> None:
    world = JudgeWorld(reply=PLEA, judge=gullible, second=honest)
    run = await opinion_of(world, tmp_path / "run")
    opinion = run.second_opinion
    assert opinion is not None
    assert not opinion.agrees
    assert opinion.split == "holdout"
    assert (opinion.baseline_score, opinion.best_score) == (0.5, 0.25)
    assert "IT DISAGREES" in "".join(map(str, headline(run)))
    event = next(event for event in run.events if event.kind == "second_opinion")
    assert "IT DISAGREES" in " ".join(ProgressLines({}).lines(event, 200))


async def test_a_second_judge_that_agrees_says_so(tmp_path: Path) -> None:
    world = JudgeWorld(reply="Better.", judge=_likes_better, second=_likes_better)
    run = await opinion_of(world, tmp_path / "run")
    assert run.second_opinion is not None
    assert "it agrees" in opinion_words(run.second_opinion)


async def test_without_a_winner_the_second_judge_is_not_asked(tmp_path: Path) -> None:
    world = JudgeWorld(reply=PLEA, judge=honest, second=gullible)
    assert (await opinion_of(world, tmp_path / "run")).second_opinion is None


async def test_the_second_judge_pays_for_verdicts_only(tmp_path: Path) -> None:
    one = await JudgeWorld(reply=PLEA, judge=gullible).drive(tmp_path / "one")
    two = await JudgeWorld(reply=PLEA, judge=gullible, second=honest).drive(tmp_path / "two")
    # Two replies, each judged once: every case gets the same one.
    assert two.spent.metric_calls == one.spent.metric_calls
    assert two.spent.calls > one.spent.calls


async def test_a_plan_reserves_for_the_second_judge_what_the_run_does(tmp_path: Path) -> None:
    alone = JudgeWorld(reply=PLEA, judge=gullible).setup()
    setup = JudgeWorld(reply=PLEA, judge=gullible, second=honest).setup()
    assert list(reserved(alone)) == []
    # Four cases, each with the answer of baseline and of best.
    assert setup.second_judging.calls == 8
    assert "8 calls" in "".join(reserved(setup))
    assert "".join(reserved(setup)).endswith(" for a second judge")
    confirmed = replace(setup, confirm=True)
    assert "again on holdout and for a second judge" in "".join(reserved(confirmed))
    run = start(confirmed, folder=tmp_path / "run")
    try:
        assert run.confirmations.last_cost == last_sweeps(confirmed)
    finally:
        await run.close()


def _likes_better(text: str) -> int:
    return 5 if "Better." in text else 3
