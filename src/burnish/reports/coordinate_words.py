"""Coordinate descent in words: the titles of its phases, and why they and the search ended."""

from collections.abc import Mapping

from burnish.core.content import Json
from burnish.reports.words import counted

_TITLES = {
    "numeric": "numeric phase",
    "textual": "textual phase",
}
"""Other phases are called by their name."""

_ENDS = {
    "max_trials": "it had all its trials",
    "patience": "too long without an accept",
    "converged": "nothing promising is left to try",
    "space_exhausted": "every point was tried",
    "no_examples": "train has no example to show",
    "dead_axes": "no axis of it reaches a request",
    "no_failures": "no failing case is left to diagnose",
    "failures_not_to_show": "what still fails may not be shown to a critic",
    "nothing_to_gain": "the loss on train is 0",
    "stopped": "the run was stopped",
    "dry_cycle": "a whole cycle brought nothing",
    "max_cycles": "it had all its cycles",
    "nothing_new": "too many rounds without a candidate worth running",
    "reflector_failed": "the reflector gives no usable answer any more",
    "baseline_missing": "the baseline could not be measured",
    "no_losses": "nothing fails on train any more",
    "train_missing": "nothing failed on train, but some of it is missing",
    "nothing_to_blame": "nothing that may be patched is to blame for what fails",
    "max_rounds": "it had all its rounds",
    "max_rounds_without_acceptance": "too many rounds in a row without an accept",
    "target_score": "the score on holdout is good enough",
    "max_epochs": "it had all its epochs",
    "nothing_proposed": "nobody sees a text that should change",
}


def phase_title(data: Mapping[str, Json], *, improved: bool = False) -> str:
    """`cycle 2 · numeric phase (fresh TPE study #2, vs improved prompt)`."""
    cycle, phase = data.get("cycle"), str(data.get("phase"))
    told = f"cycle {cycle} · {_TITLES.get(phase, phase)}"
    if phase != "numeric":
        return told
    again = ", vs improved prompt" if improved and cycle != 1 else ""
    return f"{told} (fresh TPE study #{cycle}{again})"


def ended_words(code: str) -> str:
    """`patience: too long without an accept`; a code nobody has words for stands alone."""
    return f"{code}: {_ENDS[code]}" if code in _ENDS else code


def phase_over(data: Mapping[str, Json]) -> str:
    """The end of a phase in one line."""
    trials, accepts = data.get("trials"), data.get("accepts")
    count = counted(trials, "trial") if isinstance(trials, int) else "—"
    return f"over after {count}, {accepts} accepted · {ended_words(str(data.get('reason')))}"
