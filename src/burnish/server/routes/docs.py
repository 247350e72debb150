"""The page that describes the API, made of the OpenAPI document, without scripts."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

_ApiDocument: TypeAlias = Mapping[str, Any]
_METHODS = ("get", "post", "put", "delete")
_CSP = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
PATHS = ("/docs", "/docs/style.css")


def docs_router(document_path: str) -> APIRouter:
    """The page and its style; `document_path` is where the document is served."""
    router = APIRouter(include_in_schema=False)

    @router.get(PATHS[0])
    async def page(request: Request) -> HTMLResponse:
        html = _page_of(request.app.openapi(), document_path.lstrip("/"))
        return HTMLResponse(html, headers={"Content-Security-Policy": _CSP})

    @router.get(PATHS[1])
    async def style() -> Response:
        return Response(_STYLE, media_type="text/css")

    return router


def _page_of(document: _ApiDocument, document_path: str) -> str:
    """The whole page. Its links are relative, so that it works wherever it is mounted."""
    groups = _grouped(document)
    info = document["info"]
    contents = "".join(
        f'<li><a href="#{_anchor(tag)}">{escape(tag)}</a></li>' for tag in (*groups, "shapes")
    )
    parts = "".join(
        f'<section id="{_anchor(tag)}"><h2>{escape(tag)}</h2>'
        f"{''.join(_operation(*each) for each in operations)}</section>"
        for tag, operations in groups.items()
    )
    shapes = document.get("components", {}).get("schemas", {})
    shown = "".join(_shape(name, shape) for name, shape in sorted(shapes.items()))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(info["title"])} API</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="docs/style.css"></head><body>'
        f"<header><h1>{escape(info['title'])} API <small>{escape(info['version'])}</small></h1>"
        f'<p>Described by <a href="{escape(document_path)}">openapi.json</a>. {_access(document)}'
        f"</p></header><nav><ul>{contents}</ul></nav><main>{parts}"
        f'<section id="shapes"><h2>shapes</h2>{shown}</section></main></body></html>'
    )


def _access(document: _ApiDocument) -> str:
    if document.get("components", {}).get("securitySchemes"):
        return "Requests need a token: <code>Authorization: Bearer …</code>"
    return "This service asks for no token."


def _grouped(document: _ApiDocument) -> dict[str, list[tuple[str, str, _ApiDocument]]]:
    groups: dict[str, list[tuple[str, str, _ApiDocument]]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                tag = (item[method].get("tags") or ["service"])[0]
                groups.setdefault(tag, []).append((method, path, item[method]))
    return groups


def _operation(method: str, path: str, operation: _ApiDocument) -> str:
    summary = operation.get("description") or operation.get("summary") or ""
    first, _, _ = summary.partition("\n")
    key = f"{method} {path}"
    parts = "".join((_parameters(operation), _body(operation), _responses(operation)))
    return (
        f'<details id="{_anchor(key)}"><summary><b class="{method}">{method.upper()}</b> '
        f"<code>{_breakable(path)}</code> <span>{escape(first)}</span></summary>"
        f'<div class="inside">{_paragraphs(summary)}{parts}</div></details>'
    )


def _parameters(operation: _ApiDocument) -> str:
    rows = [
        (
            f"<code>{escape(each['name'])}</code>",
            escape(each["in"]) + ("" if each.get("required") else ", optional"),
            _type(each["schema"]),
        )
        for each in operation.get("parameters", ())
    ]
    return _table("Parameters", ("name", "in", "type"), rows)


def _body(operation: _ApiDocument) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    rows = [
        (f"<code>{escape(kind)}</code>", _type(each.get("schema", {})))
        for kind, each in content.items()
    ]
    return _table("Body", ("content", "type"), rows)


def _responses(operation: _ApiDocument) -> str:
    rows = [
        (
            f"<code>{escape(status)}</code>",
            escape(answer.get("description", "")),
            ", ".join(_type(each.get("schema", {})) for each in answer.get("content", {}).values()),
        )
        for status, answer in sorted(operation["responses"].items())
    ]
    return _table("Answers", ("status", "when", "type"), rows)


def _shape(name: str, shape: _ApiDocument) -> str:
    required = shape.get("required", ())
    rows = [
        (
            f"<code>{escape(key)}</code>{'' if key in required else ' <i>optional</i>'}",
            _type(field),
            escape(str(field.get("description", ""))),
        )
        for key, field in shape.get("properties", {}).items()
    ]
    values = "" if rows else f"<p>{_type(shape)}</p>"
    return (
        f'<details id="{_anchor(name)}"><summary><code>{escape(name)}</code> '
        f"<span>{escape(shape.get('description', '').partition(chr(10))[0])}</span></summary>"
        f'<div class="inside">{values}{_table("Fields", ("name", "type", ""), rows)}</div>'
        "</details>"
    )


def _type(schema: _ApiDocument) -> str:
    """A schema in a few words, with links to the shapes that it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_anchor(name)}">{escape(name)}</a>'
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " ".join(f"<code>{escape(str(each))}</code>" for each in values)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object" and schema.get("properties"):
        inner = ", ".join(f"{escape(k)}: {_type(v)}" for k, v in schema["properties"].items())
        return f"{{{inner}}}"
    return " ".join((escape(str(schema.get("type", "anything"))), *_bounds(schema)))


def _bounds(schema: _ApiDocument) -> Iterator[str]:
    words = {
        "exclusiveMinimum": "&gt; ",
        "minimum": "≥ ",
        "maximum": "≤ ",
        "minLength": "characters ≥ ",
        "maxLength": "characters ≤ ",
        "pattern": "",
    }
    for key, word in words.items():
        if key in schema:
            yield f"<small>{word}{escape(str(schema[key]))}</small>"


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<h3>{title}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(each.strip())}</p>" for each in text.split("\n\n") if each.strip())


def _breakable(path: str) -> str:
    """A path that may be broken into lines after its slashes."""
    return escape(path).replace("/", "/<wbr>")


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


_STYLE = """\
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: #0b62b0; }
@media (prefers-color-scheme: dark) { :root { --link: #7ab8f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 0 1rem 4rem; line-height: 1.5;
  font-family: system-ui, sans-serif; }
h1 { margin: 1.5rem 0 0; } h1 small { font-size: 1rem; font-weight: normal; opacity: .7; }
h2 { margin: 2rem 0 .5rem; text-transform: capitalize; }
h3 { margin: 1rem 0 .25rem; font-size: .9rem; }
a { color: var(--link); }
code { font-family: ui-monospace, monospace; font-size: .9em; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; list-style: none; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
details[open] > summary { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .5rem .75rem; overflow-wrap: anywhere; }
summary span { opacity: .75; }
summary b { display: inline-block; min-width: 4.2rem; padding: 0 .4rem; border-radius: 4px;
  color: #fff; font-size: .75rem; line-height: 1.5rem; text-align: center; }
.get { background: #1f6f43; } .post { background: #0b5394; }
.put { background: #8a5300; } .delete { background: #a1232b; }
.inside { padding: .25rem .75rem .75rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left;
  vertical-align: top; }
th { background: var(--soft); font-weight: 600; }
td small { opacity: .75; }
@media (max-width: 40rem) { summary span { display: block; } }
"""
