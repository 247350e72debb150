"""Reading the files of a finished delegation, one of ours or of awp-agents, and its loss."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.core.evaluations import mean
from burnish.system import read_bytes
from burnish.targets.delegation.loss import Loss, delegation_loss

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


def json_rows(path: Path) -> Iterator[Mapping[str, Json]]:
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
    told = text(completion.get("run_id"))
    return told if told and Path(told).name == told else run.name


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


MAX_REJECTIONS = 2
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
    rows = list(json_rows(run / "metrics.jsonl"))
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
    told = (
        mapping(completion.get("eval")).get("score"),
        mapping(completion.get("evaluation")).get("total_score"),
    )
    return _first(told) if _first(told) is not None else _mean(rows, "metric.eval")


def _critique(completion: Mapping[str, Json], rows: Sequence[Mapping[str, Json]]) -> float | None:
    told = (mapping(completion.get("critique")).get("score"), completion.get("critique_score"))
    return _first(told) if _first(told) is not None else _mean(rows, "metric.critique")


def _first(told: Sequence[Json]) -> float | None:
    return next((found for each in told if (found := number(each)) is not None), None)


def _mean(rows: Sequence[Mapping[str, Json]], kind: str) -> float | None:
    scores = [number(row.get("score")) for row in rows if row.get("kind") == kind]
    known = [score for score in scores if score is not None]
    return mean(known) if known else None


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
    told = (number(mapping(completion.get("config_used")).get(name)), number(budget.get(name)))
    return next((int(each) for each in told if each and each >= 1), MAX_REJECTIONS)
