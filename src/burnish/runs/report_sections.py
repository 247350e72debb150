"""Sections that reports of several strategies have, and the report of one without its own words."""

from collections.abc import Iterator, Mapping, Sequence

from burnish.core.evaluations import mean, spread
from burnish.core.formatting import (
    Code,
    Diff,
    Facts,
    Heading,
    Listing,
    Section,
    Series,
    Table,
    Text,
    cell,
    counted,
    duration,
    number,
    sparkline,
    spending,
)
from burnish.core.surfaces import diff
from burnish.core.trials import SplitResult, Trial, TrialRow
from burnish.runs.directory import RunRecord, loss_of, result_of, sealed_words
from burnish.runs.driver import SILENT
from burnish.runs.events import BASELINE, BEST, CANDIDATES, Warned

SPLITS = ("train", "holdout")


def plain_report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The report of a strategy without words of its own; also where its plug-in is gone."""
    yield from headline(run)
    yield _summary(run, reason)
    yield from _trajectory(run)
    yield from _attribution(run)
    yield from _metrics(run)
    yield from changes_made(run)
    yield from _trials(run)
    yield Heading("How to adopt")
    where = f"The best candidate lies in `{CANDIDATES}/{BEST}/` of this folder, ready to copy."
    yield Text.of(where if run.accepted else _NOTHING_TO_ADOPT)
    yield Heading("Method")
    yield Listing((*_method(run), *provenance(run), *CAVEATS))


def headline(run: RunRecord) -> Iterator[Section]:
    """The run's name, and first of all what the sealed test said."""
    yield Heading(run.header.id, level=1)
    flattered = "the numbers below chose the result, so they flatter it"
    if run.sealed is not None:
        yield Text.of(f"**Sealed test, looked at once: {sealed_words(run.sealed)}**")
    elif run.header.cases.get("test"):
        yield Text.of(f"**The sealed test was not read yet: {flattered}.**")
    else:
        yield Text.of(f"**There is no sealed test: {flattered}.**")


def status_rows(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    """How it ended, and why."""
    yield "status", run.status
    yield "exit reason", cell(reason, 200) or "—"


def status_words(run: RunRecord, reason: str) -> str:
    """The same in one cell."""
    return f"{run.status} ({cell(reason, 160)})" if reason else run.status


def cost_rows(
    run: RunRecord, *, unit: str = "case", over: str = "trials"
) -> Iterator[tuple[str, str]]:
    """What is missing, and what it took."""
    if lost := _missing_cases(run):
        yield "missing", f"{counted(lost, unit)} over all {over}, in no mean and never a 0"
    yield "spent", spending(run.spent)
    if run.billed != run.spent:
        yield "billed", f"{spending(run.billed)} (with calls that were lost or not used)"
    yield "time", duration(run.active_seconds)


def gains(run: RunRecord) -> dict[int, float | None]:
    """How much loss on train each accepted trial removed: as its gate saw it, or as measured."""
    removed: dict[int, float | None] = {}
    leader = loss_of(run.baseline, "train")
    for row in run.rows:
        if not row.trial.accepted or row.trial.decision is None:
            continue
        loss = loss_of(row, "train")
        fell = None if loss is None or leader is None else leader - loss
        removed[row.number] = row.trial.decision.numbers.get("train_improvement", fell)
        leader = loss
    return removed


def _missing_cases(run: RunRecord) -> int:
    """Cases that are missing, over all trials."""
    results = (result_of(row, split) for row in run.rows for split in SPLITS)
    return sum(len(result.measurement.missing_cases) for result in results if result is not None)


def silences(run: RunRecord) -> Iterator[str]:
    """What is said of roles that never gave a usable answer, though something else was tried."""
    for event in run.events:
        warning = event.read(Warned)
        if warning is not None and event.id.startswith(f"{SILENT}:"):
            yield warning.message


def silence_rows(run: RunRecord) -> Iterator[tuple[str, str]]:
    """The same as rows of a table."""
    yield from (("warning", cell(message, 300)) for message in silences(run))


def changes_made(run: RunRecord) -> Iterator[Section]:
    """How the best candidate differs from the baseline."""
    yield Heading("What changed")
    if run.baseline is None or run.best_candidate is None:
        yield Text.of("Nothing was measured yet.")
        return
    changes = diff(run.baseline.trial.candidate, run.best_candidate)
    if not changes:
        yield Text.of("Nothing: no candidate was better than the baseline.")
        return
    yield Diff(tuple(line for change in changes for line in change.lines()))


def why(trial: Trial) -> str:
    """Why a trial ended as it did: what was wrong with it, or the decision."""
    reason = trial.decision.reason if trial.decision else "the start"
    return "; ".join(map(str, trial.problems)) or reason


def adoption(run: RunRecord) -> Iterator[Section]:
    """What to type to adopt the result."""
    yield Heading("How to adopt")
    if run.best is None or not run.accepted:
        yield Text.of(_NOTHING_TO_ADOPT)
        return
    yield Code((f"$ burnish adopt {run.header.id}",), "console")
    best = _best_file(run)
    yield Text.of(
        "It shows the diff, checks that your files are still as they were, and can be undone.",
        f"The files lie in `{CANDIDATES}/{BEST}/` of this folder."
        if best is None
        else f"To measure the result where it lies: `burnish eval {best}`.",
    )


_NOTHING_TO_ADOPT = "There is nothing to adopt: what you have is the best that was found."


def _best_file(run: RunRecord) -> str | None:
    """The link to the leader at the top of the folder, where candidates are single files."""
    assert run.best is not None
    name = f"{CANDIDATES}/iter-{run.best.number:02d}."
    files = run.files.get(run.best.number, ())
    best = next((file for file in files if file.startswith(name)), "")
    return str(run.folder / f"best.{best.removeprefix(name)}") if best else None


def started_with(run: RunRecord) -> str:
    """The first point of a method: strategy, seed and version."""
    header = run.header
    return f"strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"


def case_numbers(run: RunRecord) -> str:
    """`train 12, holdout 8`."""
    return ", ".join(f"{split} {n}" for split, n in run.header.cases.items())


def forked_from(run: RunRecord) -> Iterator[str]:
    """The point about a run that this one took over from."""
    if parent := run.header.forked_from:
        yield f"forked from `{parent}`: what that run had paid for was not paid again"


def provenance(run: RunRecord) -> Iterator[str]:
    """What a fork took over, and what the numbers of the sealed test are."""
    yield from forked_from(run)
    if run.header.sealed_test == "spent":
        yield (
            "**the sealed test was read before by the run this one was forked from: its score\n"
            "may flatter this result**"
        )
    if run.sealed is not None and run.sealed.gain is not None:
        yield (
            f"gain [low, high]: the mean over {run.sealed.gain.cases} test cases and its 95 %\n"
            "bootstrap interval"
        )


CAVEATS = (
    "holdout and test should resemble what the agent meets in production; burnish cannot\n"
    "see whether they do",
    "the decisions can be replayed from the journal; the agent's own answers vary",
)
"""What no report can promise."""


def passing_means(result: SplitResult | None) -> dict[str, float]:
    """Each metric's mean, and the share of cases that pass."""
    if result is None:
        return {}
    rate = result.measurement.pass_rate
    passing = {} if rate is None else {"share of cases that pass": rate}
    return {**result.measurement.components, **passing}


def metric_table(run: RunRecord, split: str) -> Table:
    """Each metric's mean on a split, and the share of cases that pass: baseline and best."""
    results = [result_of(row, split) for row in (run.baseline, run.best)]
    sides = [_components(result) for result in results]
    names = sorted({name for side in sides for name in side})
    rates = [None if each is None else each.measurement.pass_rate for each in results]
    return Table(
        ("metric", "baseline", "best"),
        (
            *((cell(name, 60), *(number(side.get(name)) for side in sides)) for name in names),
            ("share of cases that pass", *map(number, rates)),
        ),
    )


def baseline_table(run: RunRecord) -> Table | None:
    """Loss and metrics of the start on train and holdout, each with its noise."""
    results = {split: result_of(run.baseline, split) for split in SPLITS}
    if results["train"] is None:
        return None
    there = {split: result for split, result in results.items() if result is not None}
    metrics = sorted({name for each in there.values() for name in each.measurement.components})
    return Table(
        ("", *there),
        (
            ("loss", *(_loss_words(result) for result in there.values())),
            *((each, *(_metric_words(r, each) for r in there.values())) for each in metrics),
        ),
    )


def score_table(run: RunRecord) -> Table | None:
    """The pass rate, the score and every metric on holdout: where scores are what is gained."""
    result = result_of(run.baseline, "holdout")
    if result is None:
        return None
    measured = result.measurement
    rows = (
        ("pass rate", number(measured.pass_rate)),
        ("score", number(measured.score)),
        *((metric, number(value)) for metric, value in sorted(measured.components.items())),
    )
    return Table(("", "holdout"), rows)


def _loss_words(result: SplitResult) -> str:
    return f"{number(result.measurement.loss)} ±{number(result.measurement.std)}"


def _metric_words(result: SplitResult, metric: str) -> str:
    """Its mean, and how far the means of the sweeps lie apart."""
    rows = [values[metric] for values in result.scores.values() if metric in values]
    sweeps = max(map(len, rows), default=0)
    columns = [[row[n] for row in rows if n < len(row)] for n in range(sweeps)]
    means = [mean(there) for each in columns if (there := [v for v in each if v is not None])]
    value = result.measurement.components.get(metric)
    return f"{number(value)} ±{number(spread(means) if means else 0.0)}"


def _summary(run: RunRecord, reason: str) -> Facts:
    losses = {split: [loss_of(row, split) for row in (run.baseline, run.best)] for split in SPLITS}
    return Facts(
        (
            ("status", status_words(run, reason)),
            *((f"{split} loss", " → ".join(map(number, both))) for split, both in losses.items()),
            ("trials", f"{run.trials}, {run.accepted} accepted"),
            *silence_rows(run),
            *cost_rows(run),
        )
    )


def _trajectory(run: RunRecord) -> Iterator[Section]:
    values = {split: tuple(loss_of(row, split) for row in run.rows) for split in SPLITS}
    phases = "".join(row.trial.phase[:1] or " " for row in run.rows)
    ticks = "".join("✓" if row.trial.accepted else " " for row in run.rows)
    drawing = (
        *(f"{split:<8} {sparkline(losses)}".rstrip() for split, losses in values.items()),
        f"{'phase':<8} {phases}",
        f"{'accepted':<8} {ticks}".rstrip(),
    )
    yield Heading("Trajectory")
    yield Series(values, drawing)
    yield Text.of("Loss by trial, low is good; one column a trial, the baseline first.")


def _attribution(run: RunRecord) -> Iterator[Section]:
    removed = gains(run)
    groups: dict[tuple[int, str], list[TrialRow]] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE:
            groups.setdefault((row.trial.cycle, row.trial.phase), []).append(row)
    rows: list[tuple[str, ...]] = []
    for (cycle, phase), trials in groups.items():
        won = [removed[row.number] for row in trials if row.trial.accepted]
        measured = [gain for gain in won if gain is not None]
        gain = number(sum(measured, 0.0)) if len(measured) == len(won) else "—"
        rows.append((str(cycle), cell(phase, 40), str(len(trials)), str(len(won)), gain))
    yield Heading("Where the gain came from")
    yield Table(("cycle", "phase", "trials", "accepted", "loss removed on train"), tuple(rows))


def _metrics(run: RunRecord) -> Iterator[Section]:
    yield Heading("Metrics on train")
    yield metric_table(run, "train")


def _trials(run: RunRecord) -> Iterator[Section]:
    yield Heading("Every trial")
    yield Table(
        ("#", "phase", "what", "train", "holdout", "decision"),
        tuple(
            (
                str(row.number),
                cell(row.trial.phase, 40),
                cell(row.trial.candidate.origin.note or ", ".join(row.trial.touched) or "—", 40),
                *(number(loss_of(row, split)) for split in SPLITS),
                f"{'✓ ' if row.trial.accepted else ''}{cell(why(row.trial), 160)}",
            )
            for row in run.rows
        ),
    )


def _method(run: RunRecord) -> Sequence[str]:
    held = run.header.cases.get("holdout")
    decided = "holdout decided" if held else "no holdout: a training score"
    return (
        started_with(run),
        f"cases: {case_numbers(run)}; train fed the proposals, {decided}",
    )


def _components(result: SplitResult | None) -> Mapping[str, float]:
    return {} if result is None else result.measurement.components
