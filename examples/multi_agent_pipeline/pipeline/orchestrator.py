"""The pipeline: reader, pricer, clerk. Each reads its own prompt again at every call."""

from pathlib import Path

from pipeline import clerk, pricer, reader

PROMPTS = Path(__file__).parent / "prompts"


async def call_agent(query: str) -> str:
    """A question about a parcel, through all three."""
    note = reader.read(query, _prompt("reader"))
    quote = pricer.price(note, _prompt("pricer"))
    return clerk.reply(note, quote, _prompt("clerk"))


def _prompt(name: str) -> str:
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8")
