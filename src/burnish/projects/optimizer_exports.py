"""Exporting with something besides: keeping the best only, stopping after the baseline."""

from pathlib import Path

from burnish.core.candidates import Candidate
from burnish.runs.exporting import Exported, Exporter


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
