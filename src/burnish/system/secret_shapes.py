"""How secrets are written: the forms of a known one, and the shapes that give away others."""

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MARKER = "[redacted]"
_SHORTEST_CORE = 8

_WORD = r"(?-i:[A-Z]{1,15}|[A-Za-z]?[a-z]{0,14})"
_PROSE = rf"{_WORD}(?:[-/.]{_WORD})*+(?![\w~+/=-])"
# A header's value is one word that ends the line or the quotation, or has a digit in it: so
# that 'Authorization: ask the owner' stays.
_VALUE = r"""(?:(?!\[redacted\])[^\s"',;<>\\])++"""
_HEADER_VALUE = rf"""(?!\$\{{)(?:(?=\S*\d){_VALUE}|{_VALUE}(?=[ \t]*(?:["',;\r\n\\]|$)))"""
_HEADER = r"""(?:\\?["'])?\s*[:=]\s*(?:\\?["'])?"""
_SCHEME = r"(?:(?:bearer|basic|token|apikey|negotiate)\s+)?"
_PARAMETERS = "access_token|api_?key|key|password|secret|signature|sig|token"

_SHAPES = tuple(
    (cue, re.compile(pattern, re.IGNORECASE))
    for cue, pattern in (
        ("sk-", r"()(?<![a-z0-9])sk-(?!learn)[a-z0-9_-]{17,}"),
        ("authorization", rf"(authorization{_HEADER})(?:aws4-\S+|digest)\s[^\r\n]+"),
        ("authorization", rf"(authorization{_HEADER}{_SCHEME}){_HEADER_VALUE}"),
        ("api-key", rf"(api-key{_HEADER}){_HEADER_VALUE}"),
        ("bearer", rf"(\bbearer\s+)(?!{_PROSE})[a-z0-9_.~+/=-]{{8,}}"),
        ("://", r"""(://[^\s/:@"'<>]*:)(?!\$\{|\[redacted\]@)[^\s/?#"'<>]+(?=@)"""),
        (
            "=",
            rf"""([?&;](?:{_PARAMETERS})=)"""
            r"""(?!\$\{|\[redacted\](?:[\s&#;"'<>\\]|$))[^\s&#;"'<>\\]+""",
        ),
    )
)
CUES = (*dict.fromkeys(cue for cue, _ in _SHAPES), "basic")
"""A text, in lower case, without any of these has no shape of a secret in it."""
_BASIC = re.compile(r"(\bbasic\s+)([a-z0-9_+/-]{4,}={0,2})", re.IGNORECASE)


def written_forms(secret: str) -> Iterator[str]:
    """The secret as it is, and as URLs, JSON and base64 would show it."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield from (quote(raw), quote(raw, safe=""), quote_plus(raw))
    for plain in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield plain
        yield json.dumps(plain)[1:-1]
    yield from _base64_forms(raw)


def without_shapes(text: str) -> str:
    """The text without what looks like a secret to anyone."""
    lowered = text.lower()
    for cue, pattern in _SHAPES:
        if cue in lowered:
            text = pattern.sub(rf"\g<1>{MARKER}", text)
    if "basic" in lowered:
        text = _BASIC.sub(_without_basic, text)
    return text


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Alone, and as the part that never changes when more stands before and after it."""
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw).decode()
        bits = 8 * (shift + len(raw))
        core = encoded[-(-8 * shift // 6) : bits // 6]
        if len(core) >= _SHORTEST_CORE:
            yield core
            yield core.replace("+", "-").replace("/", "_")


def _without_basic(found: re.Match[str]) -> str:
    """Credentials are 'name:password' in base64; anything else after 'basic' is prose."""
    standard = found[2].replace("-", "+").replace("_", "/").rstrip("=")
    try:
        decoded = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return found[0]
    is_pair = b":" in decoded and decoded.isascii() and decoded.decode().isprintable()
    return f"{found[1]}{MARKER}" if is_pair else found[0]
