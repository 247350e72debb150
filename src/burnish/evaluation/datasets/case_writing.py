"""The parts of a case as plain data, spelled as agent test cases and rows spell them."""

from collections.abc import Sequence
from dataclasses import asdict

from burnish.core.cases import Attachment, ExpectedTool, Rubric
from burnish.core.content import Json


def present(**values: Json) -> dict[str, Json]:
    """The values that say something: neither nothing nor an empty list or mapping."""
    return {key: value for key, value in values.items() if not _is_empty(value)}


def asked(**lists: list[Json] | None) -> dict[str, Json]:
    """The lists that are there; an empty one says that there should be none."""
    return {key: value for key, value in lists.items() if value is not None}


def tools_written(tools: Sequence[ExpectedTool] | None) -> list[Json] | None:
    """Expected tools: the name alone where that is all."""
    if tools is None:
        return None
    return [
        tool.name
        if not tool.arguments and tool.count == 1
        else {
            "name": tool.name,
            **present(args=dict(tool.arguments)),
            **({} if tool.count == 1 else {"count": tool.count}),
        }
        for tool in tools
    ]


def files_written(files: Sequence[Attachment]) -> list[Json]:
    """Attachments as entries of `files`."""
    return [
        {
            "type": file.kind,
            **present(path=file.path or None, url=file.url or None),
            **present(data=file.data or None, name=file.name or None),
            **present(description=file.description or None),
            **file.options,
        }
        for file in files
    ]


def rubrics_written(rubrics: Sequence[Rubric]) -> list[Json]:
    """Rubrics, without what they do not say."""
    return [
        {key: text for key, text in asdict(rubric).items() if text or key in ("id", "text")}
        for rubric in rubrics
    ]


def _is_empty(value: Json) -> bool:
    return value is None or value in ([], {})
