"""REFINEMENT.md: what a session tried, the results, and how far to trust its losses."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.formatting import cell, counted, money, number, shorten
from burnish.delegation.refine.gradients import mapping, read_json, rows, text
from burnish.delegation.refine.loop import REASONS
from burnish.delegation.refine.seeds import Seed
from burnish.delegation.refine.sessions import Session
from burnish.delegation.result import WEIGHTS

PAGE = "REFINEMENT.md"


def refine_page(seed: Seed, session: Session, place: Path) -> str:
    """The report of a session as Markdown; `place` is the folder of its iterations."""
    lines = (
        *_headline(seed, session),
        *_iterations(session),
        *_parts(session),
        *_gradients(session, place),
        "## Notes",
        "",
        *(f"- {note}" for note in session.notes),
        "- the part `budget_burn` is the share of the seed's whole budget, for iterations too",
    )
    return "\n".join(lines) + "\n"


def outcome(session: Session) -> str:
    """How a session ended, in one sentence."""
    meaning = REASONS.get(session.stop_reason, session.error)
    return f"{session.stop_reason}: {meaning}" if meaning else session.stop_reason


def _headline(seed: Seed, session: Session) -> Iterator[str]:
    yield from (f"# Refinement {session.session_id}", "", "| | |", "|---|---|")
    yield f"| seed | {session.seed_run_id} |"
    yield f"| task | {cell(seed.task, 200)} |"
    yield f"| ended | {cell(outcome(session), 200)} |"
    yield f"| loss | {number(session.seed_loss)} → {number(session.best_loss)} |"
    best = f"iteration {session.best_iter}" if session.best_iter else "the seed"
    written = "" if not session.best_iter or session.best_written else ", not in BEST"
    yield f"| best | {best}{written} |"
    calls = sum(each.calls for each in session.iterations)
    prices = [each.usd for each in session.iterations if each.usd is not None]
    usd = money(sum(prices) if len(prices) == len(session.iterations) else None)
    yield f"| spent | {counted(calls, 'call')} · {usd} |"
    yield ""
    yield (
        "The loss is a training score: the same critic, gates and metrics steered the work. "
        "Nothing was held out."
    )


def _iterations(session: Session) -> Iterator[str]:
    yield from ("", "## Iterations", "")
    if not session.iterations:
        yield "No iteration was run."
        return
    yield from ("| | models | status | loss | |", "|---|---|---|---|---|")
    for each in session.iterations:
        models = " / ".join(filter(None, (each.tier, each.model_manager, each.model_worker)))
        mark = "**best**" if each.k == session.best_iter else ""
        remark = " ".join(filter(None, (mark, cell(each.note, 200))))
        loss = number(each.loss)
        yield f"| {each.k} | {cell(models, 120)} | {each.status} | {loss} | {remark} |"


def _parts(session: Session) -> Iterator[str]:
    yield from ("", "## Where the loss comes from", "")
    yield f"| | {' | '.join(WEIGHTS)} | total |"
    yield f"|---|{'---|' * (len(WEIGHTS) + 1)}"
    if session.seed_parts:
        yield _row("seed", session.seed_parts)
    for each in session.iterations:
        if each.parts:
            yield _row(str(each.k), each.parts)


def _row(name: str, loss: Mapping[str, Json]) -> str:
    values = [number(loss[part]) for part in (*WEIGHTS, "total")]
    return f"| {name} | {' | '.join(values)} |"


def _gradients(session: Session, place: Path) -> Iterator[str]:
    yield from ("", "## What each iteration was told", "")
    for each in session.iterations:
        gradient = _gradient(place, each.k)
        if gradient is None:
            continue
        yield f"Iteration {each.k}, from run {text(gradient.get('prior_run_id'))}:"
        yield ""
        yield from (f"- {cell(line, 320)}" for line in _defects(gradient))
        yield ""


def gradient_lines(place: Path, k: int) -> tuple[str, ...]:
    """What an iteration of the session in a folder was told, one line a defect."""
    gradient = _gradient(place, k)
    return () if gradient is None else tuple(_defects(gradient))


def _gradient(place: Path, k: int) -> Mapping[str, Json] | None:
    try:
        return mapping(read_json(place / f"iter_{k}" / "gradient_input.json"))
    except BurnishError:
        return None


def _defects(gradient: Mapping[str, Json]) -> Iterator[str]:
    for defect in rows(gradient.get("defects")):
        yield f"[{text(defect.get('severity'))}] {shorten(text(defect.get('summary')), 300)}"
    for gate in rows(gradient.get("rejected_gates")):
        yield f"gate {text(gate.get('gate'))}: {shorten(text(gate.get('reason')), 300)}"
    for metric, gap in mapping(gradient.get("eval_deltas")).items():
        yield f"metric {metric}: {json.dumps(gap)} short of its threshold"
