"""A result as people and log scanners read it: `summary.txt` and the one line of `run.log`."""

from collections.abc import Iterator
from pathlib import Path

from burnish.core.words import money, shorten
from burnish.reports.optimize_result import OptimizeResult, SealedTest

UNKNOWN = "unknown"


def summary(result: OptimizeResult, *, output_dir: Path, update_source: bool) -> str:
    """What a person reads first."""
    return "\n".join(_lines(result, output_dir, update_source=update_source)) + "\n"


def _lines(result: OptimizeResult, output_dir: Path, *, update_source: bool) -> Iterator[str]:
    head = "Optimization complete" if result.status == "SUCCEEDED" else "Optimization ended"
    yield f"{head} | status={result.status} | algorithm={result.algorithm}"
    yield f"  pass_rate     : {_change(result.baseline_pass_rate, result.best_pass_rate)}"
    yield f"  mean_score    : {_change(result.baseline_mean_score, result.best_mean_score)}"
    if result.missing_cases:
        yield f"  missing       : {result.missing_cases} validation cases, in no number above"
    if result.sealed_test is not None:
        yield f"  sealed test   : {_sealed(result.sealed_test)}"
    yield f"  rounds        : {result.rounds_accepted} accepted / {result.total_rounds} total"
    yield f"  metric_calls  : {result.total_metric_calls}"
    yield f"  duration      : {result.duration_seconds:.2f}s"
    yield f"  stop_reason   : {result.stop_reason or 'none'}"
    yield f"  finish_reason : {result.finish_reason}"
    yield f"  update_source : {_updated(result, asked=update_source)}"
    if result.error_message:
        yield f"  error         : {shorten(result.error_message, 300)}"
    yield from _metrics(result)
    yield from _calls(result)
    yield from _prompts(result)
    yield from ("", f"files in {output_dir}")
    yield "  result.json  rounds/  baseline_prompts/  best_prompts/  config.snapshot.json"


def _metrics(result: OptimizeResult) -> Iterator[str]:
    names = sorted({*result.baseline_metric_breakdown, *result.best_metric_breakdown})
    if names:
        yield from ("", "metrics on validation")
    for name in names:
        before, after = (
            each.get(name)
            for each in (result.baseline_metric_breakdown, result.best_metric_breakdown)
        )
        bar = result.metric_thresholds.get(name)
        wanted = "" if bar is None else f"  (threshold {bar:g})"
        yield f"  {name}: {_change(before, after)}{wanted}"


def _calls(result: OptimizeResult) -> Iterator[str]:
    yield from ("", "calls")
    kinds = {
        "agent": result.agent_usage,
        "judges": result.judge_usage,
        "reflection": result.reflection_usage,
    }
    for name, used in kinds.items():
        yield f"  {name:<10} : {used.calls} calls, {used.total} tokens, {money(used.cost)}"


def _prompts(result: OptimizeResult) -> Iterator[str]:
    yield from ("", "best prompts")
    for name, text in result.best_prompts.items():
        before = result.baseline_prompts.get(name, "")
        change = "unchanged" if before == text else f"was {len(before)}"
        yield f"  {name}: {len(text)} characters ({change})"


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return f"{_number(before)} -> {_number(after)}"
    gain = after - before
    word = "no change" if gain == 0 else ("improved" if gain > 0 else "worse")
    return f"{before:.4f} -> {after:.4f} ({gain:+.4f}, {word})"


def _sealed(test: SealedTest) -> str:
    told = f"mean score {_number(test.baseline_mean_score)} -> {_number(test.best_mean_score)}"
    if test.gain is None:
        return told
    return f"{told}, gain {test.gain:+.4f} [{_number(test.low)}, {_number(test.high)}]"


def _updated(result: OptimizeResult, *, asked: bool) -> str:
    if result.source_updated:
        return "true"
    if asked and result.best_prompts == result.baseline_prompts:
        return "asked for, and nothing to change"
    return "asked for, not done" if asked else "false"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4f}"


def log_line(result: OptimizeResult) -> str:
    """`run.log`: one line for whoever greps."""
    old, new = result.baseline_pass_rate, result.best_pass_rate
    delta = (
        UNKNOWN if result.pass_rate_improvement is None else f"{result.pass_rate_improvement:+g}"
    )
    parts = [
        result.finished_at,
        f"status={result.status}",
        f"algorithm={result.algorithm}",
        f"baseline={UNKNOWN if old is None else f'{old:g}'}",
        f"best={UNKNOWN if new is None else f'{new:g}'}",
        f"delta={delta}",
        f"rounds={result.total_rounds}",
        f"duration_seconds={result.duration_seconds:g}",
    ]
    if result.stop_reason:
        parts.append(f"stop_reason={'_'.join(result.stop_reason.split())}")
    if result.error_message:
        parts.append(f"error={shorten(result.error_message, 300)!r}")
    return " ".join(part for part in parts if part) + "\n"
