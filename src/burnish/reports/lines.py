"""Progress as plain lines: one a trial, for logs and terminals that are not interactive."""

from collections.abc import Callable

from burnish.runs.events import Event, SessionBegun, Tick
from burnish.runs.plugins import StrategyPlugin, strategy_plugin

WIDTH = 100


class LineView:
    """Prints one line an event that matters, in the words of the run's strategy."""

    def __init__(
        self, write: Callable[[str], None], *, width: Callable[[], int] = lambda: WIDTH
    ) -> None:
        self._write = write
        self._width = width
        self._strategy: str = ""
        self.plugin = StrategyPlugin()
        """What is known of the run's strategy; it is told with the first event."""
        self.progress = self.plugin.progress()

    def event(self, event: Event) -> None:
        """Print what an event means to a person, if anything."""
        if begun := event.read(SessionBegun):
            self._begin(begun.strategy)
        for line in self.progress.lines(event, self._width()):
            self._write(line)

    def tick(self, tick: Tick) -> None:
        """Cases are too many for lines."""

    def _begin(self, strategy: str) -> None:
        # A run that goes on keeps what its lines remember.
        if strategy != self._strategy:
            self._strategy = strategy
            self.plugin = strategy_plugin(strategy)
            self.progress = self.plugin.progress()
