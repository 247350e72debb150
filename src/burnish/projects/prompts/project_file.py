"""The settings of coordinate descent over texts, as graph files and suites write them."""

from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.system.settings import AtLeastOne, NotNegative, Settings, Share

_USUAL = CoordinateSettings()


class CoordinateBlock(Settings):
    """The settings of coordinate descent over texts."""

    accept_sigma: NotNegative = _USUAL.accept_sigma
    min_confidence: Share = _USUAL.min_confidence
    max_cycles: AtLeastOne = _USUAL.max_cycles
    max_trials: AtLeastOne = _USUAL.textual_phase.max_trials
    """Of each cycle."""
    patience: AtLeastOne = _USUAL.textual_phase.patience

    def settings(self, *, repeats: int, fields: tuple[str, ...]) -> CoordinateSettings:
        """How the search goes about it."""
        return CoordinateSettings(
            texts=fields,
            repeats=repeats,
            accept_sigma=self.accept_sigma,
            min_confidence=self.min_confidence,
            max_cycles=self.max_cycles,
            textual_phase=PhaseLimits(max_trials=self.max_trials, patience=self.patience),
        )
