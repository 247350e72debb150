"""What holds for every gate and any evaluations: hypothesis looks for the exception."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import ACC, GATES, World, crashed, evaluation, lost, pairs, ran, table, without, worlds

from burnish.core.comparisons import Pair, compare
from burnish.core.evaluations import CaseResult, Evaluation, Penalties, mean
from burnish.core.trials import Decision, Verdict

lawful = settings(max_examples=50, deadline=None, derandomize=True)


def spoil(side: Evaluation, case: str, how: str) -> Evaluation:
    """The evaluation with one run of a case missing: the whole run, or one score of it."""
    runs = [i for i, result in enumerate(side.results) if result.case == case]
    broken = side.results[runs[-1]]
    if how == "lost" or not broken.scores:
        broken = lost(broken)
    else:
        gone = replace(broken.scores[0], value=None, passed=None)
        broken = replace(broken, scores=(gone, *broken.scores[1:]))
    results = list(side.results)
    results[runs[-1]] = broken
    return replace(side, results=tuple(results))


@st.composite
def spoilt_pairs(draw: st.DrawFn, pair: Pair) -> tuple[Pair, set[str], set[str]]:
    """The pair with some cases missing, and which: on the candidate's side, the incumbent's."""
    some = st.sets(st.sampled_from(pair.candidate.cases))
    here, there = draw(some), draw(some)
    how = draw(st.sampled_from(["lost", "unscored"]))
    new, old = pair.candidate, pair.incumbent
    for case in sorted(here):
        new = spoil(new, case, how)
    for case in sorted(there):
        old = spoil(old, case, how)
    return Pair(candidate=new, incumbent=old), here, there


@lawful
@given(data=st.data())
def test_a_case_missing_on_one_side_decides_as_if_it_were_absent_from_both(
    data: st.DataObject,
) -> None:
    whole = data.draw(worlds(spoilt=False))
    train, *gone_train = data.draw(spoilt_pairs(whole.train))
    holdout, *gone_holdout = data.draw(spoilt_pairs(whole.holdout))
    gone = {"train": set[str]().union(*gone_train), "holdout": set[str]().union(*gone_holdout)}

    for name, gate in GATES.items():
        found = gate(replace(whole, train=train, holdout=holdout))
        absent = gate(without(whole, gone))
        assert told(found) == told(absent), name
        assert absent.missing.dropped == 0, name


def told(decision: Decision) -> tuple[Verdict, str, Mapping[str, float]]:
    """What a gate decided, and on what."""
    return decision.verdict, decision.code, decision.numbers


@lawful
@given(data=st.data())
def test_more_missing_than_allowed_is_cannot_tell(data: st.DataObject) -> None:
    whole = data.draw(worlds(spoilt=False))
    train, here, there = data.draw(spoilt_pairs(whole.train))
    allowed = data.draw(st.sampled_from([0.0, 0.25, 0.5]))

    too_many = len(here | there) / len(train.candidate.cases) > allowed
    for name, gate in GATES.items():
        found = gate(replace(whole, train=train, max_missing=allowed))
        if too_many:
            assert (found.verdict, found.code) == (Verdict.CANNOT_TELL, "missing"), name
            assert found.reason.startswith("cannot tell"), name
        elif name != "sigma":
            assert found.missing.share <= allowed, name


@lawful
@given(data=st.data())
def test_sigma_never_accepts_with_too_little_of_the_holdout(data: st.DataObject) -> None:
    whole = data.draw(worlds(spoilt=False))
    holdout, here, there = data.draw(spoilt_pairs(whole.holdout))
    found = GATES["sigma"](replace(whole, holdout=holdout, max_missing=0.25))
    if len(here | there) / len(holdout.candidate.cases) > 0.25:
        assert not found.accepted


@lawful
@given(data=st.data())
def test_a_decision_says_how_many_were_missing(data: st.DataObject) -> None:
    whole = data.draw(worlds(spoilt=False))
    train, here, there = data.draw(spoilt_pairs(whole.train))
    for name, gate in GATES.items():
        found = gate(replace(whole, train=train)).missing
        assert (found.candidate, found.incumbent) == (len(here), len(there)), name
        assert found.dropped == len(here | there), name
        if name != "sigma":
            assert found.compared == len(train.candidate.cases) - len(here | there), name


def filled(side: Evaluation, values: dict[tuple[str, int], float]) -> Evaluation:
    """The evaluation with the runs that were lost put back, each with the score given."""
    return evaluation(
        *(
            ran(r.case, {"acc": values[r.case, r.draw]}, draw=r.draw) if r.outcome.missing else r
            for r in side.results
        )
    )


@lawful
@given(data=st.data())
def test_missing_cases_that_could_not_have_turned_it_do_not(data: st.DataObject) -> None:
    """Each gap is filled with 0 and with 1, in every combination, noise and all."""
    world = World(
        train=data.draw(pairs(("acc",), spoilt=False)),
        holdout=data.draw(pairs(("acc",), spoilt=False)),
        accept_sigma=data.draw(st.sampled_from([0.0, 1.0])),
        gain=data.draw(st.sampled_from([0.0, 0.2])),
    )
    slots = [(part, side) for part in ("train", "holdout") for side in ("candidate", "incumbent")]
    gaps = data.draw(st.lists(st.sampled_from(slots), min_size=1, max_size=3, unique=True))
    holes: list[tuple[str, str, CaseResult]] = []
    for part, name in gaps:
        pair: Pair = getattr(world, part)
        side: Evaluation = getattr(pair, name)
        run = data.draw(st.sampled_from(side.results))
        torn = tuple(lost(r) if r is run else r for r in side.results)
        world = replace(world, **{part: replace(pair, **{name: replace(side, results=torn)})})
        holes.append((part, name, run))
    guesses = [
        refilled(world, holes, values)
        for values in itertools.product((0.0, 1.0), repeat=len(holes))
    ]
    for name, gate in GATES.items():
        found = gate(world)
        if not found.missing.could_turn and found.verdict is not Verdict.CANNOT_TELL:
            verdicts = {gate(guess).accepted for guess in guesses}
            assert verdicts == {found.accepted}, name


def refilled(
    world: World, holes: list[tuple[str, str, CaseResult]], values: tuple[float, ...]
) -> World:
    """The world with every hole filled, each with its own score."""
    for (part, name, run), value in zip(holes, values, strict=True):
        pair: Pair = getattr(world, part)
        side = filled(getattr(pair, name), {(run.case, run.draw): value})
        world = replace(world, **{part: replace(pair, **{name: side})})
    return world


def test_missing_cases_could_turn_a_narrow_verdict_and_not_a_wide_one() -> None:
    def on(new: list[float | None], old: list[float | None]) -> Decision:
        sides = [evaluation(*(_one(i, v) for i, v in enumerate(row))) for row in (new, old)]
        pair = Pair(candidate=sides[0], incumbent=sides[1])
        return GATES["min_gain"](World(train=pair, holdout=pair))

    wide = on([1.0, 1.0, 1.0, None], [0.0, 0.0, 0.0, 0.0])
    assert wide.accepted
    assert not wide.missing.could_turn
    assert "1 case missing on a side and left out; they could not have turned it" in wide.reason
    narrow = on([0.6, 0.5, 0.5, None], [0.5, 0.5, 0.5, 0.5])
    assert narrow.accepted
    assert narrow.missing.could_turn
    assert "they could have turned it" in narrow.reason


def _one(index: int, value: float | None) -> CaseResult:
    whole = ran(f"case{index}", {"acc": value})
    return lost(whole) if value is None else whole


def test_missing_holdout_cases_could_turn_an_accept_too() -> None:
    train = Pair(
        candidate=evaluation(ran("t", {"acc": 1.0})), incumbent=evaluation(ran("t", {"acc": 0.0}))
    )
    same = ran("a", {"acc": 0.5}), ran("b", {"acc": 0.5})
    holdout = Pair(candidate=evaluation(same[0], lost(same[1])), incumbent=evaluation(*same))
    found = GATES["sigma"](World(train=train, holdout=holdout))
    assert found.accepted
    assert found.missing.could_turn


def test_missing_runs_could_have_made_an_accept_too_noisy() -> None:
    old = table([0.8] * 4, [0.8] * 4)
    train = Pair(candidate=torn(table([1.0] * 4, [1.0] * 4), draws={0}), incumbent=old)
    found = GATES["sigma on train"](World(train=train, holdout=train))
    assert found.accepted
    assert found.missing.could_turn
    filled_in = Pair(candidate=table([1.0, 1.0, 1.0, 0.0], [1.0] * 4), incumbent=old)
    assert GATES["sigma on train"](World(train=filled_in, holdout=filled_in)).code == "noise"


def test_missing_runs_could_have_made_the_holdout_worse_than_its_noise() -> None:
    train = Pair(candidate=table([1.0]), incumbent=table([0.0]))
    old = table([0.5, 0.5, 1.0, 1.0], [0.5, 0.5, 1.0, 1.0])
    new = table([0.0, 0.4, 1.0, 0.0], [1.0, 0.6, 1.0, 0.0])
    holdout = Pair(candidate=torn(new, draws={0, 1}), incumbent=old)
    found = GATES["sigma"](World(train=train, holdout=holdout))
    assert found.accepted
    assert found.missing.could_turn
    filled_in = Pair(candidate=new, incumbent=old)
    assert GATES["sigma"](World(train=train, holdout=filled_in)).code == "holdout"


def test_missing_cases_that_could_only_have_made_a_tie_could_not_turn_a_reject() -> None:
    new = evaluation(ran("a", {"acc": 0.5}), lost(ran("b", {})))
    old = evaluation(ran("a", {"acc": 0.5}), ran("b", {"acc": 1.0}))
    pair = Pair(candidate=new, incumbent=old)
    for name in ("sigma", "min_gain", "minibatch"):
        assert not GATES[name](World(train=pair, holdout=pair)).missing.could_turn


def torn(whole: Evaluation, *, draws: set[int]) -> Evaluation:
    """The evaluation with its last case lost in these repeats."""
    last = whole.cases[-1]
    return evaluation(
        *(lost(r) if r.case == last and r.draw in draws else r for r in whole.results)
    )


def test_nothing_bounds_what_a_missing_run_would_have_cost() -> None:
    dear = replace(ACC, penalties=Penalties(cost_per_usd=1.0))
    new = evaluation(*(ran(f"c{i}", {"acc": 1.0}) for i in range(9)), lost(ran("c9", {})))
    old = evaluation(*(ran(f"c{i}", {"acc": 0.0}) for i in range(10)))
    pair = Pair(candidate=new, incumbent=old)
    assert GATES["min_gain"](World(train=pair, holdout=pair, objective=dear)).missing.could_turn
    assert not GATES["min_gain"](World(train=pair, holdout=pair)).missing.could_turn


# A crash. Gates that weigh noise measure it: a crash moves that too, as any bad score does,
# so what a crash does to the verdict is stated where the bar does not depend on it.


def thrifty(pair: Pair, run: CaseResult, *, than: str) -> tuple[Pair, CaseResult]:
    """The pair with one run of the candidate no dearer than those it is compared with."""
    side, other = pair.candidate, pair.incumbent
    if than == "others":
        peers = [r.outcome for r in side.results if r is not run and not r.outcome.failed]
        usd = int(mean([float(o.nano_usd or 0) for o in peers])) if peers else 0
        seconds = mean([o.seconds for o in peers]) if peers else 0.0
    else:
        peers = [r.outcome for r in other.of_case(run.case)]
        usd = max(o.nano_usd or 0 for o in peers)
        seconds = max(o.seconds for o in peers)
    cheap = replace(
        run,
        outcome=replace(
            run.outcome,
            nano_usd=min(run.outcome.nano_usd or 0, usd),
            seconds=min(run.outcome.seconds, seconds),
        ),
    )
    results = tuple(cheap if r is run else r for r in side.results)
    return replace(pair, candidate=replace(side, results=results)), cheap


def uncrashed(side: Evaluation) -> Evaluation:
    """The evaluation with its crashed runs finished after all."""
    results = (
        ran(r.case, {s.metric: s.value for s in r.scores}, draw=r.draw) if r.outcome.failed else r
        for r in side.results
    )
    return evaluation(*results)


@pytest.mark.parametrize("than", ["others", "incumbent"])
@lawful
@given(data=st.data())
def test_a_crash_never_turns_a_verdict_into_an_accept(than: str, data: st.DataObject) -> None:
    world = replace(data.draw(worlds(spoilt=False)), accept_sigma=0.0)
    part = data.draw(st.sampled_from(["train", "train", "holdout"]))
    pair: Pair = getattr(world, part)
    if than == "incumbent":  # another crash here would be charged by what this run cost
        pair = replace(pair, candidate=uncrashed(pair.candidate))
    finished = [r for r in pair.candidate.results if not r.outcome.failed]
    if not finished:
        return
    pair, run = thrifty(pair, data.draw(st.sampled_from(finished)), than=than)
    results = tuple(crashed(r) if r is run else r for r in pair.candidate.results)
    broken = replace(pair, candidate=replace(pair.candidate, results=results))

    for name, gate in GATES.items():
        before = gate(replace(world, **{part: pair}))
        after = gate(replace(world, **{part: broken}))
        assert before.accepted or not after.accepted, name
    gains = [compare(p, world.objective, max_missing=1.0).gain for p in (pair, broken)]
    assert gains[1] <= gains[0] + 1e-12


@lawful
@given(data=st.data())
def test_a_crash_never_improves_a_loss(data: st.DataObject) -> None:
    world = data.draw(worlds(spoilt=False))
    finished = [r for r in world.train.candidate.results if not r.outcome.failed]
    if not finished:
        return
    pair, run = thrifty(world.train, data.draw(st.sampled_from(finished)), than="others")
    results = tuple(crashed(r) if r is run else r for r in pair.candidate.results)

    before = world.objective.measure(pair.candidate).loss
    after = world.objective.measure(replace(pair.candidate, results=results)).loss

    assert before is not None
    assert after is not None
    assert after >= before - 1e-12


@lawful
@given(world=worlds())
def test_a_loss_without_penalties_is_between_0_and_1(world: World) -> None:
    plain = replace(world.objective, penalties=Penalties())
    for side in (world.train.candidate, world.train.incumbent):
        found = plain.measure(side)
        assert found.loss is None or 0.0 <= found.loss <= 1.0
        assert all(0.0 <= run <= 1.0 for run in found.runs)
        assert found.pass_rate is None or 0.0 <= found.pass_rate <= 1.0


N = r"(-?\d+\.\d+)"
G = r"[\d.e+-]+"
BY_CODE = {
    ("sigma", "better"): rf"train improved {N} [>=] noise bar {N} \({G}σ\)"
    rf"(; holdout (is as good as before|improved {N}|got worse by {N} [<=] its noise {N}))?",
    ("sigma", "noise"): rf"train improved {N} < noise bar {N} \({G}σ\), "
    r"indistinguishable from noise",
    ("sigma", "tie"): r"train is as good as before, and a tie is no improvement",
    ("sigma", "worse"): rf"train got worse by {N}",
    ("sigma", "holdout"): rf"train improved {N} [>=] noise bar {N} \({G}σ\)"
    rf"; holdout got worse by {N} > its noise {N}",
    ("min_gain", "better"): rf"score gain {N} [>=] required {N}",
    ("min_gain", "below"): rf"score gain {N} < required {N}",
    ("min_gain", "tie"): rf"score gain {N} [<=] required {N}(, and a tie is no gain)?",
    ("strict", "crash"): r"the candidate crashed on \d+ cases? that the incumbent finished",
    ("strict", "better"): rf"\w+ {N} [<>=] incumbent's {N} \(m\w+\)"
    rf"(, a tie within {G}; (lower|higher) \w+ decides: {N} [<>] {N})?",
    ("strict", "worse"): rf"\w+ {N} [<>] incumbent's {N} \(m\w+\)",
    ("strict", "tie"): rf"\w+ {N} [<>=] incumbent's {N} \(m\w+\), a tie within {G}"
    rf"(, and nothing breaks it|; (lower|higher) \w+ decides: {N} [<>] {N})",
    ("improves_on_minibatch", "better"): rf"sum over \d+ cases? {N} > parent's {N}",
    ("improves_on_minibatch", "tie"): rf"sum over \d+ cases? {N} = parent's {N}",
    ("improves_on_minibatch", "worse"): rf"sum over \d+ cases? {N} < parent's {N}",
}
BROKEN = rf"constraint \w+ \S+ {G} is broken: \w+ is {N} [<>=] {N}"
SUFFIX = re.compile(r" \(\d+ cases? missing on a side and left out; they could( not)? have .*\)$")


def check_the_sentence(decision: Decision) -> None:
    """The words belong to the code, what they compare is so, and the numbers are the decision's."""
    reason = SUFFIX.sub("", decision.reason)
    if decision.verdict is Verdict.CANNOT_TELL:
        assert reason.startswith("cannot tell: ")
        return
    pattern = BROKEN if decision.code == "constraint" else BY_CODE[decision.gate, decision.code]
    assert re.fullmatch(pattern, reason), reason
    assert decision.accepted == (decision.code == "better")
    for left, sign, right in re.findall(rf"{N} ([<>=]) [^\d;,()]*?{N}", reason):
        assert {"<": float(left) < float(right), ">": float(left) > float(right)}.get(
            sign, left == right
        ), reason
    known = [abs(value) for value in decision.numbers.values()]
    for shown in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]\d+)?", reason):
        digits = len(shown.partition(".")[2])
        spellings = {f"{v:.{digits}f}" for v in known} | {f"{v:g}" for v in known}
        assert shown in spellings, (shown, reason, decision.numbers)


@lawful
@given(world=worlds())
def test_every_sentence_agrees_with_its_numbers(world: World) -> None:
    for gate in GATES.values():
        check_the_sentence(gate(world))


@lawful
@given(
    losses=st.lists(
        st.floats(min_value=0.2, max_value=0.2000001) | st.floats(0, 1), min_size=4, max_size=4
    )
)
def test_sentences_hold_where_the_numbers_are_close(losses: list[float]) -> None:
    new, old, held_new, held_old = (evaluation(ran("c", {"acc": 1 - x})) for x in losses)
    world = World(
        train=Pair(candidate=new, incumbent=old),
        holdout=Pair(candidate=held_new, incumbent=held_old),
    )
    for gate in GATES.values():
        check_the_sentence(gate(world))
