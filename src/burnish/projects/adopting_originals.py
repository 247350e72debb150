"""The files a run measured: their hashes, kept in run.json and compared before they are edited."""

import hashlib

from burnish.core.content import Json
from burnish.models.factory import Models
from burnish.runs.header import Header
from burnish.system import read_bytes
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.target import AgentTarget

FILES = "files"
"""Where `Project.config` of an agent's run keeps the hashes."""


def measured_files(agent: LoadedAgent) -> dict[str, Json]:
    """Hashes of the agent file and of the files it names, by the path that names them."""
    own = read_bytes(agent.path) if agent.path.exists() else agent.tree.text.encode()
    return {agent.path.name: hashlib.sha256(own).hexdigest(), **agent.contents}


def changed_since(header: Header, agent: LoadedAgent) -> list[str]:
    """The files that are not what the run measured, by name; none when all are.

    A run that kept no hash of each file knows only a fingerprint of the whole agent.
    """
    kept = header.project.config.get(FILES)
    if isinstance(kept, dict):
        now = measured_files(agent)
        return sorted(name for name in {*kept, *now} if kept.get(name) != now.get(name))
    fingerprint = AgentTarget(agent, Models()).description.fingerprint
    if fingerprint == header.inputs.get("target"):
        return []
    return [f"{agent.path.name}, or a file that it names,"]
