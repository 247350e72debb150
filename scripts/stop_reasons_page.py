"""The page of stop reasons: every code that the code writes down, shown by making it happen."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from source_reading import row

from burnish.core.money import Spend
from burnish.core.trials import FINISHED, Standing, StopReason
from burnish.journal.limits import Budget
from burnish.runs import stoppers

SOURCE = Path(__file__).resolve().parent.parent / "src" / "burnish"


def _spends(budget: Budget, spent: Spend) -> Callable[[], StopReason | None]:
    return lambda: budget.spend_limit(spent)


def _stands(budget: Budget, standing: Standing) -> Callable[[], StopReason | None]:
    return lambda: next(stoppers.pure_reasons(budget, standing))


_NANO = 10**9
REASONS: tuple[tuple[str, str, Callable[[], StopReason | None]], ...] = (
    ("finished", "The strategy had nothing left to try. No limit was met.", lambda: FINISHED),
    (
        "max_trials",
        "Trials, the baseline not counted.",
        _stands(Budget(max_trials=60), Standing(trials=60)),
    ),
    (
        "max_proposals",
        "Answers of proposing roles.",
        _stands(Budget(max_proposals=20), Standing(proposals=20)),
    ),
    (
        "max_tracked_candidates",
        "Candidates accepted, the baseline counted.",
        _stands(Budget(max_tracked_candidates=5), Standing(tracked_candidates=5)),
    ),
    (
        "patience",
        "Trials in a row without an accept.",
        _stands(Budget(patience=8), Standing(since_accept=8)),
    ),
    (
        "score_threshold",
        "The incumbent's score on the split that decides is good enough.",
        _stands(Budget(score_threshold=0.9), Standing(best_score=0.92)),
    ),
    (
        "required_metrics",
        "The incumbent passes these metrics on every case.",
        _stands(Budget(required_metrics=("exact",)), Standing(best_passing={"exact": True})),
    ),
    (
        "max_metric_calls",
        "Cases run.",
        _spends(Budget(max_metric_calls=500), Spend(metric_calls=500)),
    ),
    (
        "max_calls",
        "Paid calls of any kind: agent, judge, proposer.",
        _spends(Budget(max_calls=800), Spend(calls=800)),
    ),
    ("max_tokens", "Tokens in both directions.", _spends(Budget(max_tokens=9), Spend(tokens_in=9))),
    ("max_usd", "US dollars.", _spends(Budget(max_usd=2), Spend(nano_usd=2 * _NANO))),
    (
        "price_unknown",
        "USD are limited, and a call came back without a price.",
        _spends(Budget(max_usd=2), Spend(calls=3, unpriced=3)),
    ),
    (
        "max_minutes",
        "Minutes of active time, all sessions together.",
        stoppers.out_of_time(10, lambda: 660).look,
    ),
    (
        "stop_file",
        "Somebody made the file `optimize.stop` in the run's folder.",
        lambda: StopReason(code="stop_file", detail="…/optimize.stop exists"),
    ),
    (
        "signal",
        "Ctrl-C or SIGTERM. The only one that ends with exit code 2.",
        lambda: StopReason(code="signal", detail="asked to stop by a signal"),
    ),
)


def stop_reasons() -> str:
    """Every reason code, with the sentence that comes with it."""
    known = {code for code, _, _ in REASONS}
    written = set(_codes_in_source())
    if written != known:
        raise SystemExit(f"stop reasons to describe, or to forget: {sorted(written ^ known)}")
    parts = [
        "# Stop reasons",
        "",
        "Why a run ended: a stable code for programs and a sentence for people. Limits are checked",
        "before each trial; a trial in progress is finished.",
        "",
        "| code | when | an example of the sentence |",
        "|---|---|---|",
    ]
    for code, when, show in REASONS:
        reason = show()
        if reason is None or reason.code != code:
            raise SystemExit(f"the example of '{code}' does not give that reason")
        parts.append(row(f"`{code}`", when, reason.detail))
    asked = stoppers.callback_stopper("nightly window", lambda: True).look()
    assert asked is not None
    label = "*your label*"
    parts.append(row(label, "A callable of `Setup.stop_callbacks` gave True.", asked.detail))
    return "\n".join(parts)


def _codes_in_source() -> Iterator[str]:
    """The codes that the code writes down: limits of a budget, and those of stop reasons."""
    yield FINISHED.code
    yield "patience"
    yield from (name for name in Budget.__dataclass_fields__ if name.startswith("max_"))
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StopReason":
                codes = (word.value for word in node.keywords if word.arg == "code")
                yield from (str(v.value) for v in codes if isinstance(v, ast.Constant))
