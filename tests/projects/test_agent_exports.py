"""Candidates under HoloDeck's names: they load from where they lie."""

from pathlib import Path

from burnish.core.surfaces import NumberSurface, TextSurface
from burnish.projects.agent.plugin import named_exports
from burnish.runs.events import Exported
from burnish.targets.agent.files import load_agent
from tests.targets.agent_world import target, with_values, write_agent

SURFACES = [
    TextSurface(id="instructions"),
    NumberSurface(id="model.temperature", low=0, high=1),
]


def written(run: Path, exported: Exported) -> None:
    for path, content in exported.files.items():
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_bytes(content)
    for path, leads_to in exported.links.items():
        (run / path).unlink(missing_ok=True)
        (run / path).symlink_to(leads_to)


def test_files_and_links_have_the_seeds_names(tmp_path: Path) -> None:
    made, _ = target(write_agent(tmp_path), surfaces=SURFACES)
    export = named_exports(made.agent)
    run = tmp_path / "results" / "optimizer" / "run"
    first = export(made.baseline, run, 0)
    assert set(first.files) == {"candidates/iter-00.yaml"}
    assert first.links == {"best.yaml": "candidates/iter-00.yaml"}
    candidate = with_values(made.baseline, instructions="Be brief.\n")
    later = export(candidate, run, 7)
    assert set(later.files) == {"candidates/iter-07.yaml", "instructions/system.iter-07.md"}
    assert later.links == {
        "best.yaml": "candidates/iter-07.yaml",
        "best-instructions.md": "instructions/system.iter-07.md",
    }
    written(run, first)
    written(run, later)
    assert load_agent(run / "candidates" / "iter-00.yaml").instructions.text.startswith("You are")
    best = load_agent(run / "best.yaml")
    assert best.instructions.text == "Be brief.\n"
    assert [case.input for case in best.cases] == ["7 - 5?"]
