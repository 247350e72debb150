"""Candidates of an agent file under the names that HoloDeck gives them.

`candidates/iter-07.yaml`; `instructions/system-prompt.iter-07.md` where the text is another than
the agent's own; at the top of the run's folder `best.yaml` and `best-instructions.md`, which lead
to the leader.
"""

from pathlib import Path, PurePosixPath

from burnish.core.candidates import Candidate
from burnish.runs.exporting import CANDIDATES, Exported, Exporter
from burnish.targets.agent.editing import edit
from burnish.targets.agent.exporting import PROMPTS, export_agent
from burnish.targets.agent.loading import LoadedAgent

BEST_PROMPT = "best-instructions.md"


def named_exports(agent: LoadedAgent) -> Exporter:
    """How the candidates of this agent lie in a run's folder."""
    suffix = agent.path.suffix

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        edited = edit(agent, candidate.values)
        prompt = _prompt(agent, name)
        made = export_agent(agent, edited, folder / CANDIDATES, prompt=f"../{prompt}")
        yaml = made.pop(agent.path.name)
        files = {f"{CANDIDATES}/{name}{suffix}": yaml}
        links = {f"best{suffix}": f"{CANDIDATES}/{name}{suffix}"}
        for content in made.values():
            files[prompt] = content
            links[BEST_PROMPT] = prompt
        return Exported(files=files, links=links)

    return export


def _prompt(agent: LoadedAgent, name: str) -> str:
    own = PurePosixPath(agent.block.instructions.file or "system-prompt.md")
    return f"{PROMPTS}/{own.stem}.{name}{own.suffix}"
