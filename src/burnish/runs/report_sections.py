"""Sections that reports of several strategies share, and the default report."""

from collections.abc import Iterator

from burnish.core.errors import in_shell
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
from burnish.runs.claims import LOOKED_AT_BEFORE, claim_words, opinion_words
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import (
    ALARM,
    BASELINE,
    BEST,
    CANDIDATES,
    TextWithheld,
    Warned,
    read_all,
)

SPLITS = ("train", "holdout")


def plain_report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The default report, also for a strategy whose plug-in is gone."""
    yield from headline(run)
    yield _summary(run, reason)
    yield from _trajectory(run)
    yield from _attribution(run)
    yield Heading("Metrics on train")
    yield metric_table(run, "train")
    yield from changes_made(run)
    yield from _trials(run)
    yield Heading("How to adopt")
    where = f"The best candidate is in `{CANDIDATES}/{BEST}/` of this folder, ready to copy."
    yield Text.of(where if run.accepted else _NOTHING_TO_ADOPT)
    yield Heading("Method")
    decided = (
        "holdout decided" if run.header.cases.get("holdout") else "no holdout: a training score"
    )
    cases = f"cases: {case_numbers(run)}; train fed the proposals, {decided}"
    yield Listing((started_with(run), cases, *provenance(run), *CAVEATS))


def headline(run: RunRecord) -> Iterator[Section]:
    """The run's name, what it claims, and what was withheld from proposers."""
    yield Heading(run.header.id, level=1)
    if (claim := run.claim) is not None:
        words = claim_words(claim)
        yield Text.of(f"**{words[:1].upper()}{words[1:]}**")
    if run.second_opinion is not None:
        yield Text.of(f"**{opinion_words(run.second_opinion)}**")
    for withheld in read_all(run.events, TextWithheld):
        yield Text.of(f"**{cell(withheld.words, 400)}.**")


WHOLE_REASON = 2000
"""Room for the reason of an end: an error says at its end what to do."""


def status_rows(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    """The status of a run and why it ended."""
    yield "status", run.status
    yield "exit reason", cell(reason, WHOLE_REASON) or "—"


def status_words(run: RunRecord, reason: str) -> str:
    """The same in one cell."""
    return f"{run.status} ({cell(reason, WHOLE_REASON)})" if reason else run.status


def cost_rows(
    run: RunRecord, *, unit: str = "case", over: str = "trials"
) -> Iterator[tuple[str, str]]:
    """Missing cases, cost and time."""
    results = (result_of(row, split) for row in run.rows for split in SPLITS)
    if lost := sum(len(each.measurement.missing_cases) for each in results if each is not None):
        yield (
            "missing",
            f"{counted(lost, unit)} over all {over}, left out of every mean and never counted as 0",
        )
    answers = [proposal for row in run.rows for proposal in row.trial.proposals]
    if again := sum(each.asked_again for each in answers):
        yield (
            "asked again",
            f"{again} of {counted(len(answers), 'answer')}, because the first was of no use",
        )
    yield "spent", spending(run.spent)
    if run.billed != run.spent:
        yield "billed", f"{spending(run.billed)} (with calls that were lost or not used)"
    yield "time", duration(run.active_seconds)


def gains(run: RunRecord) -> dict[int, float | None]:
    """By accepted trial, how much loss on train it removed, as its gate saw it or as measured."""
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


def alarms(run: RunRecord) -> Iterator[str]:
    """The warnings that every summary repeats: a silent role, a baseline that crashes."""
    for event in run.events:
        warning = event.read(Warned)
        if warning is not None and event.id.startswith(f"{ALARM}:"):
            yield warning.message


def alarm_rows(run: RunRecord) -> Iterator[tuple[str, str]]:
    """The same as rows of a table."""
    yield from (("warning", cell(message, 300)) for message in alarms(run))


def result_rows(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    """How a run ended, its alarms, and the loss on holdout that it went from and to."""
    yield from status_rows(run, reason)
    yield from alarm_rows(run)
    losses = (number(loss_of(row, "holdout")) for row in (run.baseline, run.best))
    yield "holdout loss", " → ".join(losses)


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
    """Why a trial ended as it did: its problems, or the decision."""
    reason = trial.decision.reason if trial.decision else "the start"
    return "; ".join(map(str, trial.problems)) or reason


def adoption(run: RunRecord) -> Iterator[Section]:
    """The command that adopts the result."""
    yield Heading("How to adopt")
    start, best = (row and row.trial.candidate.id for row in (run.baseline, run.best))
    if run.best is None or start == best:
        yield Text.of(_NOTHING_TO_ADOPT)
        return
    yield Code((f"$ burnish adopt {in_shell(run.header.id)}",), "console")
    best = _best_file(run)
    yield Text.of(
        "It shows the diff, checks that your files are still as they were, and can be undone.",
        f"The files are in `{CANDIDATES}/{BEST}/` of this folder."
        if best is None
        else f"To measure the result in place: `burnish eval {in_shell(best)}`.",
    )


_NOTHING_TO_ADOPT = "There is nothing to adopt: nothing better than your current version was found."


def _best_file(run: RunRecord) -> str | None:
    """The link to the incumbent in the run's folder, if candidates are single files."""
    assert run.best is not None
    name = f"{CANDIDATES}/iter-{run.best.number:02d}."
    files = run.files.get(run.best.number, ())
    best = next((file for file in files if file.startswith(name)), "")
    return str(run.folder / f"best.{best.removeprefix(name)}") if best else None


def started_with(run: RunRecord) -> str:
    """Strategy, seed and version."""
    header = run.header
    return f"strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"


def case_numbers(run: RunRecord) -> str:
    """`train 12, holdout 8`."""
    return ", ".join(f"{split} {n}" for split, n in run.header.cases.items())


def _forked_from(run: RunRecord) -> Iterator[str]:
    """The point about the run that this one was forked from."""
    if parent := run.header.forked_from:
        yield f"forked from `{parent}`: results of that run were not paid for again"


def provenance(run: RunRecord) -> Iterator[str]:
    """The parent of a fork, and what the numbers of the claim mean."""
    yield from _forked_from(run)
    claim = run.claim
    if run.header.sealed_test == "spent" and run.sealed is None:
        yield f"**{LOOKED_AT_BEFORE}**"
    if claim is not None and claim.gain is not None:
        yield (
            f"gain [low, high]: the mean over {claim.gain.cases} cases, baseline and best on the\n"
            "same ones, and its 95 % interval; `improved` only if all of it is above 0"
        )
    if claim is not None and claim.basis == "fresh draws":
        yield (
            "these cases chose the result, but these runs of them did not; how it does on other\n"
            "cases only a sealed test can show"
        )


CAVEATS = (
    "holdout and test should resemble what the agent sees in production; burnish cannot\n"
    "check whether they do",
    "the decisions can be replayed from the journal; the agent's own answers vary",
)
"""What the numbers cannot show."""


def passing_means(result: SplitResult | None) -> dict[str, float]:
    """The mean of each metric, and the share of cases that pass."""
    if result is None:
        return {}
    rate = result.measurement.pass_rate
    passing = {} if rate is None else {"share of cases that pass": rate}
    return {**result.measurement.components, **passing}


def metric_table(run: RunRecord, split: str) -> Table:
    """Each metric's mean on a split, and the share of cases that pass: baseline and best."""
    results = [result_of(row, split) for row in (run.baseline, run.best)]
    sides = [each.measurement.components if each else dict[str, float]() for each in results]
    names = sorted({name for side in sides for name in side})
    rates = [None if each is None else each.measurement.pass_rate for each in results]
    any_rate = any(rate is not None for rate in rates)
    return Table(
        ("metric", "baseline", "best"),
        (
            *((cell(name, 60), *(number(side.get(name)) for side in sides)) for name in names),
            *((("share of cases that pass", *map(number, rates)),) if any_rate else ()),
        ),
    )


def baseline_table(run: RunRecord) -> Table | None:
    """Loss and metrics of the baseline on train and holdout, each with its noise."""
    results = {split: result_of(run.baseline, split) for split in SPLITS}
    if results["train"] is None:
        return None
    there = {split: result for split, result in results.items() if result is not None}
    metrics = sorted({name for each in there.values() for name in each.measurement.components})
    return Table(
        ("", *there),
        (
            (
                "loss",
                *(
                    f"{number(each.measurement.loss)} ±{number(each.measurement.std)}"
                    for each in there.values()
                ),
            ),
            *((each, *(_metric_words(r, each) for r in there.values())) for each in metrics),
        ),
    )


def score_table(run: RunRecord) -> Table | None:
    """Pass rate, score and every metric of the baseline on holdout."""
    result = result_of(run.baseline, "holdout")
    if result is None:
        return None
    measured = result.measurement
    rows = (
        *([] if measured.pass_rate is None else [("pass rate", number(measured.pass_rate))]),
        ("score", number(measured.score)),
        *((metric, number(value)) for metric, value in sorted(measured.components.items())),
    )
    return Table(("", "holdout"), rows)


def _metric_words(result: SplitResult, metric: str) -> str:
    """A metric's mean, and the spread of the sweeps' means."""
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
            *alarm_rows(run),
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
    yield Text.of("Loss by trial, lower is better; one column per trial, baseline first.")


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
