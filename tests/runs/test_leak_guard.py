"""What an agent, a metric or a role repeats of held-out cases reaches no role, and ends nothing."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Outcome, Split
from burnish.core.errors import HoldoutLeak
from burnish.core.evaluations import Score
from burnish.core.leaks import WITHHELD, HeldText, HeldTexts
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Trial
from burnish.runs.directory import RunRecord
from burnish.runs.events import TextWithheld, Warned, read_all
from burnish.runs.report_sections import headline
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing import ScriptedRole, ScriptedTarget
from burnish.testing.doubles import FreeMetric
from tests.runs.small import Plan, driven, longer, small

SECRET = "the blue lamp of order 4711 is still in the warehouse"
HELD = Case.single("where is the lamp?", SECRET, name="lamp")


def parrot(candidate: Candidate, case: Case, draw: int) -> str:
    """Says what a held-out case expects."""
    del candidate, draw
    return f"As I once heard: {SECRET.upper()}!" if case.id == "t1" else "no idea"


@dataclass
class Critic:
    """A role that notes what it is asked."""

    says: str = "ok"
    seen: list[str] = field(default_factory=list[str])

    @property
    def role(self) -> ScriptedRole[str, str]:
        def respond(request: str, draw: int) -> str:
            del draw
            self.seen.append(request)
            return self.says

        return ScriptedRole(name="critic", respond=respond, request_type=str, answer_type=str)

    async def steps(self, run: Run) -> None:
        """Show everything that train runs say, and what the role said before, three times."""
        said = ""
        for number in range(3):
            candidate = run.target.baseline if number == 0 else longer(run.target.baseline)
            train = await run.evaluate(candidate, split=Split.TRAIN)
            scores = [s.reason for result in train.results for s in result.scores]
            replies = [result.outcome.output for result in train.results]
            said = await run.ask(self.role, "\n".join([*replies, *scores, said]), draw=number)
            result = SplitResult.of(train, run.objective)
            phase = "letters" if number else "baseline"
            run.record(Trial(candidate=candidate, phase=phase, train=result))


def made(critic: Critic, **more: object) -> Setup:
    setup = small(**{"steps": critic.steps, "roles": [critic.role], **more})  # pyright: ignore
    return replace(setup, dataset=replace(setup.dataset, holdout=(HELD,)))


async def test_what_an_agent_repeats_is_withheld_and_reported_once(tmp_path: Path) -> None:
    critic = Critic()
    await driven(made(critic, agent=parrot), tmp_path / "run")
    assert len(critic.seen) == 3
    assert all(f"As I once heard: {WITHHELD}" in each for each in critic.seen)
    assert not any("4711" in each for each in critic.seen)
    record = RunRecord.read(tmp_path / "run")
    (event,) = read_all(record.events, TextWithheld)
    assert (event.name, event.role, event.trial) == ("lamp", "critic", 0)
    assert event.source == f"the run of 't1' with candidate {record.rows[0].trial.candidate.id}"
    assert [w.message for w in read_all(record.events, Warned)] == [event.words]
    assert any(event.words in str(section) for section in headline(record))
    assert "4711" not in json.dumps([str(row.trial.proposals) for row in record.rows])


async def test_a_resumed_run_asks_the_same_again_and_pays_nothing(tmp_path: Path) -> None:
    critic = Critic()
    await driven(made(critic, agent=parrot), tmp_path / "run")
    again = Critic()
    await driven(made(again, agent=parrot), tmp_path / "run")
    assert again.seen == []


@dataclass(frozen=True, kw_only=True)
class Telling(FreeMetric):
    """A metric whose reason quotes a held-out case."""

    name: str = "expected_text"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, outcome, effects
        return [Score(metric=self.name, value=0.0, reason=f"unlike {SECRET}")]


async def test_the_reasons_of_a_metric_are_withheld_too(tmp_path: Path) -> None:
    critic = Critic()
    await driven(made(critic, metrics=(Telling(),)), tmp_path / "run")
    assert critic.seen
    assert all(f"unlike {WITHHELD}" in each for each in critic.seen)


async def test_what_a_role_says_of_holdout_is_not_shown_to_it_again(tmp_path: Path) -> None:
    critic = Critic(says=f"I know that {SECRET}")
    await driven(made(critic), tmp_path / "run")
    assert [f"I know that {WITHHELD}" in each for each in critic.seen] == [False, True, True]
    (event,) = read_all(RunRecord.read(tmp_path / "run").events, TextWithheld)
    assert event.source == "an answer of the critic"


async def test_a_strategy_that_shows_holdout_itself_is_stopped(tmp_path: Path) -> None:
    critic = Critic()

    async def steps(run: Run) -> None:
        await run.evaluate(run.target.baseline, split=Split.HOLDOUT)
        await run.ask(critic.role, SECRET)

    setup = replace(made(critic, agent=parrot), strategy=Plan(steps=steps, roles=[critic.role]))
    with pytest.raises(HoldoutLeak, match="'lamp'"):
        await driven(setup, tmp_path / "run")
    assert critic.seen == []


@dataclass(frozen=True, kw_only=True)
class FilesTarget(ScriptedTarget):
    """A target with a held-out file."""

    @property
    def held_texts(self) -> HeldTexts:
        return HeldTexts(secret=(HeldText(name="held/lamp.txt", text=SECRET),))


async def test_the_held_out_files_of_a_target_are_withheld_and_may_not_be_proposed(
    tmp_path: Path,
) -> None:
    critic, problems = Critic(), list[str]()

    async def steps(run: Run) -> None:
        await critic.steps(run)
        child = longer(run.target.baseline)
        told = child.child({"text": f"{{q}} {SECRET}"}, origin=child.origin)
        problems.extend(map(str, await run.check(told, parent=child)))

    setup = small(steps=steps, agent=parrot, roles=[critic.role])
    base = setup.target
    assert isinstance(base, ScriptedTarget)
    target = FilesTarget(respond=parrot, surfaces=base.surfaces, values=base.values)
    data = Dataset(train=setup.dataset.train)
    await driven(replace(setup, target=target, dataset=data), tmp_path / "run")
    assert all(WITHHELD in each and "4711" not in each for each in critic.seen)
    (event,) = read_all(RunRecord.read(tmp_path / "run").events, TextWithheld)
    assert event.name == "held/lamp.txt"
    assert problems == ["text: it contains text of 'held/lamp.txt', which is held out"]
