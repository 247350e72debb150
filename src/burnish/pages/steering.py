"""Forms with which people steer a run from its page, and the notes that they make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from burnish.core.surfaces import Value
from burnish.runs.directory import RunRecord
from burnish.runs.steering import Action, Note, pinned_in, waiting

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, kw_only=True)
class SteeringForm:
    """What a page offers for a run that goes on."""

    texts: tuple[tuple[str, str], ...] = ()
    """The surfaces of which another value can be tried, each with what leads now."""
    takes_hints: bool = False
    free: tuple[str, ...] = ()
    """Surfaces that can be pinned."""
    pinned: tuple[str, ...] = ()
    waiting: int = 0
    """Notes that the run has not taken in yet."""

    @classmethod
    def of(cls, run: RunRecord) -> "SteeringForm | None":
        """None for a run that takes no notes, or that has ended."""
        takes = run.header.steering
        if not takes or not run.driven:
            return None
        notes = waiting(run.folder)
        pinned = pinned_in(run.events, notes)
        best = run.best_candidate
        values: Mapping[str, Value] = {} if best is None else best.values
        leading = {name: values.get(name, "") for name in takes.get("try", ())}
        return cls(
            texts=tuple(
                (name, str(value))
                for name, value in leading.items()
                if name not in pinned and isinstance(value, str | int | float)
            ),
            takes_hints="tell" in takes,
            free=tuple(name for name in takes.get("pin", ()) if name not in pinned),
            pinned=tuple(sorted(pinned)),
            waiting=len(notes),
        )


def note_in(action: str, form: Mapping[str, Sequence[str]], *, by: str = "") -> Note:
    """The note that a form of an action makes."""
    surfaces = tuple(form.get("surface", ()))
    # Browsers send every line end as two characters.
    text = "".join(form.get("text", ())[:1]).replace("\r\n", "\n")
    if action == "try":
        return Note(action="try", by=by, values=dict.fromkeys(surfaces[:1], text))
    if action == "tell":
        return Note(action="tell", by=by, text=text)
    return Note(action="pin" if action == "pin" else "unpin", by=by, surfaces=surfaces)
