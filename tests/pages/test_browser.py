"""The pages in a real browser: filtering, folding, traces, and adopting with the keyboard."""

import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from burnish.pages.library import run_key
from burnish.pages.run_page import EvaluationPage, html_report
from burnish.runs.directory import RunRecord
from burnish.runs.setup import start
from burnish.runs.spec import set_tags
from burnish.runs.steering import waiting
from tests.axe import barriers, tab_to
from tests.pages.shown_runs import DATASET, delegated_work, viewing
from tests.projects.adopting_runs import TEMPERATURE, agent_run
from tests.reports.measured import report, scored
from tests.strategies import backprop_world
from tests.targets.agent_world import write_agent

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def adoptable(
    shown: RunRecord, refined_seed: Path, grid: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunRecord:
    """A run whose best can be adopted. Runs are made before the browser occupies the thread."""
    home = tmp_path_factory.mktemp("adoptable")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURNISH_HOME", str(home / "home"))
        patch.setenv("BURNISH_HTML", "never")
        return agent_run(write_agent(home), {TEMPERATURE: 0.7}, measured=True)


def test_the_file_draws_filters_and_folds(shown: RunRecord, page: "Page", tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html_report(shown, DATASET), encoding="utf-8")
    page.goto(file.as_uri())
    assert page.title() == "shown-run · burnish"
    folds = page.locator("#case-list > details")
    assert folds.count() == 6
    page.select_option('[data-filters="case-list"] [data-by="group"]', "broken")
    assert page.locator("#case-list > details:visible").count() == 1
    page.get_by_text("1 of 6 shown").wait_for()
    fold = page.locator("#case-list > details:visible")
    fold.locator("summary").first.focus()
    page.keyboard.press("Enter")
    fold.get_by_text("Trace: 1 step").first.click()
    fold.get_by_text("look_up").first.wait_for()
    page.locator('[data-chart="scores"]').scroll_into_view_if_needed()
    page.locator('[data-chart="scores"] .scatterlayer .point').first.wait_for()
    assert page.title() == "shown-run · burnish", "no text of the agent was run"
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_result_is_adopted_and_undone_in_the_browser(
    page: "Page", adoptable: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, agent = adoptable, adoptable.folder.parent / "agent.yaml"
    before = agent.read_text(encoding="utf-8")
    monkeypatch.chdir(agent.parent)  # the run is not in the index of this test
    with viewing(run.folder) as viewer:
        page.goto(viewer.link(run_key(run.folder)))
        page.locator("#trial-list > details").last.locator("summary").click()
        page.get_by_text("The decision").or_(page.get_by_text("model.temperature")).first.wait_for()
        page.get_by_text("Adopt it", exact=True).click()
        page.get_by_role("button", name="Change these files").click()
        page.get_by_text("Adopted: your files").wait_for()
        assert "temperature: 0.7" in agent.read_text(encoding="utf-8")
        assert barriers(page) == []
        page.get_by_role("button", name="Undo: put the files back").click()
        page.get_by_text("Undone: your files").wait_for()
        assert agent.read_text(encoding="utf-8") == before
        page.get_by_role("link", name="Runs").click()
        page.get_by_role("link", name=run.header.id, exact=True).wait_for()


@pytest.fixture(scope="module", autouse=True)
def live(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A run over two texts that this process seems to drive, before its first trial."""
    folder = tmp_path_factory.mktemp("live") / "run"
    roles = backprop_world.Roles(patch=backprop_world.add_words)
    run = start(backprop_world.world(roles=roles), folder=folder)
    yield folder
    run.directory.close()


def test_a_live_run_is_steered_in_the_browser(page: "Page", live: Path) -> None:
    cases = backprop_world.world().dataset
    with viewing(live, cases=cases) as viewer:
        page.goto(viewer.link(run_key(live)))
        for text, answer in (
            (f"Remember: {cases.holdout[0].input}", "which is held out"),
            ("Say it in\none sentence.", "Sent: the run takes it in between two trials."),
        ):
            page.goto(f"{viewer.origin}/runs/{run_key(live)}")
            page.get_by_text("Steer this run").click()
            page.get_by_label("A hint for the proposers").fill(text)
            page.get_by_role("button", name="Tell them").click()
            page.get_by_text(answer).first.wait_for()
        page.get_by_text("Steer this run").click()
        page.get_by_role("checkbox", name=backprop_world.PLANNER).check()
        page.get_by_role("button", name="Freeze").click()
        page.get_by_text("Steer this run").click()
        page.get_by_role("button", name="Free again").wait_for()
        assert barriers(page) == []
    notes = [(note.action, note.by, note.text) for note in waiting(live)]
    assert notes == [("tell", "ada", "Say it in\none sentence."), ("pin", "ada", "")]


def test_what_keeps_people_from_using_a_page_is_found(page: "Page") -> None:
    page.set_content(
        "<html lang=en><title>t</title><main><h1>t</h1><img src='data:,'><p "
        "style='color:#999;background:#fff'>faint</p><p style='width:600px'>wide</p></main></html>"
    )
    words = " ".join(barriers(page))
    for each in ("image-alt", "color-contrast", "390 dark: the page scrolls sideways"):
        assert each in words


def test_files_have_no_barriers(shown: RunRecord, page: "Page", tmp_path: Path) -> None:
    measured = report(scored("right", 1.0), scored("wrong", 0.0), scored("lost", None))
    files = {
        "report": html_report(shown, DATASET),
        "measurement": EvaluationPage(report=measured).to_html(),
    }
    found: dict[str, list[str]] = {}
    for name, html in files.items():
        (tmp_path / name).with_suffix(".html").write_text(html, encoding="utf-8")
        page.goto((tmp_path / name).with_suffix(".html").as_uri())
        _open(page, "details")
        _draw(page)
        found[name] = barriers(page)
    assert found == {"report": [], "measurement": []}


def test_pages_of_a_viewer_have_no_barriers(
    shown: RunRecord, grid: Path, page: "Page", tmp_path: Path
) -> None:
    columns = sorted((grid / "columns").iterdir())
    folders = [Path(shutil.copytree(shown.folder, tmp_path / n, symlinks=True)) for n in "abc"]
    keys = [run_key(folder) for folder in folders]
    several = "&".join(f"run={key}" for key in keys)
    with viewing(*folders, *columns, cases=DATASET) as viewer:
        page.goto(viewer.link())
        found: dict[str, list[str]] = {}
        for path, opened, ready in (
            ("/?find=shown-run", "details", "table"),
            (f"/runs/{run_key(grid)}", "details", "[data-chart=frontier]"),
            (f"/runs/{run_key(columns[0])}", "details", "#case-list"),
            (f"/runs/{keys[0]}", "details", "[data-chart=scores]"),
            (f"/runs/{keys[0]}/cases", "#case-list > details:first-child", ".case-body"),
            (f"/runs/{keys[0]}/trials", "#trial-list > details:last-child", ".case-body"),
            (f"/compare?run={keys[0]}&run={keys[1]}", "details", "#changes"),
            (f"/compare?{several}", "details", "[data-chart=heat]"),
            ("/nowhere", "", ".notice"),
        ):
            page.goto(f"{viewer.origin}{path}")
            _open(page, opened)
            page.locator(ready).first.wait_for()
            _draw(page)
            found[path] = barriers(page)
    assert [each for each in found.items() if each[1]] == []


def test_pages_about_delegations_are_used_without_a_mouse_and_have_no_barriers(
    shown: RunRecord,
    refined_seed: Path,
    page: "Page",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BURNISH_POLICY_DB", str(tmp_path / "policy.db"))
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(tmp_path / "experiments"))
    delegated_work(tmp_path)
    tagged = Path(shutil.copytree(shown.folder, tmp_path / "tagged", symlinks=True))
    set_tags(tagged, ["nightly"])
    found: dict[str, list[str]] = {}
    with viewing(refined_seed, tagged) as viewer:
        page.goto(viewer.link())

        def follow(link: str | re.Pattern[str], heading: str) -> None:
            """Go on with the keyboard alone, and look for barriers there."""
            tab_to(page, page.get_by_role("link", name=link).first)
            page.keyboard.press("Enter")
            page.get_by_role("heading", name=heading).first.wait_for()
            _open(page, "details:not([data-src])")
            _draw(page)
            found[heading] = barriers(page)

        follow("refine_", "Iterations")
        follow(re.compile(r"^\d{4}-"), "Refinements")
        follow("Experiments", "Experiments")
        follow("Policy texts", "Policy texts")
        follow("critique_rubric", "critique_rubric")
        follow("Runs", "Runs")
        tab_to(page, page.get_by_label("Tag"))
        page.keyboard.press("n")
        tab_to(page, page.get_by_role("button", name="Filter"))
        page.keyboard.press("Enter")
        page.get_by_text("1 of 2 runs").wait_for()
        found["by tag"] = barriers(page)
    assert [each for each in found.items() if each[1]] == []


def _open(page: "Page", selector: str) -> None:
    """Unfold what a selector names."""
    if selector:
        page.evaluate(
            "(each) => document.querySelectorAll(each).forEach((fold) => { fold.open = true; })",
            selector,
        )


def _draw(page: "Page") -> None:
    """Wait for each chart, which is drawn when somebody comes near it."""
    for chart in page.locator("[data-chart]").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()
