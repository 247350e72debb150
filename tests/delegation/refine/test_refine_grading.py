"""The seed and BEST under other graders: what a plan announces, and what is not compared."""

import json
from pathlib import Path

import pytest
import typer

from burnish.delegation.refine.sessions import best_so_far
from tests.delegation.refine.refining_world import Place

pytestmark = pytest.mark.slow


def other_critic(place: Place) -> None:
    """From here on another critic grades."""
    text = place.flow.read_text(encoding="utf-8").replace(
        "critic: openai:eye", "critic: openai:mild"
    )
    place.flow.write_text(text, encoding="utf-8")


def planned(place: Place, capsys: pytest.CaptureFixture[str], **more: bool) -> str:
    capsys.readouterr()
    place.refine(dry_run=True, quiet=False, flags={"iterations": 2}, **more)
    return capsys.readouterr().out


def test_a_plan_says_that_the_seed_is_graded_again_and_what_it_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(folder=tmp_path)
    place.make_seed()
    assert "graded again" not in planned(place, capsys)
    other_critic(place)
    page = planned(place, capsys)
    assert "! the seed is graded again, so that one critic and the same metrics grade all" in page
    assert "! grading costs about 3 calls" in page
    assert "once for the seed and once for each of 2 iterations" in page
    notes = json.loads(planned(place, capsys, as_json=True))["notes"]
    assert any(note.startswith("grading costs about 3 calls") for note in notes)


def test_best_of_another_ruler_is_not_compared_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(folder=tmp_path)
    place.make_seed()
    place.refine(flags={"iterations": 1})
    first = best_so_far(place.seed)
    assert first is not None
    assert "ruler" not in first, "the seed's own grades were used"
    other_critic(place)
    with pytest.raises(typer.Exit):
        place.refine(flags={"iterations": 1})
    session = place.session()
    assert session["best_iter"] == 1
    assert session["ruler"]
    assert "BEST was graded by another critic or other metrics" in session["iterations"][0]["note"]
    assert best_so_far(place.seed) == first
    capsys.readouterr()
    (place.seed / "BEST").rename(place.seed / "BEST-before")
    place.refine(flags={"iterations": 1})
    now = best_so_far(place.seed)
    assert now is not None
    assert now["ruler"] == session["ruler"]
