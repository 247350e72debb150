"""The service: it reads its prompt again for every request, so that a new text counts at once."""

from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel

from service.directory import answer

PROMPT = Path(__file__).parent / "prompts" / "system.md"

app = FastAPI(title="directory")


class Question(BaseModel):
    """What is asked."""

    query: str


class Reply(BaseModel):
    """What is answered."""

    final_text: str


@app.get("/health")
def health() -> dict[str, str]:
    """Where the prompt lies that is read: whoever optimises it must write the same file."""
    return {"status": "ok", "prompt": str(PROMPT)}


@app.post("/chat")
def chat(question: Question) -> Reply:
    """One answer."""
    prompt = PROMPT.read_text(encoding="utf-8")
    return Reply(final_text=answer(question.query, prompt))
