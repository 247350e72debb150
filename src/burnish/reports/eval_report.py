"""The report of a measurement: one piece of data that tables, files and comparisons are made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Evaluation
from burnish.reports.eval_baseline import BaselineComparison, compare_rows
from burnish.reports.eval_noise import Noise, noise_of
from burnish.reports.eval_rows import CaseRow, rows_of
from burnish.reports.eval_summary import Bill, MetricSummary, Totals, summaries_of, totals_of
from burnish.system import Redactor, read_bytes, write_atomic
from burnish.version import VERSION

NAME = "evaluation.json"
"""The report in the folder of its run."""
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class About:
    """What was measured, where and when."""

    agent: str
    source: str = ""
    """The file that describes it."""
    run: str = ""
    folder: str = ""
    at: str = ""
    """UTC, ISO 8601."""
    seed: int = 42


@dataclass(frozen=True, kw_only=True)
class EvalReport:
    """What a measurement found, case by case and in sum."""

    schema: int = SCHEMA
    about: About
    burnish: str = VERSION
    """The version that measured."""
    metrics: tuple[MetricSummary, ...]
    totals: Totals
    cases: tuple[CaseRow, ...]
    noise: Noise | None = None
    """What `--aa` found."""
    baseline: BaselineComparison | None = None
    """What `--baseline` found."""

    @classmethod
    def from_measurement(
        cls,
        evaluation: Evaluation,
        cases: Sequence[Case],
        about: About,
        *,
        bill: Bill | None = None,
        thresholds: Mapping[str, float | None] | None = None,
        redactor: Redactor | None = None,
    ) -> "EvalReport":
        """The report of an evaluation; secrets that cases or replies hold are taken out.

        `thresholds` names the metrics in the order in which they are shown.
        """
        rows = _clean(rows_of(cases, evaluation), redactor or Redactor.from_environment())
        return cls(
            about=about,
            metrics=summaries_of(rows, thresholds or {}, about.seed),
            totals=totals_of(rows, evaluation, bill or Bill()),
            cases=rows,
        )

    def with_noise(self) -> "EvalReport":
        """The same, its repeats read as measurements of one agent against itself."""
        return replace(self, noise=noise_of(self.cases))

    def against(self, baseline: "EvalReport") -> "EvalReport":
        """The same, beside an earlier measurement."""
        found = compare_rows(
            self.cases,
            baseline.cases,
            seed=self.about.seed,
            name=baseline.about.run,
            metrics=[each.metric for each in self.metrics],
        )
        return replace(self, baseline=found)

    @property
    def ok(self) -> bool:
        """Whether every threshold holds: some case passes, none fails, none is missing."""
        totals = self.totals
        return totals.passed > 0 and not totals.failed and not totals.missing

    def to_json(self) -> dict[str, Json]:
        """As plain data, with a summary in the words of HoloDeck."""
        data = codec(EvalReport).encode(self)
        assert isinstance(data, dict)
        head: dict[str, Json] = {"schema": self.schema, "summary": _summary(self)}
        return {**head, **data}

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        write_atomic(path, self.to_text())

    def to_text(self) -> str:
        """As JSON: indented at the top, and one case a line, so that a diff can be read."""
        data = self.to_json()
        rows = data.pop("cases")
        assert isinstance(rows, list)
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        head = json.dumps({**data, "cases": []}, indent=2, ensure_ascii=False)
        return head.removesuffix("[]\n}") + (f"[\n{lines}\n  ]\n}}\n" if rows else "[]\n}\n")

    @classmethod
    def read(cls, path: Path) -> "EvalReport":
        """A report that was written before; `path` may be the folder of its run."""
        file = path / NAME if path.is_dir() else path
        if path.is_dir() and not file.exists():
            raise _unfit(path, "there is no evaluation.json: this run measured nothing to its end")
        try:
            data: Json = json.loads(read_bytes(file))
            schema = data.get("schema") if isinstance(data, dict) else None
            if isinstance(schema, int) and schema > SCHEMA:
                raise _unfit(file, "this report was written by a newer burnish")
            return codec(EvalReport).decode(data)
        except ValueError:
            raise _unfit(file, "this is not a report of `burnish eval`") from None


def _clean(rows: tuple[CaseRow, ...], redactor: Redactor) -> tuple[CaseRow, ...]:
    """The rows without secrets: recorded replies and the cases' own texts saw no journal."""
    data = codec(tuple[CaseRow, ...]).encode(rows)
    if redactor.is_clean(json.dumps(data, ensure_ascii=False)):
        return rows
    return codec(tuple[CaseRow, ...]).decode(redactor.json(data))


def _summary(report: EvalReport) -> dict[str, Json]:
    """What other tools read first; rates from 0 to 1, and zeros count in every mean."""
    totals, about = report.totals, report.about
    return {
        "agent_name": about.agent,
        "agent_config_path": about.source,
        "timestamp": about.at,
        "total_tests": totals.cases,
        "passed": totals.passed,
        "failed": totals.failed,
        "missing": totals.missing,
        "unjudged": totals.unjudged,
        "pass_rate": None if totals.pass_rate is None else totals.pass_rate.value,
        "total_duration_ms": round(totals.active_seconds * 1000),
        "metrics_evaluated": {each.metric: each.cases for each in report.metrics},
        "average_scores": {each.metric: each.mean for each in report.metrics},
        "thresholds_hold": report.ok,
    }


def _unfit(path: Path, message: str) -> ConfigError:
    return ConfigError(
        [Problem(where=str(path), message=message)],
        remedy="give a file that `burnish eval --json FILE` wrote, or a run of `burnish eval`",
    )
