"""Exporting with something besides: keeping the best only, stopping after the baseline."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from burnish.core.candidates import Candidate
from burnish.runs.exporting import Exported, Exporter, in_folders
from burnish.runs.setup import Setup

BASELINE_ONLY = "baseline_only"
"""Why a run stops that was to measure its baseline only."""


class BestOnly:
    """Exports as usual; when the run is closed, only the files of the last export stay.

    While a run is driven all of them are there, and a resume writes them anew: nothing that the
    journal knows is lost.
    """

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._written: set[Path] = set()
        self._best: set[Path] = set()

    def __call__(self, candidate: Candidate, folder: Path, number: int) -> Exported:
        """Export a candidate, which is the best from now on."""
        exported = self._exporter(candidate, folder, number)
        self._best = {folder / path for path in exported.files}
        self._written |= self._best
        return exported

    async def close(self) -> None:
        """Remove what is not the best."""
        for path in self._written - self._best:
            path.unlink(missing_ok=True)
            if path.parent.name.startswith("iter-"):
                with suppress(OSError):  # another file of the candidate is still there
                    path.parent.rmdir()


class AfterBaseline:
    """Exports as usual, and knows when the first candidate was: that is the baseline."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._exported = False

    def __call__(self, candidate: Candidate, folder: Path, number: int) -> Exported:
        """Export a candidate."""
        self._exported = True
        return self._exporter(candidate, folder, number)

    def reached(self) -> bool:
        """Whether the baseline has been measured, so that the run may stop."""
        return self._exported


class Wishes(Protocol):
    """Who says what is to be left when a run has ended."""

    @property
    def baseline_only(self) -> bool | None:
        """Measure the baseline, and stop."""
        ...

    @property
    def keep_best_only(self) -> bool | None:
        """Remove the candidates that are not the best."""
        ...


def with_outputs(setup: Setup, wishes: Wishes) -> Setup:
    """The setup of a run that keeps the best only, or that stops after its baseline."""
    exporter = setup.exporter or in_folders(setup.target)
    if wishes.baseline_only:
        after = AfterBaseline(exporter)
        # A look at the baseline must leave the sealed test sealed.
        unsealed = replace(setup.dataset, test=())
        stops = {BASELINE_ONLY: after.reached}
        return replace(setup, exporter=after, dataset=unsealed, stop_callbacks=stops)
    if wishes.keep_best_only:
        best = BestOnly(exporter)
        return replace(setup, exporter=best, resources=(*setup.resources, best))
    return setup
