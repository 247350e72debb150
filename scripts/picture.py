"""Draws docs/images/session.svg: the commands of the tutorial and what they print, as a terminal.

The lines are those of docs/tutorial.md, which scripts/transcripts.py writes and the tests run. The
picture needs no font of its own and loads nothing. `make docs` draws it anew.
"""

import re
from collections.abc import Iterator
from html import escape

from tests.docs.docs_console import commands
from tests.docs.docs_pages import ROOT, blocks

PAGE = ROOT / "docs" / "tutorial.md"
PICTURE = ROOT / "docs" / "images" / "session.svg"
_SHOWN = ("burnish eval", "python desk/offline.py burnish optimize", "burnish adopt")
_LAST = "--json desk/baseline.json"
"""How the last command of the story ends."""
_COLUMN, _ROW, _MARGIN = 8.0, 19, 20
_TOP = 44
_COLOURS = (
    (re.compile(r"^\$ "), "#e6edf3", "bold"),
    (re.compile(r"accept ✓|, improved$|\bbetter$|^passed"), "#7ee787", "normal"),
    (re.compile(r"✗|^failed|^not good"), "#ffa198", "normal"),
    (re.compile(r"^…$"), "#6e7681", "normal"),
)
_PLAIN = ("#adbac7", "normal")


def session() -> Iterator[str]:
    """The lines of the picture: from the first measurement to the one after adopting."""
    for block in blocks(PAGE):
        for command in commands(block) if block.language == "console" else ():
            if not command.line.startswith(_SHOWN) or "--dry-run" in command.line:
                continue
            yield f"$ {command.line}"
            yield from command.shown
            if command.line.endswith(_LAST):
                return
            yield ""


def drawn() -> str:
    """The picture."""
    lines = list(session())
    width = round(2 * _MARGIN + _COLUMN * max(map(len, lines)))
    height = _TOP + _ROW * len(lines) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>burnish at a terminal: measure, search, adopt, measure again</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
        *(f'<circle cx="{x}" cy="18" r="5" fill="#30363d"/>' for x in (20, 38, 56)),
        '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        *(_text(number, line) for number, line in enumerate(lines) if line),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(number: int, line: str) -> str:
    """One line, exactly as wide as its columns in whatever font there is."""
    styles = ((colour, weight) for seen, colour, weight in _COLOURS if seen.search(line))
    colour, weight = next(styles, _PLAIN)
    place = f'x="{_MARGIN}" y="{_TOP + _ROW * number + 6}" xml:space="preserve"'
    fit = f'textLength="{_COLUMN * len(line):g}" lengthAdjust="spacingAndGlyphs"'
    return f'<text {place} {fit} fill="{colour}" font-weight="{weight}">{escape(line)}</text>'


def main() -> None:
    """Draw the picture, if it is not current."""
    PICTURE.parent.mkdir(exist_ok=True)
    picture = drawn()
    if not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != picture:
        PICTURE.write_text(picture, encoding="utf-8")
        print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
