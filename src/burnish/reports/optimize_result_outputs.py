"""The best output of each validation case, where a config asks for it: `track_best_outputs`."""

import json
from collections.abc import Mapping, Sequence

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.evaluations import mean
from burnish.core.outcomes import Outcome
from burnish.core.trials import TrialRow
from burnish.effects.journal_reader import JournalReader


def wants_outputs(config: Mapping[str, Json]) -> bool:
    """Whether an optimizer.json asks for them, in either spelling."""
    optimize = config.get("optimize")
    algorithm = optimize.get("algorithm") if isinstance(optimize, dict) else None
    told = algorithm if isinstance(algorithm, dict) else {}
    return bool(told.get("track_best_outputs", told.get("trackBestOutputs")))


def best_outputs(rows: Sequence[TrialRow], journal: JournalReader) -> dict[str, Json]:
    """By case, the best score, the round that reached it first, and what was said."""
    best: dict[str, tuple[float, TrialRow]] = {}
    for row in rows:
        if row.trial.holdout is None:
            continue
        for case, by_metric in row.trial.holdout.scores.items():
            score = _score(by_metric)
            if score is not None and (case not in best or score > best[case][0]):
                best[case] = (score, row)
    wanted = {(row.trial.candidate.id, case) for case, (_, row) in best.items()}
    said = _said(journal, wanted)
    return {
        case: {"score": score, "round": row.number, "output": said[row.trial.candidate.id, case]}
        for case, (score, row) in best.items()
        if (row.trial.candidate.id, case) in said
    }


def _score(by_metric: Mapping[str, Sequence[float | None]]) -> float | None:
    """The mean over metrics and repeats; None where any is missing."""
    values = [value for each in by_metric.values() for value in each]
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None


def _said(journal: JournalReader, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for effect in journal.effects():
        if effect.kind != "run" or not isinstance(effect.request, dict):
            continue
        place = (str(effect.request.get("candidate")), str(effect.request.get("name")))
        kept = journal.find(effect.key) if place in wanted and place not in found else None
        if kept is not None:
            found[place] = codec(Outcome).decode(json.loads(kept[0])).output
    return found
