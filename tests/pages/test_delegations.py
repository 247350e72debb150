"""Pages about delegations: refinements below their run, experiments, suites and policy texts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.delegation.experiments import Experiment, TaskBest
from burnish.delegation.policy import PolicyRegistry
from burnish.delegation.runs import StoredDelegations
from burnish.delegation.training.target import TrainingLog
from burnish.pages.library import run_key
from tests.delegation.refine.run_folders import plain_run, put
from tests.pages.shown_runs import HARM, RUBRIC, delegated_work, viewing
from tests.pages.test_viewer import Browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(refined_seed: Path) -> Path:
    """The run of the refinement."""
    (header,) = refined_seed.glob("refinement_sessions/*/run.json")
    return header.parent


@pytest.fixture(scope="module")
def browser(refined_seed: Path, session: Path) -> Iterator[Browser]:
    with viewing(refined_seed, session) as viewer:
        yield Browser(viewer).enter()


def test_a_delegation_lists_its_refinements_and_what_is_best(
    browser: Browser, refined_seed: Path, session: Path
) -> None:
    address = f"/runs/{run_key(refined_seed)}/refinements/{session.name}"
    page = browser.page(f"/runs/{run_key(refined_seed)}")
    assert f'href="{address}"' in page
    assert "<h3>BEST</h3>" in page
    assert "<code>report.md</code>" in page
    assert "manifest.json" not in page
    assert f'href="{address}"' in browser.page("/"), "from the list of runs"


def test_a_refinement_has_its_iterations_its_gradient_and_its_seed(
    browser: Browser, refined_seed: Path, session: Path
) -> None:
    above = f"/runs/{run_key(refined_seed)}"
    address = f"{above}/refinements/{session.name}"
    for path in (address, f"/runs/{run_key(session)}"):
        page = browser.page(path)
        assert '<h2 id="delegation-title">Iterations</h2>' in page
        assert page.count("What each iteration was told") == 2, "and in the report of the strategy"
        assert f'href="{above}"' in page
        assert '<span class="tag better">best</span>' in page
        assert "&lt;script&gt;document.title" in page
        assert HARM not in page
    assert browser.ask(f"{address}/trials/1")[0] == 200
    assert "<style>" in browser.page(f"{address}/report.html")
    _, live, headers = browser.ask(f"{address}/live")
    assert headers["Content-Type"] == "text/event-stream"
    assert "event: ended" in live


@pytest.mark.parametrize("name", ["none", "..", "%2e%2e%2f%2e%2e", "", "x/y/z"])
def test_a_refinement_that_is_not_there_is_said_plainly(
    browser: Browser, refined_seed: Path, name: str
) -> None:
    assert browser.ask(f"/runs/{run_key(refined_seed)}/refinements/{name}")[0] == 404


def test_a_session_with_a_path_for_a_name_leads_nowhere(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "run")
    for place, name in enumerate(("../../other", "..", "", "here")):
        row = {"session_id": name, "seed_run_id": "run", "started_at": ""}
        put(run / "refinement_sessions" / f"{place}.json", row)
    lines = StoredDelegations().refinements(run)
    assert [(line.name, line.has_page) for line in lines] == [("here", False)]


def test_a_damaged_delegation_still_has_a_page(refined_seed: Path, tmp_path: Path) -> None:
    seed = Path(shutil.copytree(refined_seed, tmp_path / "seed", symlinks=True))
    (seed / "run_completion.json").write_text("{", encoding="utf-8")
    (seed / "BEST" / "manifest.json").write_text("[", encoding="utf-8")
    with viewing(seed) as viewer:
        assert "Refinements" in Browser(viewer).enter().page(f"/runs/{run_key(seed)}")


def test_experiments_show_their_tasks_runs_and_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(tmp_path))
    with viewing() as viewer:
        browser = Browser(viewer).enter()
        assert "burnish experiments new" in browser.page("/experiments")
        experiment = Experiment.new(f"Heat {HARM}", goal="Reports about heat")
        assert "It has no task yet" in browser.page("/experiments")
        task = experiment.add_task("Write a report.")
        plain_run(task.runs / "better", critique=0.9)
        TaskBest(task).offer(plain_run(task.runs / "worse", critique=0.1))
        TaskBest(task).offer(task.runs / "better")
        put(tmp_path / "exp_damaged" / "experiment.json", "{")
        page = browser.page("/experiments")
        assert "BEST: better" in page
        assert "worse" in page
        assert HARM not in page
        assert "is damaged" in page
        assert "Policy texts of" in browser.page(f"/policy?experiment={experiment.folder.name}")
        assert browser.ask("/policy?experiment=exp_none99")[0] == 404


def test_policy_texts_have_versions_pins_and_the_suites_that_trained_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = PolicyRegistry(tmp_path / "policy.db")
    monkeypatch.setenv("BURNISH_POLICY_DB", str(registry.path))
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(tmp_path / "experiments"))
    with viewing() as viewer:
        browser = Browser(viewer).enter()
        assert "Nothing was trained yet" in browser.page("/policy")
        assert not registry.path.exists(), "looking changes nothing"
        delegated_work(tmp_path)
        page = browser.page("/policy")
        assert '<td>v0</td><td>v1</td><td><span class="tag">v0</span></td>' in page
        assert "0.365" in page
        assert 'data-chart="epochs"' in page
        versions = browser.page(f"/policy/{RUBRIC}")
        assert "Runs read v0: it is pinned" in versions
        assert "from v0" in versions
        assert "<ins>" in versions
        for shown in (page, versions):
            assert HARM not in shown
        assert browser.ask("/policy/nothing")[0] == 404


def test_a_registry_of_another_system_has_no_suites(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE artifact_versions (x)")
    db.close()
    assert TrainingLog(path).suites() == []


def test_the_gradient_on_the_page_is_that_of_the_iteration(session: Path) -> None:
    part = StoredDelegations().part(session)
    assert part is not None
    stored = json.loads((session / "iter_1" / "gradient_input.json").read_text(encoding="utf-8"))
    first = part.iterations[0]
    defects, gaps = stored["defects"], stored["eval_deltas"]
    assert len(first.gradient) == len(defects) + len(stored["rejected_gates"]) + len(gaps)
    assert part.seed == stored["prior_run_id"]
