"""Skills: texts of know-how in files of their own, which an agent is told with its instructions."""

from dataclasses import dataclass, field
from pathlib import Path

from burnish.targets.agent.instructions import Instructions, read_instructions

_USUAL_NAME = "SKILL"


@dataclass(frozen=True, kw_only=True)
class Skill:
    """One skill: its file, and the text without the frontmatter."""

    name: str
    path: str
    """As the graph spells it, from its folder."""
    content: Instructions = field(repr=False)

    @classmethod
    def read(cls, path: str, folder: Path) -> "Skill":
        """The skill of a file, called as its frontmatter says, else as its folder or file is."""
        content = read_instructions(folder / path)
        place = Path(path)
        usual = place.parent.name if place.stem.upper() == _USUAL_NAME else place.stem
        return cls(name=content.name or usual or place.stem, path=path, content=content)


def told(skill: str, text: str) -> str:
    """A skill as it stands among the instructions."""
    return f"# Skill: {skill}\n\n{text.strip()}"
