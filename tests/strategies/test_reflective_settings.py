"""Settings, what the search needs of a target, and the least it costs."""

from dataclasses import replace

import pytest

from burnish.core.cases import Dataset
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Objective
from burnish.core.money import Spend
from burnish.core.surfaces import NumberSurface, Surface, TextSurface, Value
from burnish.core.trials import Standing
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.partial_evaluations import require_splits
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.plugin import ReflectivePlugin
from burnish.strategies.reflective.search import Reflective
from burnish.strategies.trail import deciding_cases, nearly_over
from burnish.testing import ScriptedTarget
from tests.strategies.coordinate_runs import always
from tests.strategies.reflection_world import World, dataset, reflector

STRATEGY = Reflective(reflector=reflector(World()))
CLASSIC = ReflectiveSettings(parent_selection="pareto", racing=False)
TEXT = TextSurface(id="system", placeholders=("{name}",))
NUMBER = NumberSurface(id="temperature", low=0.0, high=1.0)


def target(*surfaces: Surface, **values: Value) -> ScriptedTarget:
    return ScriptedTarget(respond=always("yes"), surfaces=surfaces, values=values)


def strategy(*fields: str) -> Reflective:
    return replace(STRATEGY, settings=ReflectiveSettings(fields=fields))


def test_it_rewrites_every_text_and_nothing_else_unless_texts_are_named() -> None:
    made = target(
        TEXT, NUMBER, TextSurface(id="skill"), system="{name}", temperature=0.5, skill="s"
    )
    assert STRATEGY.fields(made) == ["system", "skill"]
    assert strategy("skill").fields(made) == ["skill"]
    assert not STRATEGY.mismatch(made)


@pytest.mark.parametrize(
    ("fields", "values", "told"),
    [
        ((), {"temperature": 0.5}, "there is no text to rewrite"),
        (("skill",), {"system": "{name}"}, "there is no such text surface"),
        ((), {"system": "hello"}, "{name}"),
    ],
)
def test_what_does_not_fit_is_said_before_the_start(
    fields: tuple[str, ...], values: dict[str, Value], told: str
) -> None:
    surfaces = [surface for surface in (TEXT, NUMBER) if surface.id in values]
    problems = strategy(*fields).mismatch(target(*surfaces, **values))
    assert any(told in str(problem) for problem in problems)


def test_other_settings_are_another_strategy() -> None:
    assert STRATEGY.fingerprint == replace(STRATEGY, settings=ReflectiveSettings()).fingerprint
    assert STRATEGY.fingerprint != replace(STRATEGY, settings=CLASSIC).fingerprint


def test_both_splits_are_needed() -> None:
    some = dataset(World(train=3, holdout=3))
    require_splits(some, "reflective search")
    with pytest.raises(ConfigError, match="holdout"):
        require_splits(Dataset(train=some.train), "reflective search")


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        (ReflectiveSettings(), 8 + 2 * 8 + 6),
        (CLASSIC, 10 + 10 + 6),
        (ReflectiveSettings(repeats=2), 2 * (8 + 2 * 8 + 6)),
        (ReflectiveSettings(proposals_per_round=3), 8 + 2 * 8 + 18),
        (CLASSIC.model_copy(update={"proposals_per_round": 3}), 10 + 3 * 10 + 18),
        (ReflectiveSettings(minibatch=50), 8 + 2 * 8 + 2 * 8),
    ],
)
def test_the_least_is_the_baseline_and_one_whole_round(
    settings: ReflectiveSettings, least: int
) -> None:
    setup = Setup(
        target=target(TEXT, system="{name}"),
        metrics=(),
        objective=Objective(weights={}),
        dataset=dataset(World(train=8, holdout=10)),
        strategy=replace(STRATEGY, settings=settings),
    )
    first = ReflectivePlugin().first_round(setup)
    assert first.whole.metric_calls == least
    assert first.whole.calls == least + settings.proposals_per_round


@pytest.mark.parametrize(
    ("whole", "room", "count"), [(40, 40, 40), (40, 25, 25), (40, 5, 8), (6, 5, 6), (8, 0, 8)]
)
def test_small_limits_decide_on_as_many_cases_as_fit_and_at_least_eight(
    whole: int, room: int, count: int
) -> None:
    assert deciding_cases(whole, lambda cases: cases <= room) == count


ROUND = Spend(metric_calls=20)


@pytest.mark.parametrize(
    ("budget", "now"),
    [
        (Budget(), False),
        (Budget(max_trials=12), False),
        (Budget(max_trials=11), True),
        (Budget(patience=7), False),
        (Budget(patience=6), True),
        (Budget(max_proposals=10), False),
        (Budget(max_proposals=9), True),
        (Budget(max_tracked_candidates=5), False),
        (Budget(max_tracked_candidates=4), True),
        (Budget(max_metric_calls=120), False),
        (Budget(max_metric_calls=119), True),
    ],
)
def test_a_limit_is_near_when_one_more_round_would_reach_it(budget: Budget, now: bool) -> None:
    standing = Standing(
        spent=Spend(metric_calls=100),
        trials=10,
        proposals=8,
        since_accept=5,
        tracked_candidates=3,
    )
    assert nearly_over(budget, standing, ROUND) is now


def test_a_round_of_several_proposals_comes_near_sooner() -> None:
    standing = Standing(trials=7, proposals=7, since_accept=7)
    assert not nearly_over(Budget(max_trials=11), standing, ROUND, trials=3, proposals=6)
    assert nearly_over(Budget(max_trials=10), standing, ROUND, trials=3, proposals=6)
    assert nearly_over(Budget(max_proposals=13), standing, ROUND, trials=3, proposals=6)
    assert nearly_over(Budget(patience=10), standing, ROUND, trials=3, proposals=6)
