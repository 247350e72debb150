"""What a run says of its winner: never more than draws show that no decision has seen."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import pytest

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Split
from burnish.core.errors import Interrupted, NotImproved
from burnish.core.evaluations import Objective, Score
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, SplitResult, StopReason, Trial, Verdict
from burnish.journal.limits import Budget
from burnish.pages.run_result import verdict_card
from burnish.reports.explanation import explain
from burnish.reports.rendering import render
from burnish.runs.claims import (
    LOOKED_AT_BEFORE,
    claim_summary,
    claim_words,
    require_improved,
    verdict_cell,
)
from burnish.runs.directory import AFTER_SEARCH, Header, RunRecord, look_into
from burnish.runs.driver import Ending, drive
from burnish.runs.events import Claim, ClaimBasis, ClaimVerdict, Warned, read_all
from burnish.runs.final_measurements import confirm
from burnish.runs.progress import last_sweeps, reserved
from burnish.runs.report_sections import headline
from burnish.runs.run import Run
from burnish.runs.setup import Setup, fork
from burnish.testing.doubles import FreeMetric
from tests.runs.small import Ear, driven, small

pytestmark = pytest.mark.slow

HOLDOUT = tuple(Case.single(f"held question {n}", "yes", name=f"h{n}") for n in range(20))
TRAIN = (Case.single("train question", "yes", name="t0"),)
TEST = tuple(Case.single(f"sealed question {n}", "yes", name=f"s{n}") for n in range(20))


@dataclass
class Coin:
    """An agent that answers right with a chance that its text may change, by draw and case."""

    rates: Callable[[str], float] = lambda text: 0.5
    by_draw: bool = True
    salt: str = ""
    calls: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def __call__(self, candidate: Candidate, case: Case, draw: int) -> str:
        text = str(candidate.values["text"])
        self.calls.append((candidate.id, case.id, draw))
        luck = random.Random(f"{self.salt} {text} {case.id} {draw if self.by_draw else 0}")
        return "yes" if luck.random() < self.rates(text) else "no"

    @property
    def fresh(self) -> list[tuple[str, str, int]]:
        """The calls under draws that no search comes to."""
        return [call for call in self.calls if call[2] >= 1_000_000]


@dataclass(frozen=True, kw_only=True)
class Marks(FreeMetric):
    """The mark is what the agent says."""

    name: str = "marks"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        return [Score(metric=self.name, value=float(outcome.output))]


def pick_the_best(count: int = 20) -> Callable[[Run], Awaitable[None]]:
    """A search that takes whoever scores best on holdout: the more candidates, the more luck."""

    async def search(run: Run) -> None:
        baseline = run.target.baseline
        best = await measured(run, baseline, "baseline")
        for number in range(1, count + 1):
            if run.stop_reason(run.estimate(Split.HOLDOUT)) is not None:
                return
            text = f"{baseline.values['text']} {'x' * number}"
            candidate = baseline.child({"text": text}, origin=Origin(by="test"))
            score = await measured(run, candidate, "tries", over=best)
            if score > best:
                best = score
                run.advance(candidate)

    return search


async def measured(run: Run, candidate: Candidate, phase: str, over: float = 1.0) -> float:
    evaluation = await run.evaluate(candidate, split=Split.HOLDOUT)
    result = SplitResult.of(evaluation, run.objective)
    score = result.measurement.score or 0.0
    verdict = Verdict.ACCEPT if score > over else Verdict.REJECT
    decision = Decision(gate="test", verdict=verdict, code="better", reason="by score")
    run.record(
        Trial(
            candidate=candidate,
            phase=phase,
            holdout=result,
            touched=("text",),
            decision=None if phase == "baseline" else decision,
        )
    )
    return score


def setup_of(coin: Coin, *, count: int = 20, test: tuple[Case, ...] = (), **rest: object) -> Setup:
    made = small(steps=pick_the_best(count), agent=coin, **{"confirm": True, **rest})  # type: ignore[arg-type]
    return replace(made, dataset=Dataset(train=TRAIN, holdout=HOLDOUT, test=test))


async def claimed(setup: Setup, folder: Path) -> tuple[Ending, Claim]:
    ending = await driven(setup, folder)
    claim = RunRecord.read(folder).claim
    assert claim is not None
    assert claim == ending.claim
    return ending, claim


def helpful(text: str) -> float:
    return 0.9 if text.endswith(" xx") else 0.3


async def test_the_luck_of_a_null_is_not_claimed(tmp_path: Path) -> None:
    claims: list[Claim] = []
    flattered: list[float] = []
    for world in range(8):
        folder = tmp_path / str(world)
        _, claim = await claimed(setup_of(Coin(salt=str(world)), count=12), folder)
        claims.append(claim)
        run = RunRecord.read(folder)
        assert run.best is not None
        assert run.baseline is not None
        scores = [row.trial.holdout for row in (run.baseline, run.best)]
        before, after = (each.measurement.score for each in scores if each is not None)
        flattered.append((after or 0.0) - (before or 0.0))
    assert mean(flattered) > 0.15
    claims = [claim for claim in claims if claim.verdict != "unchanged"]
    gains = [claim.gain.mean for claim in claims if claim.gain is not None]
    assert len(gains) == len(claims) >= 6
    # The mean of so many differences of 20 throws each has a standard deviation of about 0.06.
    assert abs(mean(gains)) < 0.13
    assert all(claim.basis == "fresh draws" for claim in claims)
    assert not any(claim.verdict == "improved" for claim in claims)


async def test_a_real_gain_is_claimed(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    ending, claim = await claimed(setup_of(coin, count=3), tmp_path / "run")
    assert (claim.basis, claim.split, claim.verdict) == ("fresh draws", "holdout", "improved")
    assert claim.gain is not None
    assert claim.gain.low > 0
    assert claim_words(claim).endswith("improved")
    assert len(coin.fresh) == 2 * len(HOLDOUT)
    assert len({draw for _, _, draw in coin.fresh}) == 1
    assert ending.spent.metric_calls == len(coin.calls)
    run = RunRecord.read(tmp_path / "run")
    assert "improved" in "".join(map(str, headline(run)))
    # What was measured again is in no trial.
    assert sum(row.spend.metric_calls for row in run.rows) == len(coin.calls) - len(coin.fresh)


async def test_draws_that_cannot_differ_show_nothing(tmp_path: Path) -> None:
    coin = Coin(by_draw=False)
    _, claim = await claimed(setup_of(coin), tmp_path / "run")
    assert (claim.basis, claim.verdict, claim.gain) == ("selected on holdout", "not shown", None)
    assert "every score is the same" in claim.reason
    assert claim.best_score is not None
    assert claim.baseline_score is not None
    assert claim.best_score > claim.baseline_score
    assert "improved" not in claim_words(claim)


async def test_draws_that_differ_in_a_few_cases_show_hardly_anything(tmp_path: Path) -> None:
    """As an agent at temperature 0 does: nearly all of its scores chose the winner."""
    helped = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"}

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        if case.id in {"h17", "h18", "h19"}:
            return "yes" if draw else "no"
        return "yes" if "x" in str(candidate.values["text"]) and case.id in helped else "no"

    made = small(steps=pick_the_best(1), agent=respond, confirm=True)
    setup = replace(made, dataset=Dataset(train=TRAIN, holdout=HOLDOUT))
    _, claim = await claimed(setup, tmp_path / "run")
    assert (claim.basis, claim.verdict, claim.gain) == ("selected on holdout", "not shown", None)
    assert "17 of 20 cases score the same" in claim.reason
    assert "improved" not in claim_words(claim)


@pytest.mark.parametrize(
    ("lost", "marks", "reason"),
    [
        (0, "0.6", ""),
        (4, "0.9", ""),
        (4, "0.6", "4 of 20 cases are missing, and could have turned it"),
        (6, "0.9", "6 of 20 cases are missing, at most 25% may be"),
    ],
)
async def test_a_gain_on_what_is_left_is_not_claimed_if_the_rest_could_turn_it(
    tmp_path: Path, lost: int, marks: str, reason: str
) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        better, number = "x" in str(candidate.values["text"]), int(case.id[1:])
        if better and case.id.startswith("s") and number < lost:
            broken = Failure(kind=FailureKind.INFRASTRUCTURE, message="connection reset")
            return Outcome(failure=broken)
        mark = float(marks) - 0.01 * (number % 4) if better else 0.5
        return Outcome(replies=(f"{mark:.2f}",))

    setup = replace(
        small(steps=pick_the_best(1), agent=respond, metrics=(Marks(),)),
        objective=Objective(weights={"marks": 1.0}),
        dataset=Dataset(train=TRAIN, holdout=HOLDOUT, test=TEST),
    )
    ending, claim = await claimed(setup, tmp_path / "run")
    assert ending.sealed is not None
    assert (claim.basis, claim.missing) == ("sealed test", lost)
    assert (ending.sealed.unchecked or "", claim.reason) == (reason, reason)
    assert claim.verdict == ("not shown" if reason else "improved")
    assert reason in claim_words(claim)


async def test_the_repeats_of_the_search_count_for_the_claim_too(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    setup = setup_of(coin, count=3, test_repeats=3)
    _, claim = await claimed(setup, tmp_path / "run")
    assert len(coin.fresh) == 3 * 2 * len(HOLDOUT)
    assert claim.verdict == "improved"


async def test_a_sealed_test_is_the_claim_and_nothing_is_measured_again(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    ending, claim = await claimed(setup_of(coin, count=3, test=TEST), tmp_path / "run")
    assert ending.sealed is not None
    assert (claim.basis, claim.split, claim.gain) == ("sealed test", "test", ending.sealed.gain)
    assert claim.verdict == "improved"
    assert not coin.fresh


async def test_a_test_that_an_earlier_run_had_read_shows_no_gain(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    await claimed(setup_of(coin, count=3, test=TEST), tmp_path / "first")
    parent = tmp_path / "first"
    for name in ("fork", "fork of the fork"):
        run = fork(setup_of(coin, count=4, test=TEST), parent, folder=tmp_path / name)
        try:
            ending = await drive(run)
        finally:
            await run.close()
        parent = tmp_path / name
        record = RunRecord.read(parent)
        claim = record.claim
        assert claim is not None
        assert claim == ending.claim
        assert ending.sealed == record.sealed
        assert record.sealed is not None
        assert record.sealed.gain is None
        assert (claim.basis, claim.verdict, claim.gain) == ("sealed test", "looked at before", None)
        assert (claim.baseline_score, claim.best_score) == (0.25, 0.9)
        told = claim_words(claim)
        assert told.startswith("sealed test, looked at before: score 0.250 → 0.900; an earlier run")
        assert (verdict_cell(claim), claim_summary(claim)) == (
            "looked at before",
            "sealed test, looked at before",
        )
        card = verdict_card(record)
        assert (card.title, card.adopt, card.picture) == ("Looked at before", False, None)
        assert "new run with other sealed cases" in card.advice
        page = render(record)
        assert "Sealed test, looked at before" in page
        assert explain(record).next[0].what == "seal other cases, and start a new run"
        written = (parent / "events.jsonl").read_text(encoding="utf-8")
        for text in (page, str(card), written):
            assert "improved" not in text
            assert "looked at once" not in text
        warnings = [each.message for each in read_all(record.events, Warned)]
        assert warnings == [LOOKED_AT_BEFORE]


async def test_a_baseline_that_stays_is_unchanged(tmp_path: Path) -> None:
    coin = Coin(rates=lambda text: 0.0 if "x" in text else 1.0)
    _, claim = await claimed(setup_of(coin, count=2), tmp_path / "run")
    assert claim.verdict == "unchanged"
    assert not coin.fresh
    assert not [e for e in RunRecord.read(tmp_path / "run").events if e.kind == "claim"]


async def test_a_run_without_holdout_is_measured_again_on_train(tmp_path: Path) -> None:
    async def search(run: Run) -> None:
        baseline = run.target.baseline
        better = baseline.child({"text": "{q} xx"}, origin=Origin(by="test"))
        for candidate, phase in ((baseline, "baseline"), (better, "tries")):
            train = await run.evaluate(candidate, split=Split.TRAIN)
            accepted = Decision(gate="test", verdict=Verdict.ACCEPT, code="better", reason="")
            run.record(
                Trial(
                    candidate=candidate,
                    phase=phase,
                    train=SplitResult.of(train, run.objective),
                    decision=None if phase == "baseline" else accepted,
                )
            )
            run.advance(candidate)

    made = small(steps=search, agent=Coin(rates=helpful), confirm=True)
    setup = replace(made, dataset=Dataset(train=HOLDOUT))
    _, claim = await claimed(setup, tmp_path / "run")
    assert (claim.basis, claim.split, claim.verdict) == ("fresh draws", "train", "improved")


# -- Money ----------------------------------------------------------------------------------------


async def test_the_cost_is_reserved_from_the_start(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    setup = setup_of(coin, budget=Budget(max_metric_calls=110))
    ending, claim = await claimed(setup, tmp_path / "run")
    # Baseline and two candidates, 20 cases each; 40 runs are reserved, and 10 are left.
    assert ending.reason.code == "max_metric_calls"
    assert len(coin.calls) == ending.spent.metric_calls == 100
    assert claim.verdict == "improved"
    assert "to measure baseline and best again on holdout" in "".join(reserved(setup))
    assert last_sweeps(setup).calls == 40


async def test_without_budget_the_winner_was_only_selected(tmp_path: Path) -> None:
    """A search that spends more than was expected leaves nothing for the end."""

    async def careless(run: Run) -> None:
        baseline = run.target.baseline
        await measured(run, baseline, "baseline")
        better = baseline.child({"text": "{q} xx"}, origin=Origin(by="test"))
        await measured(run, better, "tries", over=0.0)
        run.advance(better)

    coin = Coin(rates=helpful)
    made = small(steps=careless, agent=coin, confirm=True, budget=Budget(max_metric_calls=50))
    setup = replace(made, dataset=Dataset(train=TRAIN, holdout=HOLDOUT))
    _, claim = await claimed(setup, tmp_path / "run")
    assert claim.basis == "selected on holdout"
    assert "no budget is left (40 of 50 metric calls spent" in claim.reason
    assert not coin.fresh


async def test_a_run_that_is_switched_off_says_so(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    _, claim = await claimed(setup_of(coin, count=3, confirm=False), tmp_path / "run")
    assert (claim.basis, claim.verdict) == ("selected on holdout", "not shown")
    assert "as set" in claim.reason
    assert not coin.fresh


# -- A gain that is required -----------------------------------------------------------------------


def claim_of(verdict: ClaimVerdict, basis: ClaimBasis = "sealed test", reason: str = "") -> Claim:
    return Claim(
        candidate="c",
        basis=basis,
        split="test",
        baseline_score=0.5,
        best_score=0.6,
        verdict=verdict,
        reason=reason,
    )


@pytest.mark.parametrize("basis", ["sealed test", "fresh draws"])
def test_a_gain_that_was_shown_is_all_that_is_required(basis: ClaimBasis) -> None:
    require_improved(claim_of("improved", basis))


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (None, "nothing was measured"),
        (claim_of("unchanged"), "the run says nothing better was found"),
        (
            claim_of("not shown", reason="too few"),
            "the run says not sure: sealed test, looked at once: score 0.500 → 0.600, "
            "not sure: too few",
        ),
        (
            claim_of("worse"),
            "the run says worse than the baseline: sealed test, looked at once: "
            "score 0.500 → 0.600, worse than the baseline",
        ),
        (
            claim_of("looked at before", reason="an earlier run had read it"),
            "the run says looked at before: sealed test, looked at before: "
            "score 0.500 → 0.600; an earlier run had read it",
        ),
        (
            claim_of("not shown", "selected on holdout"),
            "the run says better where it was chosen: selected on test: score 0.500 → 0.600, "
            "optimistic since these scores chose the result",
        ),
    ],
)
def test_everything_else_is_refused_with_what_the_run_says(claim: Claim | None, words: str) -> None:
    with pytest.raises(NotImproved) as error:
        require_improved(claim)
    assert str(error.value) == f"required: improved; {words}"
    assert error.value.exit_code == 4


# -- Stopping and resuming ------------------------------------------------------------------------


async def test_a_signal_leaves_the_claim_to_the_resume(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    setup = setup_of(coin, count=3)
    search = setup.strategy.search

    async def interrupted(run: Run) -> None:
        await search(run)
        run.ask_to_stop("asked to stop by a signal")
        run.closing.stopped = StopReason(code="signal", detail="asked to stop by a signal")

    stopping = replace(setup, strategy=replace(setup.strategy, steps=interrupted))  # type: ignore[type-var]
    ending, claim = await claimed(stopping, tmp_path / "run")
    assert ending.interrupted
    assert claim.basis == "selected on holdout"
    assert "asked to stop by a signal" in claim.reason
    before = len(coin.calls)
    _, claim = await claimed(setup, tmp_path / "run")
    assert (claim.basis, claim.verdict) == ("fresh draws", "improved")
    assert len(coin.calls) == before + 2 * len(HOLDOUT)


async def test_a_crash_between_the_two_pays_nothing_twice(tmp_path: Path) -> None:
    whole = Coin(rates=helpful)
    _, expected = await claimed(setup_of(whole, count=3), tmp_path / "whole")

    class Crash(Coin):
        def __call__(self, candidate: Candidate, case: Case, draw: int) -> str:
            answer = super().__call__(candidate, case, draw)
            if len(self.fresh) >= len(HOLDOUT) + 5:
                raise Interrupted("killed")
            return answer

    coin = Crash(rates=helpful)
    with pytest.raises(Interrupted):
        await driven(setup_of(coin, count=3, concurrency=1), tmp_path / "run")
    after = Coin(rates=helpful)
    ending, claim = await claimed(setup_of(after, count=3), tmp_path / "run")
    assert claim == expected
    assert len(after.calls) == len(HOLDOUT) - 4, "only what had not ended is run"
    assert ending.spent.metric_calls == len(whole.calls)


async def test_a_resume_that_searches_on_confirms_another_winner_on_its_own_draws(
    tmp_path: Path,
) -> None:
    def better_and_better(text: str) -> float:
        return min(0.95, 0.2 + 0.15 * text.count("x"))

    coin, ear = Coin(rates=better_and_better), Ear()
    first = setup_of(coin, budget=Budget(max_trials=2))
    await driven(first, tmp_path / "run", ear)
    one = len(coin.fresh)
    second = setup_of(coin, budget=Budget(max_trials=5))
    ending = await driven(second, tmp_path / "run", ear)
    claims = [event.read(Claim) for event in ear.events if event.kind == "claim"]
    assert [claim.basis for claim in claims if claim] == ["fresh draws", "fresh draws"]
    assert len({claim.candidate for claim in claims if claim}) == 2
    assert ending.claim == claims[-1] == RunRecord.read(tmp_path / "run").claim
    draws = [{draw for *_, draw in part} for part in (coin.fresh[:one], coin.fresh[one:])]
    assert not draws[0] & draws[1]
    # Both confirmations count as spent, and in no trial.
    assert ending.spent.metric_calls == len(coin.calls)
    # A third time nothing is left to do: the same claim, and nothing is paid.
    count = len(coin.calls)
    again = await driven(second, tmp_path / "run")
    assert again.claim == ending.claim
    assert again.spent == ending.spent
    assert len(coin.calls) == count


async def test_what_an_earlier_confirmation_spent_is_gone(tmp_path: Path) -> None:
    def better_and_better(text: str) -> float:
        return min(0.95, 0.2 + 0.15 * text.count("x"))

    coin = Coin(rates=better_and_better)
    await driven(setup_of(coin, budget=Budget(max_trials=2)), tmp_path / "run")
    assert len(coin.calls) == 20 * 3 + 40
    # 100 are spent; another round of 20, and 40 for its winner, just fit.
    limited = setup_of(coin, budget=Budget(max_metric_calls=165))
    ending = await driven(limited, tmp_path / "run")
    assert ending.spent.metric_calls == len(coin.calls) <= 165
    assert ending.claim is not None
    assert ending.claim.basis == "fresh draws"


async def test_the_results_reach_no_decision(tmp_path: Path) -> None:
    setup = setup_of(Coin(rates=helpful), count=3)
    seen: list[int] = []
    search = setup.strategy.search

    async def watched(run: Run) -> None:
        await search(run)
        seen.append(len(run.offers.results(run.incumbent.id)))
        before = run.offers.evaluation(run.incumbent.id)
        await confirm(run)
        seen.append(len(run.offers.results(run.incumbent.id)))
        assert run.offers.evaluation(run.incumbent.id) == before

    watching = replace(setup, strategy=replace(setup.strategy, steps=watched))  # type: ignore[type-var]
    await driven(watching, tmp_path / "run")
    assert seen == [20, 20]
    with look_into(tmp_path / "run") as reader:
        rows = [row for row in reader.effects() if row.trial == AFTER_SEARCH]
    assert {row.kind for row in rows} == {"run", "score"}


async def test_a_run_that_began_without_it_is_not_measured_again(tmp_path: Path) -> None:
    coin = Coin(rates=helpful)
    folder = tmp_path / "run"
    await driven(setup_of(coin, count=3, confirm=False), folder)
    header = Header.read(folder)
    assert not header.confirm
    _, claim = await claimed(setup_of(coin, count=3), folder)
    assert claim.basis == "selected on holdout"
    assert not coin.fresh
    # Without its event, the record still says what it can.
    run = RunRecord.read(folder)
    older = replace(run, events=tuple(e for e in run.events if e.kind != "claim")).claim
    assert older is not None
    assert (older.basis, older.verdict) == ("selected on holdout", "not shown")
    assert (older.baseline_score, older.best_score) == (claim.baseline_score, claim.best_score)
