"""How to adopt the result of a run, and what its numbers can and cannot say."""

from collections.abc import Iterator

from burnish.core.trials import TrialRow
from burnish.reports.coordinate_headroom import dead_axes, known_at_the_start
from burnish.reports.reading import RunRecord, result_of
from burnish.reports.words import counted, number
from burnish.runs.exporting import BEST, CANDIDATES
from burnish.runs.standing import BASELINE


def holdout_skipped(run: RunRecord) -> Iterator[str]:
    """The warning above everything else, where train alone decided."""
    if not _skipped(run):
        return
    why = "was skipped" if run.header.cases.get("holdout") else "is missing"
    yield (
        f"**⚠ Holdout {why}: train both chose this result and measures it. Expect the gain to "
        "shrink, or to vanish, on cases the search has not seen.**"
    )
    yield ""


def adoption(run: RunRecord) -> Iterator[str]:
    """The part that says what to type."""
    yield from ("", "## How to adopt", "")
    if run.best is None or not run.accepted:
        yield "There is nothing to adopt: what you have is the best that was found."
        return
    yield from ("```console", f"$ burnish adopt {run.header.id}", "```", "")
    yield "It shows the diff, checks that your files are still as they were, and can be undone."
    if (best := _best_file(run)) is not None:
        yield f"To measure the result where it lies: `burnish eval {best}`."
    else:
        yield f"The files lie in `{CANDIDATES}/{BEST}/` of this folder."


def _best_file(run: RunRecord) -> str | None:
    """The link to the leader at the top of the folder, where candidates are single files."""
    assert run.best is not None
    name = f"{CANDIDATES}/iter-{run.best.number:02d}."
    found = next((file for file in run.files.get(run.best.number, ()) if file.startswith(name)), "")
    return str(run.folder / f"best.{found.removeprefix(name)}") if found else None


def method(run: RunRecord) -> Iterator[str]:
    """The part with the small print."""
    header = run.header
    cases = ", ".join(f"{split} {n}" for split, n in header.cases.items())
    decided = "and decided alone: a training score" if _skipped(run) else "holdout decided"
    yield from ("", "## Method", "")
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    yield f"- cases: {cases}; train fed the proposals, {decided}"
    yield from _noise(run)
    yield from _holdout(run)
    yield from known_at_the_start(run.events)
    yield from dead_axes(run.events)
    yield from _provenance(run)
    yield (
        "- cases of one source guard against learning single cases by heart, not against fitting "
        "that source: holdout and test should resemble what the agent meets in production, and "
        "burnish cannot see whether they do"
    )
    yield (
        "- reproducible is the configuration, not every digit: the same inputs and seed propose "
        "in the same way, and the decisions of this run can be replayed from its journal; a "
        "model's answers vary, and with them the losses of a new run"
    )


def _provenance(run: RunRecord) -> Iterator[str]:
    header = run.header
    if header.forked_from:
        yield f"- forked from `{header.forked_from}`: what that run had paid for was not paid again"
    if header.sealed_test == "spent":
        yield (
            "- **the sealed test was read before by the run this one was forked from: its score "
            "may flatter this result**"
        )
    if run.sealed is not None and run.sealed.gain is not None:
        yield (
            f"- gain [low, high]: the mean over {run.sealed.gain.cases} test cases and its 95 % "
            "bootstrap interval, baseline and best on the same cases"
        )


def _noise(run: RunRecord) -> Iterator[str]:
    """How a gain was told from noise."""
    repeats = repeats_used(run)
    if not repeats:
        return
    sigmas = ", ".join(f"{value:g}" for value in _sigmas(run)) or "not used yet"
    yield (
        f"- repeats {', '.join(map(str, repeats))}, accept_sigma {sigmas}: a gain on train counts "
        "when it reaches accept_sigma × the spread of both sides over their repeats, and holdout "
        "may not get worse by more than its own spread"
    )
    if repeats[0] < 2:
        yield (
            "- **one repeat measures no spread: the bar is 0, and any gain on train counts.** Two "
            "or more tell noise from gain, unless the agent always answers the same"
        )


def repeats_used(run: RunRecord) -> list[int]:
    """How often a trial ran each case; more than one number where that changed."""
    results = (result_of(row, "train") for row in run.rows)
    return sorted({len(r.measurement.runs) for r in results if r and r.measurement.runs})


def _sigmas(run: RunRecord) -> list[float]:
    made = (row.trial.decision for row in run.rows if row.trial.decision is not None)
    known = (decision.numbers.get("accept_sigma") for decision in made)
    return sorted({value for value in known if value is not None})


def _holdout(run: RunRecord) -> Iterator[str]:
    """When holdout was looked at, and what it can show."""
    if _skipped(run):
        yield "- holdout policy: `skip`; see the warning at the top"
    held = result_of(run.baseline, "holdout")
    if held is None:
        return
    tried = [row for row in run.rows if row.trial.phase != BASELINE and row.trial.train is not None]
    looks = sum(row.trial.holdout is not None for row in tried)
    yield (
        f"- holdout policy: {_policy(tried)}; {looks} of {counted(len(tried), 'measured trial')} "
        "were held against it. Each look wears it a little, so its loss flatters too"
    )
    if cases := held.measurement.cases:
        yield (
            f"- one of the {counted(cases, 'case')} of this holdout is worth {number(1 / cases)}: "
            "it cannot show less than that, where an answer is right or wrong"
        )


def _policy(tried: list[TrialRow]) -> str:
    """The policy as the trials show it; where train always gained, two look the same."""
    if any(row.trial.holdout is None for row in tried):
        return "`on_train_improve`"
    refused = {"worse", "noise", "tie"}
    if any(row.trial.decision and row.trial.decision.code in refused for row in tried):
        return "`every_trial`"
    return "`on_train_improve` or `every_trial`, which came to the same"


def _skipped(run: RunRecord) -> bool:
    """Whether there was a holdout to decide, as far as the baseline tells."""
    return run.baseline is not None and run.baseline.trial.holdout is None
