"""How a search ends and goes on: cycles, budgets, nothing to gain, and what is on disk by then."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.errors import BaselineUnmeasured, ResumeRefused, TargetMismatch
from burnish.core.evaluations import Penalties
from burnish.core.surfaces import Candidate, ChoiceSurface, NumberSurface, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.events import Event, Tick
from burnish.runs.setup import Setup, start
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.testing import check_strategy
from burnish.testing.doubles import story
from tests.strategies import tuning_world
from tests.strategies.coordinate_runs import ONE, Driven, always, driven, scripted, with_settings
from tests.strategies.tuning_world import TuningWorld

pytestmark = pytest.mark.slow

SMALL = tuning_world.AXES.model_copy(
    update={
        "repeats": 1,
        "max_cycles": 2,
        "numeric_phase": PhaseLimits(max_trials=4, patience=3),
        "textual_phase": PhaseLimits(max_trials=3, patience=2),
        "demonstration_phase": PhaseLimits(max_trials=3, patience=2),
    }
)


def small(world: TuningWorld | None = None, settings: CoordinateSettings = SMALL) -> Setup:
    return tuning_world.setup(world or TuningWorld(train=6, holdout=4), settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """The run that nobody interrupts."""
    return driven(small(), tmp_path_factory.mktemp("whole") / "run")


async def test_the_contract_of_strategies_is_kept(tmp_path: Path) -> None:
    ending = await check_strategy(lambda: small(TuningWorld(train=6, holdout=4, test=3)), tmp_path)
    assert ending.sealed is not None


@pytest.mark.slow
@pytest.mark.parametrize("cut_at", [1, 5, 9])
async def test_it_is_kept_wherever_the_run_is_cut(tmp_path: Path, cut_at: int) -> None:
    world = TuningWorld(train=6, holdout=4, noise=0.05, crash_rate=0.02, outage_rate=0.02)
    await check_strategy(lambda: small(world), tmp_path, cut_at=cut_at)


def flat(budget: Budget | None = None) -> Setup:
    """One trial that brings nothing: 6 calls for the baseline, 4 of at most 6 for the trial."""
    return scripted(
        always("no"),
        (NumberSurface(id="x", low=0.0, high=1.0),),
        {"x": 0.5},
        CoordinateSettings(numbers=("x",), repeats=1, numeric_phase=ONE),
        budget=budget,
    )


def test_a_cycle_without_an_accept_is_the_last(tmp_path: Path) -> None:
    run = driven(flat(), tmp_path / "run")
    assert run.why == "dry_cycle"
    assert run.ending.reason.code == "finished"
    assert [row.trial.cycle for row in run.rows] == [0, 1]


def test_there_are_no_more_cycles_than_allowed_and_more_may_be_allowed_later(
    whole: Driven, tmp_path: Path
) -> None:
    one = driven(small(settings=SMALL.model_copy(update={"max_cycles": 1})), tmp_path / "run")
    assert one.why == "max_cycles"
    assert {row.trial.cycle for row in one.rows} == {0, 1}
    before = story(tmp_path / "run" / "trials.jsonl")
    two = driven(small(), tmp_path / "run")
    assert {row.trial.cycle for row in two.rows} == {0, 1, 2}
    after = story(tmp_path / "run" / "trials.jsonl")
    assert after[: len(before)] == before
    assert after == story(whole.folder / "trials.jsonl")
    fewer = driven(small(settings=SMALL.model_copy(update={"max_cycles": 1})), tmp_path / "run")
    assert fewer.ending.best.id == two.ending.best.id, "what is recorded happened"


def test_other_limits_of_phases_are_another_search(whole: Driven) -> None:
    with pytest.raises(ResumeRefused, match="strategy"):
        driven(small(settings=SMALL.model_copy(update={"textual_phase": ONE})), whole.folder)


@pytest.mark.parametrize(
    ("budget", "code"),
    [
        (Budget(max_calls=80), "max_calls"),
        (Budget(max_trials=4), "max_trials"),
        (Budget(max_usd=0.03), "max_usd"),
        (Budget(patience=2), "patience"),
    ],
)
def test_a_budget_stops_the_search_and_more_of_it_goes_on_alike(
    whole: Driven, tmp_path: Path, budget: Budget, code: str
) -> None:
    short = driven(replace(small(), budget=budget), tmp_path / "run")
    assert short.ending.reason.code == code
    assert not short.why, "it did not end by itself"
    if budget.max_calls is not None:
        assert short.ending.spent.calls <= budget.max_calls
    more = driven(small(), tmp_path / "run")
    assert story(more.folder / "trials.jsonl") == story(whole.folder / "trials.jsonl")
    assert more.ending.best.id == whole.ending.best.id
    assert more.ending.billed == whole.ending.billed
    assert more.ends() == whole.ends(), "a phase that was stopped has ended for its own reason"


def test_a_budget_that_does_not_pay_for_the_baseline_fails_the_run_until_there_is_more(
    whole: Driven, tmp_path: Path
) -> None:
    with pytest.raises(BaselineUnmeasured, match="max_calls: 0 of 5 calls spent"):
        driven(replace(small(), budget=Budget(max_calls=5)), tmp_path / "run")
    more = driven(small(), tmp_path / "run")
    assert story(more.folder / "trials.jsonl") == story(whole.folder / "trials.jsonl")
    assert more.ending.billed == whole.ending.billed


def test_a_search_that_is_over_is_not_stopped_by_a_budget_it_no_longer_needs(
    tmp_path: Path,
) -> None:
    run = driven(flat(Budget(max_calls=12)), tmp_path / "run")
    assert run.ending.spent.calls == 10, "two are left, and another trial would need six"
    assert run.ending.reason.code == "finished"
    assert run.why == "dry_cycle"


def test_where_the_baseline_is_perfect_nothing_is_tried(tmp_path: Path) -> None:
    axis = NumberSurface(id="x", low=0.0, high=1.0)
    settings = CoordinateSettings(numbers=("x",), repeats=1)
    run = driven(scripted(always("yes"), (axis,), {"x": 0.5}, settings), tmp_path / "run")
    assert len(run.rows) == 1
    assert run.why == "nothing_to_gain"
    assert not run.events("phase_started")
    assert run.ending.reason.code == "finished"


def test_once_nothing_can_be_gained_no_phase_goes_on_and_none_begins(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        return "yes" if candidate.values["way"] == "right" else "no"

    setup = small()
    assert isinstance(setup.strategy, Coordinate)
    settings = SMALL.model_copy(
        update={"numbers": ("way",), "texts": ("text",), "demonstrations": ""}
    )
    way = ChoiceSurface(id="way", choices=("wrong", "right"))
    run = driven(
        scripted(
            respond,
            (way, TextSurface(id="text")),
            {"way": "wrong", "text": "Answer."},
            settings,
            strategy=replace(setup.strategy, settings=settings),
        ),
        tmp_path / "run",
    )
    assert run.ends() == {(1, "numeric"): "nothing_to_gain"}
    assert run.rows[-1].trial.accepted
    assert not any(effect.kind.startswith("role:") for effect in run.effects)


def test_a_baseline_that_cannot_be_measured_is_not_searched_from(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        if case.id in ("q0", "q1"):
            raise ConnectionError("the endpoint is down")
        return "no"

    axis = NumberSurface(id="x", low=0.0, high=1.0)
    settings = CoordinateSettings(numbers=("x",), repeats=1)
    told = "of 4 cases of train, 2 are missing; in 2 cases: ConnectionError: the endpoint is down"
    with pytest.raises(BaselineUnmeasured, match=told):
        driven(scripted(respond, (axis,), {"x": 0.5}, settings), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("failed", 1)


def test_a_loss_that_needs_a_price_nobody_knows_is_not_searched_for(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
        return Outcome(replies=("no",), nano_usd=None)

    axis = NumberSurface(id="x", low=0.0, high=1.0)
    settings = CoordinateSettings(numbers=("x",), repeats=1)
    setup = scripted(respond, (axis,), {"x": 0.5}, settings)
    dear = replace(setup.objective, penalties=Penalties(cost_per_usd=1.0))
    with pytest.raises(BaselineUnmeasured, match="a price that the loss needs, is not known"):
        driven(replace(setup, objective=dear), tmp_path / "run")
    assert len(RunRecord.read(tmp_path / "run").rows) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (CoordinateSettings(), "nothing to tune"),
        (CoordinateSettings(numbers=("nowhere",)), "nowhere: there is no such surface"),
        (CoordinateSettings(numbers=("instructions",)), "of another kind"),
        (CoordinateSettings(demonstrations="model.temperature"), "of another kind"),
    ],
)
def test_settings_that_do_not_fit_the_target_are_refused(
    tmp_path: Path, settings: CoordinateSettings, message: str
) -> None:
    with pytest.raises(TargetMismatch, match=message):
        driven(with_settings(small(), settings), tmp_path / "run")


@dataclass
class Watching:
    """Looks at the run's folder whenever a trial is told."""

    folder: Path
    seen: list[tuple[int, int, bool]] = field(default_factory=list[tuple[int, int, bool]])

    def event(self, event: Event) -> None:
        if event.kind != "trial_recorded":
            return
        lines = (self.folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
        flat = (self.folder / "trajectory.csv").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        number = event.data["trial"]
        assert isinstance(number, int)
        self.seen.append((number, len(rows), len(flat) == len(rows) + 1))

    def tick(self, tick: Tick) -> None:
        """Cases are not looked at."""


@dataclass
class Backend:
    """Something that is held open."""

    closed: int = 0

    async def close(self) -> None:
        self.closed += 1


async def test_every_trial_is_on_disk_before_the_next_and_all_is_closed_once(
    tmp_path: Path,
) -> None:
    backend = Backend()
    run = start(replace(small(), resources=(backend,)), folder=tmp_path / "run")
    watching = Watching(tmp_path / "run")
    run.listen(watching)
    ending = await drive(run)
    assert backend.closed == 0
    await run.close()
    assert backend.closed == 1
    assert watching.seen == [(n, n + 1, True) for n in range(len(watching.seen))]
    assert len(watching.seen) > 8
    exported = json.loads((tmp_path / "run/candidates/best/candidate.json").read_text())
    assert exported["instructions"] == ending.best.values["instructions"]
