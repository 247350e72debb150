"""Cheats that change nothing and win by luck: the luck of the draws, and that of the cases."""

import random
from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.cheats import Attempt, Cheat
from benchmarks.truth.cheats_ties import driven, text_setup
from burnish.core.cases import Case
from burnish.core.surfaces import Candidate
from burnish.runs.claims import claim_words
from burnish.strategies.coordinate.trials import Edit, EditRequest

_TRIALS = 12


@dataclass(frozen=True, kw_only=True)
class _Coins:
    """An agent that is right half of the time, whatever its prompt says."""

    wavering: str
    """The cases in which it decides anew in every run, by the first letters of their names; in the
    others, prompt and case decide once and for all."""
    world: int = 1
    """One of many such agents: in this one somebody is lucky."""

    def play(self, folder: Path) -> Attempt:
        setup = text_setup(self._respond, _edited, trials=_TRIALS, repeats=1, confirm=True)
        _, record = driven(setup, folder / "run")
        assert record.accepted, "nobody was lucky"
        assert record.claim is not None
        # By luck the rule accepts some; what it led to may not be called a gain.
        return Attempt(
            accepted=False,
            by_rule=True,
            offered=record.claim.verdict == "improved",
            reason=claim_words(record.claim),
        )

    def _respond(self, candidate: Candidate, case: Case, draw: int) -> str:
        again = draw if case.id.startswith(self.wavering) else ""
        luck = f"{self.world} {candidate.values['prompt']} {case.id} {again}"
        return "yes" if random.Random(luck).random() < 0.5 else "no"


def _edited(request: EditRequest, draw: int) -> Edit:
    del request
    return Edit(
        edit_type="replace",
        rationale="another version",
        new_text=f"version {draw}",
        diff_summary="another one",
    )


CHEATS = (
    Cheat(
        name="luck: the best of many that change nothing",
        strategy="coordinate",
        play=_Coins(wavering="").play,
    ),
    Cheat(
        name="luck: the same with an agent that always answers alike",
        strategy="coordinate",
        play=_Coins(wavering="no case").play,
    ),
    Cheat(
        name="luck: the same with an agent that wavers in one case of twenty",
        strategy="coordinate",
        play=_Coins(wavering="h3", world=41).play,
    ),
)
