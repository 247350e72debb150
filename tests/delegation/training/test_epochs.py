"""Training by epochs: what is proposed, what stays, what is rolled back, and on what evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome
from burnish.core.content import short_id
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective, Score
from burnish.core.leaks import WITHHELD
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import TrialRow, Verdict
from burnish.delegation.training.epochs import ROLE, Epochs, TextGrad, TextGradRequest
from burnish.delegation.training.setup import EpochSettings, step_words
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, start
from burnish.testing.doubles import ScriptedRole, ScriptedTarget, check_strategy

LOSSES: Mapping[str, float] = {"start": 0.5, "better": 0.3, "best": 0.1, "worse": 0.8, "alike": 0.5}
"""By what the text `rules` says."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A metric that believes what the reply says."""

    name: str = "stated"

    @property
    def fingerprint(self) -> str:
        return short_id(self.name)

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        loss = float(outcome.output)
        reason = f"loss {loss}\ndefect [warning] (style) a.md: dull\ngate l0 sent it back: TODO"
        return [Score(metric=self.name, value=1 - loss, passed=False, reason=reason)]


@dataclass(kw_only=True)
class World:
    """Texts whose loss is known, and a role that proposes what the test wants."""

    answers: Callable[[TextGradRequest, int], TextGrad]
    holdout: Callable[[str], float] | None = None
    jitter: float = 0.0
    """How far two draws lie apart."""
    lost: Callable[[Candidate, Case], bool] = lambda _c, _k: False
    asked: list[TextGradRequest] = field(default_factory=list[TextGradRequest])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def setup(self) -> Setup:
        held = (Case.single("a task that nobody may learn from", name="held"),)
        return Setup(
            target=ScriptedTarget(
                respond=self._run,
                surfaces=[TextSurface(id="rules", max_chars=40), TextSurface(id="tone")],
                values={"rules": "start", "tone": "plain"},
            ),
            metrics=(Stated(),),
            objective=Objective(weights={"stated": 1.0}),
            dataset=Dataset(
                train=tuple(Case.single(f"do {n}", name=f"t{n}") for n in range(4)),
                holdout=held if self.holdout else (),
            ),
            strategy=Epochs(
                settings=EpochSettings(epochs=4).model_copy(update={**self.settings}),
                proposer=ScriptedRole(
                    name=ROLE,
                    respond=self._answer,
                    answer_type=TextGrad,
                    request_type=TextGradRequest,
                ),
            ),
        )

    async def rows(self, folder: Path) -> list[TrialRow]:
        run = start(self.setup(), folder=folder / "run")
        try:
            await drive(run)
            self.best = run.incumbent
            numbers = range(run.directory.journal.trials_recorded)
            return [row for n in numbers if (row := run.directory.trial(n)) is not None]
        finally:
            await run.close()

    def _run(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        text = str(candidate.values["rules"])
        if self.lost(candidate, case):
            gone = Failure(kind=FailureKind.INFRASTRUCTURE, message="nobody answers")
            return Outcome(failure=gone)
        loss = LOSSES[text]
        if case.name == "held" and self.holdout is not None:
            loss = self.holdout(text)
        return Outcome(replies=(str(loss + (self.jitter if draw % 2 else -self.jitter)),))

    def _answer(self, request: TextGradRequest, draw: int) -> TextGrad:
        self.asked.append(request)
        return self.answers(request, draw)


def grad(text: str, content: str, promise: float = 0.2, confidence: float = 0.9) -> TextGrad:
    return TextGrad(
        artifact_name=text,
        proposed_content=content,
        rationale=f"try {content}",
        expected_loss_reduction=promise,
        confidence=confidence,
    )


NOBODY = TextGrad(rationale="not to blame")


def rules(*contents: str) -> Callable[[TextGradRequest, int], TextGrad]:
    """Proposes these for `rules`, one an epoch; the last one stays."""

    def answer(request: TextGradRequest, draw: int) -> TextGrad:
        if request.artifact_name != "rules":
            return NOBODY
        return grad("rules", contents[min(draw // 2 - 2, len(contents) - 1)])

    return answer


async def test_each_gain_stays_and_is_built_on(tmp_path: Path) -> None:
    world = World(answers=rules("better", "best"), settings={"epochs": 3})
    rows = await world.rows(tmp_path)
    assert [row.trial.accepted for row in rows] == [False, True, True]
    assert world.best.values == {"rules": "best", "tone": "plain"}
    assert [row.trial.details["epoch"] for row in rows] == [1, 2, 3]


async def test_the_proposer_sees_defects_gates_and_its_step_but_no_holdout(tmp_path: Path) -> None:
    world = World(answers=rules("better"), holdout=lambda text: LOSSES[text])
    await world.rows(tmp_path)
    first = world.asked[0]
    assert "defect [warning] (style) a.md: dull" in first.runs
    assert "gate l0 sent it back: TODO" in first.runs
    assert first.learning_rate == "0.5: up to about half of the lines may change"
    assert first.mean_loss == "0.5000"
    assert "## tone\nplain" in first.other_texts
    assert not any("nobody may learn" in request.model_dump_json() for request in world.asked)


async def test_the_most_promising_answer_wins(tmp_path: Path) -> None:
    def both(request: TextGradRequest, draw: int) -> TextGrad:
        if request.artifact_name == "rules":
            return grad("rules", "better", 0.3, 0.5)
        return grad("tone", "kind", 0.9, 0.1)

    rows = await World(answers=both, settings={"epochs": 2}).rows(tmp_path)
    assert rows[1].trial.touched == ("rules",)
    assert len(rows[1].trial.proposals) == 2, "what was not taken is on record too"


async def test_a_regression_is_rolled_back_and_the_step_halved(tmp_path: Path) -> None:
    world = World(answers=rules("better", "worse", "alike", "best"), settings={"epochs": 5})
    rows = await world.rows(tmp_path)
    assert [row.trial.accepted for row in rows] == [False, True, False, False, True]
    assert [row.trial.details["learning_rate"] for row in rows] == [0.5, 0.5, 0.5, 0.25, 0.125]
    # `alike` is better than `worse`, which came before it, and worse than the best.
    decision = rows[3].trial.decision
    assert decision is not None
    assert decision.numbers["best_train_mean_before"] == pytest.approx(0.3)
    assert world.asked[-2].current_text == "better", "proposals start from the best"
    assert "rules: try worse → train got worse by 0.5" in world.asked[-1].tried


async def test_a_gain_within_the_noise_does_not_stay(tmp_path: Path) -> None:
    world = World(answers=rules("better"), jitter=0.19, settings={"epochs": 2})
    rows = await world.rows(tmp_path)
    decision = rows[1].trial.decision
    assert decision is not None
    assert (decision.code, decision.accepted) == ("noise", False)
    assert world.best.values["rules"] == "start"


async def test_an_equal_loss_does_not_stay(tmp_path: Path) -> None:
    rows = await World(answers=rules("alike"), settings={"epochs": 2}).rows(tmp_path)
    assert rows[1].trial.decision is not None
    assert rows[1].trial.decision.code == "tie"


async def test_holdout_decides(tmp_path: Path) -> None:
    world = World(answers=rules("better"), holdout=lambda text: 0.9 if text == "better" else 0.2)
    rows = await world.rows(tmp_path)
    assert rows[1].trial.decision is not None
    assert rows[1].trial.decision.code == "holdout"
    assert world.best.values["rules"] == "start"


async def test_without_rollback_a_regression_stays_but_does_not_lead(tmp_path: Path) -> None:
    world = World(answers=rules("worse", "best"), settings={"epochs": 3, "rollback": False})
    rows = await world.rows(tmp_path)
    assert rows[1].trial.decision is not None
    assert rows[1].trial.decision.verdict is Verdict.KEEP
    assert rows[1].trial.details["stays"] is True
    assert [request.current_text for request in world.asked[2:]] == ["worse", "plain"]
    assert rows[2].trial.accepted
    assert rows[2].trial.decision is not None
    assert rows[2].trial.decision.numbers["best_train_mean_before"] == 0.5


async def test_what_is_too_long_or_seen_costs_no_run(tmp_path: Path) -> None:
    world = World(answers=rules("better" * 20, "worse", "worse"))
    rows = await world.rows(tmp_path)
    told = ["; ".join(map(str, row.trial.problems)) for row in rows]
    assert "120 characters, 40 are allowed" in told[1]
    assert told[2] == ""
    assert told[3], "the same again is turned away"
    assert [row.trial.train is None for row in rows] == [False, True, False, True]


async def test_after_a_repeated_proposal_the_next_best_is_tried(tmp_path: Path) -> None:
    def answers(request: TextGradRequest, draw: int) -> TextGrad:
        if request.artifact_name == "tone":
            return grad("tone", "kind", 0.9)  # changes nothing, whatever it promises
        return grad("rules", "better", 0.1)

    world = World(answers=answers, settings={"epochs": 3})
    rows = await world.rows(tmp_path)
    assert [row.trial.touched for row in rows[1:]] == [("tone",), ("rules",)]
    assert [row.trial.accepted for row in rows[1:]] == [False, True]
    assert len(rows) == 3, "an epoch is one trial"


async def test_the_texts_that_were_tried_are_shown(tmp_path: Path) -> None:
    world = World(answers=rules("worse", "worse", "better"), settings={"epochs": 4})
    await world.rows(tmp_path)
    latest = {request.artifact_name: request for request in world.asked}
    assert latest["rules"].tried.splitlines()[1] == "  | worse"
    assert latest["rules"].tried.count("try worse") == 1, "what comes again is shown once"
    assert "  | worse" not in latest["tone"].tried
    assert "try worse" in latest["tone"].tried


async def test_what_a_text_tells_of_a_held_out_case_is_not_shown_again(tmp_path: Path) -> None:
    secret = "a task that nobody may learn from"
    world = World(
        answers=rules(secret, "better"), holdout=lambda t: LOSSES[t], settings={"epochs": 3}
    )
    rows = await world.rows(tmp_path)
    assert "which is held out" in str(rows[1].trial.problems[0])
    assert rows[2].trial.accepted
    assert not any(secret in str(request) for request in world.asked)
    assert any(WITHHELD in request.tried for request in world.asked)


async def test_it_ends_when_nobody_sees_anything_to_change(tmp_path: Path) -> None:
    rows = await World(answers=lambda _request, _draw: NOBODY).rows(tmp_path)
    assert len(rows) == 2
    assert rows[1].trial.train is None


async def test_a_role_that_fails_is_asked_again(tmp_path: Path) -> None:
    def sometimes(request: TextGradRequest, draw: int) -> TextGrad:
        if draw < 6:
            raise RoleFailed("no answer")
        return rules("better")(request, 4)

    rows = await World(answers=sometimes, settings={"epochs": 3}).rows(tmp_path)
    assert [row.trial.accepted for row in rows] == [False, False, True]


async def test_when_too_much_is_missing_nobody_can_tell(tmp_path: Path) -> None:
    def half(candidate: Candidate, case: Case) -> bool:
        return candidate.values["rules"] == "better" and case.name in ("t0", "t1")

    world = World(answers=rules("better"), lost=half, settings={"epochs": 2})
    rows = await world.rows(tmp_path)
    assert rows[1].trial.decision is not None
    assert rows[1].trial.decision.verdict is Verdict.CANNOT_TELL
    assert world.best.values["rules"] == "start"


async def test_without_a_role_the_suite_is_only_measured(tmp_path: Path) -> None:
    world = World(answers=rules("better"), jitter=0.1)
    setup = world.setup()
    measured = Epochs(settings=EpochSettings(epochs=3, repeats=1))
    run = start(replace(setup, strategy=measured), folder=tmp_path / "run")
    try:
        ending = await drive(run)
    finally:
        await run.close()
    assert ending.spent.metric_calls == 12, "every epoch runs every task anew"
    assert world.asked == []


async def test_it_keeps_the_contract_of_strategies(tmp_path: Path) -> None:
    world = World(answers=rules("better", "worse", "best"), holdout=lambda text: LOSSES[text])
    ending = await check_strategy(world.setup, tmp_path, cut_at=1)
    assert ending.best.values["rules"] == "best"


def test_a_smaller_rate_is_a_smaller_step() -> None:
    told = [step_words(rate) for rate in (1.0, 0.5, 0.25, 0.05)]
    assert len(set(told)) == 4
