"""Two runs side by side: `python compare.py [RUN RUN]`; the newest of both configs unless named."""

# ruff: noqa: T201

import sys
from pathlib import Path

from burnish.compat import OptimizeResult

HERE = Path(__file__).parent


def newest(name: str) -> Path:
    """The last run of a config."""
    runs = sorted((HERE / "results").glob(f"{name}_*"))
    if not runs:
        sys.exit(f"there is no run of optimizer_{name}.json: start run_{name}.py first")
    return runs[-1]


def rows(result: OptimizeResult) -> dict[str, str]:
    """The dimensions in which two searches differ, by their names in result.json."""
    share = result.rounds_accepted / result.total_rounds if result.total_rounds else 0.0
    return {
        "bestPassRate": _number(result.best_pass_rate),
        "bestMeanScore": _number(result.best_mean_score),
        "totalRounds": str(result.total_rounds),
        "roundsAccepted": f"{result.rounds_accepted} ({share:.0%})",
        "mergeRoundsTotal": str(result.merge_rounds_total),
        "proposalsTotal": str(result.proposals_total),
        "totalMetricCalls": str(result.total_metric_calls),
        "totalReflectionLmCalls": str(result.total_reflection_lm_calls),
        "stopReason": str(result.stop_reason),
    }


def main(folders: list[str]) -> None:
    """Print the table, and what keeps the two from being compared."""
    places = [Path(each) for each in folders] or [newest("baseline"), newest("advanced")]
    results = [OptimizeResult.from_file(each / "result.json") for each in places]
    left, right = map(rows, results)
    names = [each.name.partition("_")[0] for each in places]
    print(f"{'':<24}{names[0]:<26}{names[1]}")
    for name, value in left.items():
        print(f"{name:<24}{value:<26}{right[name]}")
    if left["stopReason"] != right["stopReason"]:
        print("! different limits ended them: the totals do not compare")


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main(sys.argv[1:])
