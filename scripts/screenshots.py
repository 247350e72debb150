"""Make the pictures of README and docs/view.md: run examples offline, take screenshots."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from burnish.pages.library import Library, run_key
from burnish.pages.run_page import Adoption
from burnish.pages.viewer import Viewer
from burnish.projects.evaluation_setup import stored_cases
from burnish.runs.directory import RunRecord

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CHROMIUM = Path("/usr/bin/chromium")
LARGEST = 100_000
"""Bytes of a picture: the repository keeps every version of it."""
_WIDE, _HIGH = 900, 700
_LIMIT = 120_000

COMMANDS = {
    "backprop": "multi_node: burnish optimize graph.yaml -o {runs}/backprop",
    "reflective": "quickstart: burnish optimize optimizer.json --agent agent.agent:call_agent "
    "--prompt system_prompt=agent/prompts/system.md --prompt skill=agent/prompts/skill.md "
    "--train train.evalset.json --val val.evalset.json -o {runs}/reflective",
    "seed": "refine_report: burnish delegate workflow.yaml --task-file task.md "
    "--input temperatures.csv -o {runs}/seed",
    "refined": "refine_report: burnish refine {runs}/seed",
    "toy": "toy: burnish optimize toy.yaml -o {runs}/toy",
}
"""The runs to show: each the folder of an example, and a command. Its offline.py answers, unless
the example is a plug-in whose agent needs no model."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A part of a page."""

    name: str
    run: str
    """The folder of its run; a refinement is inside of its seed."""
    part: str
    """A selector of the part."""
    opened: str = ""
    """A selector of what is clicked first."""


PICTURES = (
    Picture(name="verdict", run="toy", part="#verdict"),
    Picture(name="search", run="toy", part="figure:has([data-chart=scores])"),
    Picture(name="changes", run="reflective", part="#changes"),
    Picture(
        name="case",
        run="reflective",
        part="#case-list > details >> nth=0",
        opened="#case-list > details >> nth=0 >> summary >> nth=0",
    ),
    Picture(name="cases-by-candidate", run="reflective", part="figure:has([data-chart=heat])"),
    Picture(name="blame", run="backprop", part="figure:has(svg.graph)"),
    Picture(
        name="loss-parts",
        run="seed/refinement_sessions/*",
        part="figure:has([data-chart=own-0])",
    ),
)


class _ByCommand:
    """Shows the command only: what else a page offers names folders of this machine."""

    def state(self, run: RunRecord) -> Adoption:
        """The command."""
        return Adoption(command=f"burnish adopt {run.header.id}")

    def adopt(self, run: RunRecord) -> str:
        """Change nothing."""
        return f"{run.header.id} is only shown"

    undo = adopt


def main() -> None:
    """Take all pictures; a folder with finished runs may be named to use these."""
    with tempfile.TemporaryDirectory() as home:
        if len(sys.argv) < 2:
            os.environ.update(BURNISH_HOME=home, BURNISH_HTML="never")
        runs = Path(sys.argv[1]) if len(sys.argv) > 1 else _run_examples(Path(home))
        sys.path.append(str(ROOT / "examples" / "toy"))  # a page asks the plug-in of its strategy
        folders = {each.name: next(runs.glob(f"{each.run}/run.json")).parent for each in PICTURES}
        with _served(folders) as viewer:
            _take(viewer, folders)


def _run_examples(home: Path) -> Path:
    shutil.copytree(ROOT / "examples", home / "examples")
    runs = home / "runs"
    os.environ["PYTHONPATH"] = str(home / "examples" / "toy")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name, line in COMMANDS.items():
        sys.stdout.write(f"runs {name}\n")
        example, _, command = line.partition(": ")
        folder = home / "examples" / example
        offline = [sys.executable, "offline.py"] if (folder / "offline.py").exists() else []
        arguments = [*offline, *command.format(runs=runs).split()]
        subprocess.run(arguments, cwd=folder, env={**os.environ, "PATH": path}, check=True)
    return runs


@contextmanager
def _served(folders: Mapping[str, Path]) -> Generator[Viewer, None, None]:
    library = Library(folders=lambda: [*folders.values()], cases=stored_cases, adopter=_ByCommand())
    viewer = Viewer(library)
    thread = threading.Thread(target=viewer.serve, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.close()
        thread.join(60)


def _take(viewer: Viewer, folders: Mapping[str, Path]) -> None:
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=flags, timeout=_LIMIT
        )
        page = browser.new_page(viewport={"width": _WIDE, "height": _HIGH})
        page.set_default_timeout(_LIMIT)
        page.goto(viewer.link())
        for picture in PICTURES:
            page.goto(f"{viewer.origin}/runs/{run_key(folders[picture.name])}")
            _save(page, picture)
        browser.close()


def _save(page: "Page", picture: Picture) -> None:
    if picture.opened:
        page.locator(picture.opened).click()
        page.locator(f"{picture.part} >> .case-body").wait_for()
    part = page.locator(picture.part)
    part.scroll_into_view_if_needed()
    if part.locator("[data-chart]").count():
        part.locator(".main-svg").first.wait_for()
        page.wait_for_timeout(500)  # it is drawn step by step
    path = IMAGES / f"view-{picture.name}.png"
    part.screenshot(path=path)
    size = path.stat().st_size
    if size > LARGEST:
        sys.exit(f"{path} has {size:,} bytes; at most {LARGEST:,} are allowed")
    sys.stdout.write(f"{path.relative_to(ROOT)}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
