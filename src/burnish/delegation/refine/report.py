"""REFINEMENT.md: what a session tried, what became of it, and how far to trust its losses."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.formatting import cell, counted, money, number
from burnish.delegation.refine.gradients import mapping, read_json, rows, run_signals, text
from burnish.delegation.refine.loop import REASONS
from burnish.delegation.refine.seeds import Seed
from burnish.delegation.refine.sessions import Session
from burnish.delegation.result import WEIGHTS

PAGE = "REFINEMENT.md"


def refine_page(seed: Seed, session: Session, place: Path) -> str:
    """The report of a session as Markdown; `place` is the folder of its iterations."""
    parts = (
        _headline(seed, session),
        _iterations(session),
        _parts(seed, session, place),
        _gradients(session, place),
        _notes(session),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


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
    yield f"| spent | {_spent(session)} |"
    yield ""
    yield (
        "The loss is a training score: the same critic, gates and metrics steered the work. "
        "Nothing was held out."
    )


def _spent(session: Session) -> str:
    calls = sum(each.calls for each in session.iterations)
    prices = [each.usd for each in session.iterations]
    priced = [each for each in prices if each is not None]
    usd = money(sum(priced) if len(priced) == len(prices) else None)
    return f"{counted(calls, 'call')} · {usd}"


def _iterations(session: Session) -> Iterator[str]:
    yield from ("", "## Iterations", "")
    if not session.iterations:
        yield "None was made."
        return
    yield from ("| | models | status | loss | |", "|---|---|---|---|---|")
    for each in session.iterations:
        models = " / ".join(filter(None, (each.tier, each.model_manager, each.model_worker)))
        mark = "**best**" if each.k == session.best_iter else ""
        remark = " ".join(filter(None, (mark, cell(each.note, 200))))
        loss = number(each.loss)
        yield f"| {each.k} | {cell(models, 120)} | {each.status} | {loss} | {remark} |"


def _parts(seed: Seed, session: Session, place: Path) -> Iterator[str]:
    yield from ("", "## Where the loss comes from", "")
    yield f"| | {' | '.join(WEIGHTS)} | total |"
    yield f"|---|{'---|' * (len(WEIGHTS) + 1)}"
    yield _row("seed", seed.signals.loss.to_json())
    for each in session.iterations:
        try:
            yield _row(str(each.k), run_signals(place.parent / each.run_dir).loss.to_json())
        except BurnishError:
            continue


def _row(name: str, loss: Mapping[str, Json]) -> str:
    values = [number(loss[part]) for part in (*WEIGHTS, "total")]
    return f"| {name} | {' | '.join(values)} |"


def _gradients(session: Session, place: Path) -> Iterator[str]:
    yield from ("", "## What each iteration was told", "")
    for each in session.iterations:
        try:
            gradient = mapping(read_json(place / f"iter_{each.k}" / "gradient_input.json"))
        except BurnishError:
            continue
        yield f"Iteration {each.k}, from run {text(gradient.get('prior_run_id'))}:"
        yield ""
        for defect in rows(gradient.get("defects")):
            yield f"- [{text(defect.get('severity'))}] {cell(text(defect.get('summary')), 300)}"
        for gate in rows(gradient.get("rejected_gates")):
            yield f"- gate {text(gate.get('gate'))}: {cell(text(gate.get('reason')), 300)}"
        for metric, gap in mapping(gradient.get("eval_deltas")).items():
            yield f"- metric {metric}: {json.dumps(gap)} short of its threshold"
        yield ""


def _notes(session: Session) -> Iterator[str]:
    yield from ("## Notes", "")
    yield from (f"- {note}" for note in session.notes)
    yield (
        "- an iteration has half of the seed's budget, so that the part `budget_burn` of its loss "
        "tends to be higher"
    )
