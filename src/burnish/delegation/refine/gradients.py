"""The gradient of a run: what it got wrong, read from its files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.content import Json, from_json
from burnish.core.errors import FileTrouble
from burnish.core.evaluations import mean
from burnish.delegation.result import Loss, delegation_loss
from burnish.system import read_bytes

COMPLETION, MANIFEST = "run_completion.json", "run_manifest.json"


def read_json(path: Path) -> Json:
    """The content of a JSON file; None if there is no file. Raises FileTrouble."""
    if not path.exists():
        return None
    try:
        return _parsed(read_bytes(path))
    except ValueError as error:
        remedy = "restore it, or refine another run"
        raise FileTrouble(f"{path} is damaged: {error}", remedy=remedy) from error


def _json_rows(path: Path) -> Iterator[Mapping[str, Json]]:
    """The lines that are JSON objects; a torn last line of a killed run is skipped."""
    if not path.is_file():
        return
    for line in read_bytes(path).splitlines():
        try:
            row = _parsed(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def mapping(value: Json) -> Mapping[str, Json]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Json) -> list[Mapping[str, Json]]:
    """The objects in a list; empty if it is not one."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def text(value: Json) -> str:
    """The value if it is a text, else ''; lone surrogates are replaced."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def run_id_in(completion: Mapping[str, Json], run: Path) -> str:
    """The id of a run; the name of its folder if it has no valid id."""
    name = text(completion.get("run_id"))
    return name if name and Path(name).name == name else run.name


def number(value: Json) -> float | None:
    """The value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _parsed(content: bytes) -> Json:
    # NaN cannot be compared.
    return from_json(content, finite=True)


@dataclass(frozen=True, kw_only=True)
class RunSignals:
    """The signals of the loss; None is unknown and counts as neutral."""

    eval_score: float | None
    critique_score: float | None
    rejections: int
    max_rejections: int
    budget_remaining: float | None
    status: str

    @property
    def loss(self) -> Loss:
        return delegation_loss(**vars(self))

    def to_json(self) -> dict[str, Json]:
        return dict(vars(self))


def run_signals(run: Path) -> RunSignals:
    """The signals of the run in this folder."""
    completion = mapping(read_json(run / COMPLETION))
    rows = list(_json_rows(run / "metrics.jsonl"))
    left = number(mapping(completion.get("final_budget")).get("budget_remaining_pct"))
    budget, config = mapping(read_json(run / MANIFEST)).get("budget"), completion.get("config_used")
    limits = (number(mapping(each).get("max_rejected_completions")) for each in (config, budget))
    # A set, since awp-agents writes some gates down twice.
    rejections = {
        (str(row.get("iteration")), str(row.get("gate")))
        for row in rows
        if row.get("kind") == "metric.gate"
        and row.get("verdict") in ("reject", "rejected", "fail", "failed")
    }
    return RunSignals(
        eval_score=_score(
            rows,
            "metric.eval",
            mapping(completion.get("eval")).get("score"),
            mapping(completion.get("evaluation")).get("total_score"),
        ),
        critique_score=_score(
            rows,
            "metric.critique",
            mapping(completion.get("critique")).get("score"),
            completion.get("critique_score"),
        ),
        rejections=len(rejections),
        max_rejections=next((int(each) for each in limits if each and each >= 1), 2),
        budget_remaining=None if left is None else left / 100,
        status=text(completion.get("status")),
    )


def _score(rows: Sequence[Mapping[str, Json]], kind: str, *stated: Json) -> float | None:
    """The first score that is stated, else the mean of the metric rows of this kind."""
    values = [value for each in stated if (value := number(each)) is not None]
    if values:
        return values[0]
    scores = (number(row.get("score")) for row in rows if row.get("kind") == kind)
    present = [score for score in scores if score is not None]
    return mean(present) if present else None


_NO_REJECTIONS = frozenset(
    ("r31_plan_tool_closure", "critique_bypass", "critique_delegate", "completion_circuit_breaker")
)
"""Gates whose events do not mean that a deliverable was rejected."""


@dataclass(frozen=True, kw_only=True)
class GradientDefect:
    """Something a critic found."""

    summary: str
    severity: str
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class _Rejection:
    gate: str
    reason: str
    ts: str = ""


@dataclass(frozen=True, kw_only=True)
class RunGradient:
    """What should be improved."""

    prior_run_id: str
    prior_loss_total: float | None = None
    prior_raw_signals: Mapping[str, Json] = field(default_factory=dict[str, Json])
    defects: tuple[GradientDefect, ...] = ()
    rejected_gates: tuple[_Rejection, ...] = ()
    eval_deltas: Mapping[str, float] = field(default_factory=dict[str, float])
    """How far each metric is below its threshold."""

    @property
    def empty(self) -> bool:
        return not (self.defects or self.rejected_gates or self.eval_deltas)

    def to_json(self) -> dict[str, Json]:
        return {
            "prior_run_id": self.prior_run_id,
            "prior_loss_total": self.prior_loss_total,
            "prior_raw_signals": dict(self.prior_raw_signals),
            "defects": [dict(vars(defect)) for defect in self.defects],
            "rejected_gates": [dict(vars(rejection)) for rejection in self.rejected_gates],
            "eval_deltas": dict(self.eval_deltas),
        }


def gradient_of(run: Path, *, loss: float | None = None) -> RunGradient:
    """What the run in this folder got wrong."""
    completion = mapping(read_json(run / COMPLETION))
    reported = rows(mapping(completion.get("critique")).get("defects"))
    defects = _defects(run) or [
        _defect(row, summary, text(row.get("evidence")) or text(row.get("location")))
        for row in reported
        if (summary := text(row.get("summary")) or text(row.get("description")))
    ]
    signals: dict[str, Json] = {"critique_defect_count": len(defects)}
    score = number(mapping(completion.get("evaluation")).get("total_score"))
    confidence = number(completion.get("confidence"))
    signals |= {} if score is None else {"eval_score": score}
    signals |= {} if confidence is None else {"confidence": confidence}
    run_id = run_id_in(completion, run)
    events = _events_path(run, run_id)
    rejections = () if events is None else map(_rejection, _json_rows(events))
    return RunGradient(
        prior_run_id=run_id,
        prior_loss_total=loss,
        prior_raw_signals=signals,
        defects=tuple(defects),
        rejected_gates=tuple(filter(None, rejections))[-3:],
        eval_deltas=_deltas(mapping(completion.get("evaluation"))),
    )


def _defects(run: Path) -> list[GradientDefect]:
    defects: dict[tuple[str, str], GradientDefect] = {}
    for path in sorted(run.glob("iterations/*/critique.json"), key=_number_of):
        for critique in rows(mapping(read_json(path)).get("critiques")):
            for row in rows(critique.get("defects")):
                if summary := text(row.get("description")).strip():
                    defect = _defect(row, summary, text(row.get("location")))
                    defects.setdefault((summary[:120], defect.severity), defect)
    return list(defects.values())


def _defect(row: Mapping[str, Json], summary: str, evidence: str) -> GradientDefect:
    severity = text(row.get("severity")) or "medium"
    return GradientDefect(summary=summary, severity=severity, evidence=evidence)


def _number_of(path: Path) -> tuple[int, str]:
    """Iterations by number, whether or not their names are padded."""
    name = path.parent.name
    return (int(name), "") if name.isdigit() else (0, name)


def _rejection(row: Mapping[str, Json]) -> _Rejection | None:
    """A rejection in either of two formats, or None."""
    if row.get("type") == "gate.reject":
        fields = row
    elif row.get("category") == "gate" and mapping(row.get("fields")).get("triggered") is True:
        fields = mapping(row.get("fields"))
    else:
        return None
    gate = text(fields.get("gate"))
    if gate in _NO_REJECTIONS:
        return None
    return _Rejection(gate=gate, reason=text(fields.get("reason")), ts=text(row.get("ts")))


def _events_path(run: Path, run_id: str = "") -> Path | None:
    """`logs/<run id>/events.jsonl` in the run or a parent folder, else events.jsonl in the run."""
    home = run.resolve()
    names = [name for name in dict.fromkeys((run_id, home.name)) if name]
    for folder in (home, *home.parents):
        for name in names:
            path = folder / "logs" / name / "events.jsonl"
            if path.is_file():
                return path
    colocated = run / "events.jsonl"
    return colocated if colocated.is_file() else None


def _deltas(evaluation: Mapping[str, Json]) -> dict[str, float]:
    scores, thresholds = (mapping(evaluation.get(k)) for k in ("per_metric", "thresholds"))
    gaps: dict[str, float] = {}
    for metric, score in scores.items():
        observed, threshold = number(score), number(thresholds.get(metric))
        if observed is not None and threshold is not None and observed < threshold:
            gaps[text(metric)] = round(threshold - observed, 4)
    return gaps


_MOST_DEFECTS = 24
_MOST_CHARS = 300
_SEVEREST = ("critical", "high", "warning", "medium", "info", "low")


def refinement_prefix(gradient: RunGradient) -> str:
    """The text before the manager's first plan, without empty sections."""
    return "\n".join(_lines(gradient)) + "\n"


def _lines(gradient: RunGradient) -> Iterator[str]:
    yield "## REFINEMENT CONTEXT"
    yield "This task was done before. Its result is there to be made better."
    yield "Prior deliverable is available at: input/"
    if gradient.prior_loss_total is not None:
        yield f"Prior loss: {gradient.prior_loss_total:.3f}"
    yield from (f"  - {name}: {value}" for name, value in gradient.prior_raw_signals.items())
    if gradient.defects:
        yield "Defects identified by prior critique:"
        yield from _defect_lines(gradient.defects)
    if gradient.rejected_gates:
        yield "Rejected gates in prior run:"
        yield from (f"  - {gate.gate}: {_line(gate.reason)}" for gate in gradient.rejected_gates)
    if gradient.eval_deltas:
        yield "Metric gaps to close:"
        yield from (f"  - {m}: +{gap:.2f} needed" for m, gap in gradient.eval_deltas.items())
    yield "The goal is a lower loss: remove what is listed above."
    yield "Keep what is good in the prior deliverable, and deliver every file of it again."
    yield "Start from the files in input/ and change them; do not write everything anew."


def _defect_lines(defects: tuple[GradientDefect, ...]) -> Iterator[str]:
    rank = {severity: place for place, severity in enumerate(_SEVEREST)}
    chosen = defects
    if len(defects) > _MOST_DEFECTS:
        by_rank = sorted(defects, key=lambda each: rank.get(each.severity.lower(), len(rank)))
        chosen = tuple(by_rank[:_MOST_DEFECTS])
    for defect in chosen:
        at = f" ({_line(defect.evidence)})" if defect.evidence else ""
        yield f"  - [{_line(defect.severity)}] {_line(defect.summary)}{at}"
    if len(chosen) < len(defects):
        yield f"  - and {len(defects) - len(chosen)} more of the same kinds"


def _line(words: str) -> str:
    """Foreign text on one line, so that it cannot look like a part of this page."""
    flat = " ".join(words.split())
    return flat if len(flat) <= _MOST_CHARS else f"{flat[: _MOST_CHARS - 1]}…"
