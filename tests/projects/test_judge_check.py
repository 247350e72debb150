"""A judge against labels: asked once each, limited, resumed, and told what it is worth."""

import json
from itertools import cycle
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.datasets.labels import labelling
from burnish.metrics.agreement import Trust
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.projects.dialects import Flags
from burnish.projects.judge_checks import JudgeCheck, prepare_judge_check
from burnish.testing.doubles import ScriptedBackend
from tests.example_copies import copy_example


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return copy_example("judge_check", tmp_path / "judge_check") / "labels.csv"


def generous(request: ChatRequest, draw: int) -> str:
    """Calls everything right that is long."""
    said = request.messages[-1].content.partition("<agent_response>")[2]
    reply = said.partition("</agent_response>")[0].strip()
    verdict = "valid" if len(reply) > 8 else "invalid"
    return json.dumps({"reasoning": "by length", "is_the_agent_response_valid": verdict})


def check(labels: Path, backend: ScriptedBackend, *, max_calls: int | None = None) -> JudgeCheck:
    file = str(labels.parent / "judged.yaml")
    flags: Flags = {"metrics": file, "judge": "openai:judge", "max_calls": max_calls}
    return prepare_judge_check(labels, flags, models=Models(backends={"openai": backend}))


def test_a_judge_that_goes_by_length_is_found_out(labels: Path) -> None:
    backend = ScriptedBackend(respond=generous)
    found = check(labels, backend).run()
    agreed = found.agreements["llm_final_response"]
    assert len(backend.asked) == 16
    assert agreed.accuracy is not None
    assert agreed.kappa is not None
    assert abs(agreed.kappa) < 0.3
    assert "correlate" in str(agreed.length)
    assert {each.case for each in found.disagreements} >= {"refund-long", "capital"}


def test_the_same_check_again_asks_nobody(labels: Path) -> None:
    first = check(labels, ScriptedBackend(respond=generous)).run()
    silent = ScriptedBackend(respond=generous)
    again = check(labels, silent).run()
    assert silent.asked == []
    assert again.agreements == first.agreements


def test_a_limit_stops_it_before_it_pays(labels: Path) -> None:
    backend = ScriptedBackend(respond=generous)
    with pytest.raises(ConfigError, match="the check was cut short"):
        check(labels, backend, max_calls=3).run()
    assert backend.asked == []
    assert check(labels, backend, max_calls=16).run().agreements


def test_a_judge_that_gives_no_answer_is_missing_not_wrong(labels: Path) -> None:
    said = cycle(["I think it is fine.", "I think it is fine.", '{"verdict": 1}', '{"verdict": 1}'])
    found = check(labels, ScriptedBackend(respond=lambda _, __: next(said))).run()
    agreed = found.agreements["llm_final_response"]
    assert (agreed.missing, agreed.accuracy) == (16, None)
    assert agreed.sentences() == (
        "the judge gave no verdict on any of 16 items: nothing to compare",
    )


def test_the_labels_of_people_count_before_a_column(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "state"))
    for person, answers in {"ana": "pff", "bob": "pp"}.items():
        with labelling(labels, person=person) as session:
            for place, letter in enumerate(answers):
                session.save(place, "pass" if letter == "p" else "fail")
    backend = ScriptedBackend(respond=generous)
    prepared = check(labels, backend)
    found = prepared.run()
    assert len(backend.asked) == 2  # the second is a draw, and the others have no label
    assert prepared.notes[:2] == (
        "labels by ana, bob: 2 of 16 cases have one that counts",
        "left out: 1 case on which as many say pass as fail",
    )
    assert found.verdicts["llm_final_response"].trust is Trust.UNCLEAR
