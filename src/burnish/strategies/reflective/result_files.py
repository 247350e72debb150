"""The files of AgentOptimizer in a run's folder, written while it runs and again at its end.

They say what the journal says, so that a resumed run, one from the command line and one that is
only reported on write the same. Nothing here can change or end the run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, FileTrouble
from burnish.core.evaluations import Measurement
from burnish.core.money import NOTHING
from burnish.core.surfaces import EPSILON
from burnish.core.trials import SplitResult, TrialRow
from burnish.runs.claims import claim_words
from burnish.runs.directory import Header, RunRecord, look_into
from burnish.runs.events import (
    BASELINE,
    CANDIDATES,
    Event,
    SealedResult,
    SessionBegun,
    Tick,
    TrialRecorded,
    read_all,
)
from burnish.runs.report_sections import alarms
from burnish.strategies.reflective.attempts import REFLECTIVE, ReflectiveDetails
from burnish.strategies.reflective.result_rounds import (
    Costs,
    Spent,
    best_outputs,
    fate_of,
    has_proposal,
    prompts_of,
    round_of,
    tokens,
    usage,
)
from burnish.strategies.reflective.results import (
    OptimizeResult,
    RoundRecord,
    SealedTest,
    as_json,
    log_line,
)
from burnish.system import Redactor, read_text, update_inside
from burnish.system.redaction import MARKER

OPTIMIZER = "optimizer"
"""Where `Project.config` keeps the optimizer.json of a run that a program started: secrets out,
`${VAR}` kept. Other runs keep it in their description."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run and what it cost."""

    run: RunRecord
    costs: Costs
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the fields said at the start, for a run that has no trial yet."""
    outputs: Mapping[str, Json] | None = None
    """The best output of each case, where the config asks for it."""

    @classmethod
    def read(cls, folder: Path, prompts: Mapping[str, str] | None = None) -> "RunFacts":
        run = RunRecord.read(folder)
        with look_into(folder) as journal:
            costs = Costs.of(journal.costs(), run.rows)
            options = _algorithm(_snapshot(run.header))
            tracked = options.get("track_best_outputs", options.get("trackBestOutputs"))
            outputs = best_outputs(run.rows, journal) if tracked else None
        return cls(run=run, costs=costs, prompts=prompts or {}, outputs=outputs)


def _snapshot(header: Header) -> dict[str, Json]:
    source = header.project.spec.get("source")
    document = source.get("document") if isinstance(source, dict) else None
    config = document or header.project.config.get(OPTIMIZER)
    return config if isinstance(config, dict) else {}


def _algorithm(config: Mapping[str, Json]) -> Mapping[str, Json]:
    optimize = config.get("optimize")
    algorithm = optimize.get("algorithm") if isinstance(optimize, dict) else None
    return algorithm if isinstance(algorithm, dict) else {}


def _metric_call_limit(events: Sequence[Event]) -> int | None:
    """The limit on metric calls, as the last session has it."""
    sessions = [*read_all(events, SessionBegun)]
    limit = sessions[-1].budget.get("max_metric_calls") if sessions else None
    return limit if isinstance(limit, int) else None


def _rounds_of(facts: RunFacts) -> list[RoundRecord]:
    """Every trial but the baseline's."""
    limit, used = _metric_call_limit(facts.run.events), 0
    rounds: list[RoundRecord] = []
    for row in facts.run.rows:
        used += row.spend.metric_calls
        if row.trial.phase != BASELINE:
            reflection = facts.costs.by_row.get(row.number, NOTHING)
            spent = Spent(reflection=reflection, metric_calls=used, limit=limit)
            rounds.append(round_of(row, spent))
    return rounds


def result_of(
    facts: RunFacts, *, source_updated: bool = False, trouble: str = ""
) -> OptimizeResult:
    """The result of the run; `trouble` is what went wrong after it, such as writing back."""
    run, fate = facts.run, fate_of(facts.run)
    baseline = run.baseline
    best = baseline if fate.status == "FAILED" else run.best
    before, after = _decisive(baseline), _decisive(best)
    rounds = _rounds_of(facts)
    config = _snapshot(run.header)
    algorithm = _algorithm(config).get("name")
    perfect = after is not None and after.pass_rate == 1.0 and not after.missing_cases
    first = _texts_of(run, baseline) if baseline else dict(facts.prompts)
    last = _texts_of(run, best) if best else first
    ended = run.ended_at or (run.rows[-1].at if run.rows else "")
    return OptimizeResult(
        algorithm=algorithm if isinstance(algorithm, str) else run.header.strategy,
        status=fate.status,
        finish_reason=fate.finish_reason(perfect=perfect, improved=best is not baseline),
        stop_reason=fate.stop_reason,
        error_message=trouble or fate.error_message,
        **_scores(before, after),
        metric_thresholds=_thresholds(config),
        per_metric_best_candidates=_best_at_metrics(run.rows),
        sealed_test=None if run.sealed is None else _sealed(run.sealed),
        claim=_claim(run),
        baseline_prompts=first,
        best_prompts=last,
        source_updated=source_updated,
        total_rounds=len(rounds),
        rounds=rounds,
        rounds_accepted=sum(each.accepted for each in rounds),
        merge_rounds_total=sum(each.kind == "merge" for each in rounds),
        proposals_total=sum(
            has_proposal(row.trial) and bool(row.trial.proposals) for row in run.rows
        ),
        **_spent(facts),
        duration_seconds=round(run.active_seconds, 3),
        started_at=run.header.started_at,
        finished_at=ended,
        extras=_extras(facts, best, last),
    )


def _texts_of(run: RunRecord, row: TrialRow) -> dict[str, str]:
    """The texts of a candidate, as they were written for the user to adopt where they were.

    The ledger has taken out of them what only looks like a secret, such as an example of one.
    """
    home = run.folder / CANDIDATES / f"iter-{row.number:02d}"
    return {
        name: read_text(path) if (path := home / f"{name}.md").is_file() else text
        for name, text in prompts_of(row.trial).items()
    }


def validated(row: TrialRow) -> SplitResult | None:
    """What a candidate did on validation, where it was run on all of it."""
    return row.trial.holdout if ReflectiveDetails.of(row.trial).holdout_is_whole else None


def _best_at_metrics(rows: Sequence[TrialRow]) -> dict[str, list[int]]:
    """By metric, the candidates with the best mean on validation, by their place in the pool."""
    pool = {
        row.trial.candidate.id: row
        for row in rows
        if row.trial.accepted or row.trial.kept or row.trial.phase == BASELINE
    }
    results = [validated(row) for row in pool.values()]
    nothing: Mapping[str, float] = {}
    means = [nothing if each is None else each.measurement.components for each in results]
    best = {m: max(each[m] for each in means if m in each) for each in means for m in each}
    return {
        metric: [n for n, each in enumerate(means) if each.get(metric, -1.0) >= top - EPSILON]
        for metric, top in best.items()
    }


def _decisive(row: TrialRow | None) -> Measurement | None:
    """The measurement that decides: on validation, or on train if there is nothing else."""
    result = None if row is None else row.trial.holdout or row.trial.train
    return None if result is None else result.measurement


def _scores(before: Measurement | None, after: Measurement | None) -> dict[str, Any]:
    old = None if before is None else before.pass_rate
    new = None if after is None else after.pass_rate
    return {
        "baseline_pass_rate": old,
        "best_pass_rate": new,
        "pass_rate_improvement": None if old is None or new is None else new - old,
        "baseline_mean_score": None if before is None else before.score,
        "best_mean_score": None if after is None else after.score,
        "baseline_metric_breakdown": {} if before is None else dict(before.components),
        "best_metric_breakdown": {} if after is None else dict(after.components),
        "missing_cases": 0 if after is None else len(after.missing_cases),
    }


def _spent(facts: RunFacts) -> dict[str, Any]:
    costs = facts.costs
    calls = facts.run.spent.metric_calls
    return {
        "total_metric_calls": calls,
        "metric_calls_total": calls,
        "total_reflection_lm_calls": costs.reflection.calls,
        "total_judge_model_calls": costs.judges.calls,
        "total_llm_cost": costs.in_all.usd,
        "total_token_usage": tokens(costs.reflection),
        "agent_usage": usage(costs.agent),
        "judge_usage": usage(costs.judges),
        "reflection_usage": usage(costs.reflection),
    }


def _thresholds(config: Mapping[str, Json]) -> dict[str, float]:
    """What each metric must reach, as the config says it, in any of its spellings."""
    evaluate = config.get("evaluate")
    section = evaluate if isinstance(evaluate, dict) else {}
    items, criteria = section.get("metrics"), section.get("criteria")
    metrics = [
        (item.get("metric_name", item.get("metricName")), item)
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict)
    ]
    return _bars(metrics) or _bars(criteria.items() if isinstance(criteria, dict) else [])


def _bars(criteria: Iterable[tuple[Json, Json]]) -> dict[str, float]:
    thresholds: dict[str, float] = {}
    for name, criterion in criteria:
        bar = criterion.get("threshold", 1.0) if isinstance(criterion, dict) else criterion
        if isinstance(name, str) and isinstance(bar, int | float):
            thresholds[name] = float(bar)
    return thresholds


def _claim(run: RunRecord) -> str:
    return "" if run.claim is None else claim_words(run.claim)


def _sealed(sealed: SealedResult) -> SealedTest:
    gain = sealed.gain
    return SealedTest(
        baseline_mean_score=sealed.baseline_score,
        best_mean_score=sealed.best_score,
        gain=None if gain is None else gain.mean,
        low=None if gain is None else gain.low,
        high=None if gain is None else gain.high,
        missing_cases=sealed.missing,
    )


def _extras(facts: RunFacts, best: TrialRow | None, prompts: Mapping[str, str]) -> dict[str, Json]:
    run = facts.run
    # AgentOptimizer itself has the calls here, its documentation at the top.
    extras: dict[str, Json] = {
        "run": run.header.id,
        "burnish": run.header.burnish,
        "total_metric_calls": run.spent.metric_calls,
    }
    if run.best is not None and run.best is not best:
        extras["best_round_so_far"] = run.best.number
    if run.search_end:
        extras["search_end"] = run.search_end
    if warnings := [*alarms(run)]:
        extras["warnings"] = [*warnings]
    if run.billed != run.spent:
        extras["billed_calls"] = run.billed.calls
    if facts.outputs is not None:
        extras["best_outputs"] = dict(facts.outputs)
    if hidden := [name for name, text in prompts.items() if MARKER in text]:
        extras["redacted_fields"] = [*hidden]
    return extras


RESULT, SUMMARY, LOG = "result.json", "summary.txt", "run.log"
SNAPSHOT, ROUNDS = "config.snapshot.json", "rounds"
BASELINE_PROMPTS, _BEST_PROMPTS = "baseline_prompts", "best_prompts"


class RoundFiles:
    """Listens to a run and writes what is known so far."""

    def __init__(
        self, folder: Path, *, baseline: Mapping[str, str], redactor: Redactor | None = None
    ) -> None:
        redactor = redactor or Redactor.from_environment()
        self._folder = folder
        self._baseline = {name: redactor.without_known(text) for name, text in baseline.items()}
        self._rounds: list[TrialRow] = []
        self._limit: int | None = None

    def event(self, event: Event) -> None:
        """Write what an event reports. What cannot be written now is written at the end."""
        try:
            if event.read(SessionBegun):
                self._limit = _metric_call_limit([event])
                _write_beginning(self._folder, self._baseline)
            elif (trial := event.read(TrialRecorded)) and trial.phase != BASELINE:
                self._write_round(trial)
        except BurnishError:
            return

    def tick(self, tick: Tick) -> None:
        """Cases are too many for files."""

    def finish(
        self, *, update_source: bool = False, source_updated: bool = False, trouble: str = ""
    ) -> OptimizeResult:
        """Write everything, once the run has ended."""
        return write_result_files(
            self._folder,
            baseline=self._baseline,
            update_source=update_source,
            source_updated=source_updated,
            trouble=trouble,
        )

    def _write_round(self, recorded: TrialRecorded) -> None:
        number = recorded.trial
        with look_into(self._folder) as journal:
            body = journal.trial(number)
            if body is None:
                return
            row = codec(TrialRow).decode(json.loads(body))
            trial = row.trial
            earlier = [
                each
                for each in self._rounds
                if each.trial.cycle == trial.cycle
                and each.trial.phase == trial.phase == REFLECTIVE
                and each.number < row.number
            ]
            self._rounds = [*earlier, row]
            costs = Costs.of(journal.costs(since=self._rounds[0].number), self._rounds)
        used = (recorded.spent or NOTHING).metric_calls
        reflection = costs.by_row.get(number, NOTHING)
        record = round_of(row, Spent(reflection=reflection, metric_calls=used, limit=self._limit))
        _write_round(self._folder, record)


def _write_beginning(folder: Path, baseline: Mapping[str, str]) -> None:
    """The config and the prompts as they are at the start."""
    config = _snapshot(Header.read(folder))
    if config:
        _write(folder, SNAPSHOT, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    write_prompts(folder, BASELINE_PROMPTS, baseline)


def _write_round(folder: Path, record: RoundRecord) -> None:
    """`rounds/round_007.json`."""
    _write(folder, f"{ROUNDS}/round_{record.round:03d}.json", as_json(record))


def write_prompts(folder: Path, home: str, prompts: Mapping[str, str]) -> None:
    """One file a field in `home` in the folder, without known secrets."""
    redactor = Redactor.from_environment()
    for name, text in prompts.items():
        _write(folder, f"{home}/{name}.md", redactor.without_known(text))


def write_result_files(
    folder: Path,
    *,
    baseline: Mapping[str, str] | None = None,
    update_source: bool = False,
    source_updated: bool = False,
    trouble: str = "",
) -> OptimizeResult:
    """Write all files of a run that no process is running, however it ended.

    A run that somebody drives has no result yet, and is refused.
    """
    first = baseline or {
        path.stem: read_text(path) for path in sorted((folder / BASELINE_PROMPTS).glob("*.md"))
    }
    facts = RunFacts.read(folder, first)
    if facts.run.driven:
        raise FileTrouble(
            f"{folder} has no result yet: a process is still running it",
            remedy="Wait until it ends, or look at its rounds.",
        )
    earlier = source_updated or _was_updated(folder)
    result = result_of(facts, source_updated=earlier, trouble=trouble)
    _write_beginning(folder, first or result.baseline_prompts)
    write_files(folder, result, update_source=update_source)
    return result


def write_files(folder: Path, result: OptimizeResult, *, update_source: bool) -> None:
    """The files that a result alone tells: of any algorithm."""
    for record in result.rounds:
        _write_round(folder, record)
    if result.status == "SUCCEEDED":
        write_prompts(folder, _BEST_PROMPTS, result.best_prompts)
        summary = result.format_summary(output_dir=folder, update_source=update_source)
        _write(folder, SUMMARY, summary)
    _write(folder, LOG, log_line(result))
    _write(folder, RESULT, as_json(result))


def _was_updated(folder: Path) -> bool:
    """Whether an earlier writing of the result says that the source was updated."""
    path = folder / RESULT
    try:
        return path.exists() and OptimizeResult.from_file(path).source_updated
    except FileTrouble:
        return False


def _write(folder: Path, name: str, content: str) -> None:
    update_inside(folder, name, content.encode(errors="replace"))
