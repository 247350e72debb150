"""Contract tests: what every target, metric, strategy, executor and provider must keep.

Call them from your own tests; each raises AssertionError with a sentence that says what is
broken. burnish runs them over its own implementations.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from burnish.core.cases import Case
from burnish.core.codec import codec
from burnish.core.content import canonical
from burnish.core.errors import ProposerFailed
from burnish.core.outcomes import Outcome, Usage
from burnish.core.protocols import Executor, Metric, Target
from burnish.core.scores import Score
from burnish.core.surfaces import out_of_bounds
from burnish.effects.passthrough import DirectEffects
from burnish.models.keys import key_for
from burnish.models.model_block import ModelBlock
from burnish.models.prices import Prices
from burnish.models.providers import Provider
from burnish.models.references import ModelRef
from burnish.runs.driving import Ending, drive
from burnish.runs.ledger import TRIALS
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing.stories import story

_HOME = Path("candidates") / "iter-00"


async def check_target(target: Target, cases: Sequence[Case]) -> None:
    """A target describes itself, stands by its baseline, runs cases and exports candidates."""
    described, again = target.description, target.description
    canonical(dict(described.config))
    assert described.fingerprint == again.fingerprint, "the fingerprint changes between two looks"
    surfaces = {surface.id: surface for surface in target.surfaces}
    assert len(surfaces) == len(target.surfaces), "two surfaces have the same id"
    baseline = target.baseline
    assert set(baseline.values) == set(surfaces), "the baseline does not give every surface a value"
    assert not out_of_bounds(baseline.values, surfaces), "the baseline is out of its own bounds"
    assert not target.check(baseline), "the target turns its own baseline away"
    for case in cases:
        await _check_run(target, case)
    exported = target.export(baseline, _HOME)
    assert exported == target.export(baseline, _HOME), "exporting twice gives different files"
    for path in exported:
        safe = not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts
        assert safe, f"the exported path '{path}' leaves the candidate's folder"


async def _check_run(target: Target, case: Case) -> None:
    effects = DirectEffects()
    receipt = await target.run(target.baseline, case, draw=0, effects=effects)
    kept = codec(Outcome).decode(codec(Outcome).encode(receipt.value))
    canonical(codec(Outcome).encode(kept))
    assert kept == receipt.value, "the outcome does not survive the journal"
    if target.leaf:
        assert receipt.spend.calls, "a leaf target must say that its run is a call"
    else:
        assert not receipt.spend.calls, "only leaf calls carry cost; this target counts twice"
    finished = receipt.value.failure is None
    assert not finished or len(receipt.value.replies) == len(case.turns), "one reply a turn"


async def check_metric(metric: Metric, case: Case, outcomes: Sequence[Outcome]) -> None:
    """A metric scores what it is given, names itself, and says the same twice."""
    assert metric.fingerprint == metric.fingerprint, "the fingerprint changes between two looks"
    for outcome in (*outcomes, Outcome(replies=("",)), Outcome(replies=("日本語 🙂",))):
        scores = await metric.score(case, outcome, effects=DirectEffects())
        for score in scores:
            assert score.metric == metric.name, f"scores under the name '{score.metric}'"
            assert codec(Score).decode(codec(Score).encode(score)) == score
            assert score.passed is not False or score.reason, "fails without a reason"
        if not metric.estimate(case).calls:
            again = await metric.score(case, outcome, effects=DirectEffects())
            assert list(again) == list(scores), "computes, yet scores differently the second time"


async def check_strategy(make: Callable[[], Setup], folder: Path, *, cut_at: int = 3) -> Ending:
    """A strategy ends, keeps to its budget, and resumes to the same story.

    `make` gives a fresh Setup. The run is made once in one go and once cut after `cut_at`
    trials and resumed; both must tell the same, and nothing may be paid twice.
    """
    whole = await _driven(make(), folder / "whole")
    cut = replace(make(), budget=replace(make().budget, max_trials=cut_at))
    cut = replace(cut, dataset=replace(cut.dataset, test=()))
    untested = replace(make(), dataset=replace(make().dataset, test=()))
    reference = await _driven(untested, folder / "untested")
    with suppress(ProposerFailed):  # the cut may come before a role's first answer
        await _driven(cut, folder / "cut")
    resumed = await _driven(untested, folder / "cut")
    told = story(folder / "untested" / TRIALS)
    assert told, "the strategy recorded no trial"
    assert story(folder / "cut" / TRIALS) == told, "a resumed run tells another story"
    assert resumed.best.id == reference.best.id == whole.best.id, "a resume ends elsewhere"
    assert resumed.spent == reference.spent, "a resume spends differently"
    assert resumed.billed == reference.billed, "a resume pays for something twice"
    return whole


def check_provider(row: Provider) -> None:
    """An installed provider is found by each of its names, in references and in blocks of files,
    keeps its key to its own hosts, and has prices for the models that it lists."""
    is_complete = row.address or row.protocol == "embedded"
    address = "" if is_complete else f"https://{row.hosts[0]}"
    for name in row.names:
        assert ModelRef.parse(f"{name}:m").provider == row.name, f"'{name}:m' is somebody else's"
        block = ModelBlock.model_validate({"provider": name, "name": "m", "base_url": address})
        assert block.reference().provider == row.name, f"'{name}' in a file is somebody else"
    ref = ModelRef(provider=row.name, name="m", base_url=address)
    if row.key_variables:
        environ = {row.key_variables[0]: "key"}
        assert key_for(ref, environ) == "key", "its usual variable is not looked at"
        elsewhere = replace(ref, base_url="https://elsewhere.invalid/v1")
        assert key_for(elsewhere, environ) is None, "its key goes to the host of a stranger"
    else:
        assert row.key_optional == "always", "it needs a key, and no variable holds one"
    assert row.probe is None or row.address, "a health request needs an address"
    for model in row.prices:
        assert Prices().known(replace(ref, name=model)), f"the price of {model} is not found"
    assert not row.is_local or Prices().nano_usd(ref, Usage(requests=1, input_tokens=1)) == 0


async def _driven(setup: Setup, folder: Path) -> Ending:
    run = _opened(setup, folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def _opened(setup: Setup, folder: Path) -> Run:
    return resume(setup, folder) if folder.exists() else start(setup, folder=folder)


async def check_executor(make: Callable[[int], Executor]) -> None:
    """An executor keeps the order, the bound, the place of an error, and leaves nothing behind.

    `make` gives an executor for so many units at once.
    """
    await _check_order_and_bound(make(4))
    await _check_error_in_order(make(4))
    await _check_closing(make(4))
    assert [r async for r in make(1).map([], _echo)] == [], "nothing to do gives nothing"


async def _echo(unit: int) -> int:
    return unit


async def _check_order_and_bound(executor: Executor) -> None:
    running = most = 0

    async def work(unit: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (unit % 3))
        running -= 1
        return unit

    results = [result async for result in executor.map(range(50), work)]
    assert results == list(range(50)), "the results are out of order"
    assert 1 < most <= 4, f"{most} units ran at once where 4 may"


async def _check_error_in_order(executor: Executor) -> None:
    async def work(unit: int) -> int:
        if unit == 3:
            raise LookupError("third")
        await asyncio.sleep(0.002)
        return unit

    seen: list[int] = []
    try:
        async with aclosing(executor.map(range(10), work)) as results:
            async for result in results:
                seen.append(result)  # noqa: PERF401 - what came before the error is the point
    except LookupError:
        assert seen == [0, 1, 2], "an error is raised at its own place in the order"
    else:
        raise AssertionError("an error was swallowed")


async def _check_closing(executor: Executor) -> None:
    running = 0

    async def work(unit: int) -> int:
        nonlocal running
        running += 1
        try:
            await asyncio.sleep(0 if unit == 0 else 30)
        finally:
            running -= 1
        return unit

    async with aclosing(executor.map(range(100), work)) as results:
        async for _ in results:
            break
    assert running == 0, "work goes on after the results were closed"


__all__ = ["check_executor", "check_metric", "check_strategy", "check_target"]
