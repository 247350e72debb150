"""Events of a run, as the store keeps them."""

from burnish.runs.directory import events, look_into
from burnish.runs.events import Event, Tick, TrialRecorded
from burnish.server.places import Place
from burnish.server.stores.records import NewEvent, RunChanges
from burnish.server.work import Tell


class Forwarding:
    """A listener that tells the service; what the store has already is not kept twice."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.best_score: float | None = None

    def event(self, event: Event) -> None:
        """Pass it on under its id, with what it says of the run as a whole."""
        number, changes = 0, RunChanges()
        if trial := event.read(TrialRecorded):
            number = trial.trial
            if trial.best_score is not None:
                self.best_score = trial.best_score
            changes = RunChanges(current_round=number, best_score=self.best_score)
        payload = {"at": event.at, **event.data}
        told = NewEvent(kind=event.kind, round=number, payload=payload, key=f"run:{event.id}")
        self._tell(told, changes)

    def tick(self, tick: Tick) -> None:
        """Nothing: ticks are for those who watch on the spot."""

    def catch_up(self, place: Place) -> None:
        """Pass on what an earlier process may have kept in the journal and not told."""
        with look_into(place.folder) as reader:
            for event in events(reader):
                self.event(event)
