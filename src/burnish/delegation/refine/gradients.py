"""The gradient of a run: what it got wrong, read from its files."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.core.evaluations import mean
from burnish.delegation.result import Loss, delegation_loss
from burnish.system import read_bytes

COMPLETION, MANIFEST = "run_completion.json", "run_manifest.json"


def read_json(path: Path) -> Json:
    """What a JSON file says; None where there is no file. Raises where it cannot be read."""
    if not path.exists():
        return None
    try:
        return _parsed(read_bytes(path))
    except ValueError as error:
        raise FileTrouble(
            f"{path} is damaged: {error}", remedy="restore it, or refine another run"
        ) from error


def _json_rows(path: Path) -> Iterator[Mapping[str, Json]]:
    """The lines that are JSON objects; a torn one at the end of a killed run is left out."""
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
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Json) -> list[Mapping[str, Json]]:
    """The objects of a list, where it is one."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def text(value: Json) -> str:
    """The value where it is a text, else an empty one; half characters cannot be written again."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def run_id_in(completion: Mapping[str, Json], run: Path) -> str:
    """What the run is called; its folder's name where it says nothing that could be one."""
    name = text(completion.get("run_id"))
    return name if name and Path(name).name == name else run.name


def number(value: Json) -> float | None:
    """The value where it is a number that counts; the infinities are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _parsed(content: bytes) -> Json:
    return cast("Json", json.loads(content, parse_constant=_refused))


def _refused(name: str) -> NoReturn:
    """NaN compares with nothing: a run that says it has said nothing that could be improved."""
    raise ValueError(f"{name} is no number")


_MAX_REJECTIONS = 2
_REJECTED = frozenset(("reject", "rejected", "fail", "failed"))


@dataclass(frozen=True, kw_only=True)
class RunSignals:
    """What the loss is made of; None where a run does not say, which counts as neutral."""

    eval_score: float | None
    critique_score: float | None
    rejections: int
    max_rejections: int
    budget_remaining: float | None
    status: str

    @property
    def loss(self) -> Loss:
        """The five parts and their sum."""
        return delegation_loss(**vars(self))

    def to_json(self) -> dict[str, Json]:
        """As a manifest keeps them."""
        return dict(vars(self))


def run_signals(run: Path) -> RunSignals:
    """What the run in this folder came to."""
    completion = mapping(read_json(run / COMPLETION))
    rows = list(_json_rows(run / "metrics.jsonl"))
    left = number(mapping(completion.get("final_budget")).get("budget_remaining_pct"))
    return RunSignals(
        eval_score=_eval(completion, rows),
        critique_score=_critique(completion, rows),
        rejections=len(_rejections(rows)),
        max_rejections=_allowed(run, completion),
        budget_remaining=None if left is None else left / 100,
        status=text(completion.get("status")),
    )


def _eval(completion: Mapping[str, Json], rows: Sequence[Mapping[str, Json]]) -> float | None:
    values = (
        mapping(completion.get("eval")).get("score"),
        mapping(completion.get("evaluation")).get("total_score"),
    )
    return _first(values) if _first(values) is not None else _mean(rows, "metric.eval")


def _critique(completion: Mapping[str, Json], rows: Sequence[Mapping[str, Json]]) -> float | None:
    values = (mapping(completion.get("critique")).get("score"), completion.get("critique_score"))
    return _first(values) if _first(values) is not None else _mean(rows, "metric.critique")


def _first(values: Sequence[Json]) -> float | None:
    return next((value for each in values if (value := number(each)) is not None), None)


def _mean(rows: Sequence[Mapping[str, Json]], kind: str) -> float | None:
    scores = [number(row.get("score")) for row in rows if row.get("kind") == kind]
    present = [score for score in scores if score is not None]
    return mean(present) if present else None


def _rejections(rows: Sequence[Mapping[str, Json]]) -> set[tuple[str, str]]:
    """Each rejection once: some gates are written down twice by awp-agents."""
    return {
        (str(row.get("iteration")), str(row.get("gate")))
        for row in rows
        if row.get("kind") == "metric.gate" and row.get("verdict") in _REJECTED
    }


def _allowed(run: Path, completion: Mapping[str, Json]) -> int:
    name = "max_rejected_completions"
    budget = mapping(mapping(read_json(run / MANIFEST)).get("budget"))
    limits = (number(mapping(completion.get("config_used")).get(name)), number(budget.get(name)))
    return next((int(each) for each in limits if each and each >= 1), _MAX_REJECTIONS)


# -- The gradient of a run ------------------------------------------------------------------------


_LAST_REJECTIONS = 3
_KEY_CHARS = 120
_NO_REJECTIONS = frozenset(
    ("r31_plan_tool_closure", "critique_bypass", "critique_delegate", "completion_circuit_breaker")
)
"""Gates whose events say something else than that a deliverable was rejected."""


@dataclass(frozen=True, kw_only=True)
class GradientDefect:
    """Something a critic found."""

    summary: str
    severity: str
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class _Rejection:
    """A gate that turned a completion down."""

    gate: str
    reason: str
    ts: str = ""


@dataclass(frozen=True, kw_only=True)
class RunGradient:
    """All that should be better."""

    prior_run_id: str
    prior_loss_total: float | None = None
    prior_raw_signals: Mapping[str, Json] = field(default_factory=dict[str, Json])
    defects: tuple[GradientDefect, ...] = ()
    rejected_gates: tuple[_Rejection, ...] = ()
    eval_deltas: Mapping[str, float] = field(default_factory=dict[str, float])
    """By metric, what is missing to its threshold."""

    @property
    def empty(self) -> bool:
        """Nothing to refine."""
        return not (self.defects or self.rejected_gates or self.eval_deltas)

    def to_json(self) -> dict[str, Json]:
        """As gradient_input.json keeps it."""
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
    defects = _defects(run) or _reported_defects(completion)
    signals: dict[str, Json] = {"critique_defect_count": len(defects)}
    score = number(mapping(completion.get("evaluation")).get("total_score"))
    confidence = number(completion.get("confidence"))
    signals |= {} if score is None else {"eval_score": score}
    signals |= {} if confidence is None else {"confidence": confidence}
    run_id = run_id_in(completion, run)
    return RunGradient(
        prior_run_id=run_id,
        prior_loss_total=loss,
        prior_raw_signals=signals,
        defects=tuple(defects),
        rejected_gates=tuple(_gate_rejections(run, run_id))[-_LAST_REJECTIONS:],
        eval_deltas=_deltas(mapping(completion.get("evaluation"))),
    )


def _defects(run: Path) -> list[GradientDefect]:
    """The defects of all iterations, each once, the earliest first."""
    defects: dict[tuple[str, str], GradientDefect] = {}
    for path in sorted(run.glob("iterations/*/critique.json"), key=_number_of):
        for critique in rows(mapping(read_json(path)).get("critiques")):
            for row in rows(critique.get("defects")):
                if summary := text(row.get("description")).strip():
                    severity = text(row.get("severity")) or "medium"
                    key = (summary[:_KEY_CHARS], severity)
                    defects.setdefault(
                        key,
                        GradientDefect(
                            summary=summary, severity=severity, evidence=text(row.get("location"))
                        ),
                    )
    return list(defects.values())


def _number_of(path: Path) -> tuple[int, str]:
    """Iterations by number, whether or not their names are padded."""
    name = path.parent.name
    return (int(name), "") if name.isdigit() else (0, name)


def _reported_defects(completion: Mapping[str, Json]) -> list[GradientDefect]:
    return [
        GradientDefect(
            summary=summary,
            severity=text(row.get("severity")) or "medium",
            evidence=text(row.get("evidence")) or text(row.get("location")),
        )
        for row in rows(mapping(completion.get("critique")).get("defects"))
        if (summary := text(row.get("summary")) or text(row.get("description")))
    ]


def _gate_rejections(run: Path, run_id: str) -> Iterator[_Rejection]:
    path = _events_path(run, run_id)
    rejections = () if path is None else map(_rejection, _json_rows(path))
    yield from (each for each in rejections if each is not None)


def _rejection(row: Mapping[str, Json]) -> _Rejection | None:
    """A rejection in either of the two shapes, or None."""
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
    """`logs/<run id>/events.jsonl` beside any folder on the way up, else one in the run itself."""
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
    scores, thresholds = (
        mapping(evaluation.get("per_metric")),
        mapping(evaluation.get("thresholds")),
    )
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
    """What the manager is told before its first plan; empty sections are left out."""
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
    """One line each; of very many only the severest."""
    chosen = sorted(defects, key=_rank)[:_MOST_DEFECTS] if len(defects) > _MOST_DEFECTS else defects
    for defect in chosen:
        at = f" ({_line(defect.evidence)})" if defect.evidence else ""
        yield f"  - [{_line(defect.severity)}] {_line(defect.summary)}{at}"
    if len(chosen) < len(defects):
        yield f"  - and {len(defects) - len(chosen)} more of the same kinds"


def _rank(defect: GradientDefect) -> int:
    severity = defect.severity.lower()
    return _SEVEREST.index(severity) if severity in _SEVEREST else len(_SEVEREST)


def _line(words: str) -> str:
    """Text of others on one line, so that it cannot look like a part of this page."""
    flat = " ".join(words.split())
    return flat if len(flat) <= _MOST_CHARS else f"{flat[: _MOST_CHARS - 1]}…"
