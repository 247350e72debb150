"""Taking secrets out of texts and JSON values before they are kept or shown."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self
from urllib.parse import quote, quote_plus

from pydantic import JsonValue

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
_CUES = (*dict.fromkeys(cue for cue, _ in _SHAPES), "basic")
"""A text, in lower case, without any of these has no shape of a secret in it."""
_BASIC = re.compile(r"(\bbasic\s+)([a-z0-9_+/-]{4,}={0,2})", re.IGNORECASE)

_MINIMUM = 8
_LEAST_GIVEN = 4
_NAMES_A_SECRET = re.compile(
    r"api[_-]?key|token(?!iz)|secret|passw(or)?d|passphrase|credential|(private|access)[_-]?key",
    re.IGNORECASE,
)
_KEY_OF_A_SECRET = re.compile(
    # A tokenizer's and a pager's tokens are no secrets.
    r"(?!(.*[_-])?(eos|bos|pad|unk|sep|cls|mask|stop|start|end|next|page|special)[_-]?token$)"
    r"(.*(api[_-]?key|token|secret|passw(or)?d|passphrase|credentials?|(private|access)[_-]?key)"
    r"|(proxy-)?authorization|(set-)?cookie)",
    re.IGNORECASE,
)
_NAME_CUES = ("key", "token", "secret", "passw", "passphrase", "credential", "cookie")
_SECRET_IN_JSON = re.compile(
    r'(?:key|token|secret|passw|passphrase|credential|cookie)[^"]*"\s*:\s*"'
)
_REFERENCE = re.compile(r"\s*([a-z]+\s+)?\$\{[a-z_]\w*\}\s*", re.IGNORECASE)


def _written_forms(secret: str) -> Iterator[str]:
    """The secret as it is, and as URLs, JSON and base64 would show it."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield from (quote(raw), quote(raw, safe=""), quote_plus(raw))
    for plain in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield plain
        yield json.dumps(plain)[1:-1]
    yield from _base64_forms(raw)


def _without_shapes(text: str) -> str:
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


def _without_basic(match: re.Match[str]) -> str:
    """Credentials are 'name:password' in base64; anything else after 'basic' is prose."""
    standard = match[2].replace("-", "+").replace("_", "/").rstrip("=")
    try:
        decoded = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return match[0]
    is_pair = b":" in decoded and decoded.isascii() and decoded.decode().isprintable()
    return f"{match[1]}{MARKER}" if is_pair else match[0]


@dataclass(frozen=True, kw_only=True)
class Redactor:
    """Puts `[redacted]` in the place of known secrets and of what has the shape of one."""

    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, extra: Iterable[str] = ()
    ) -> Self:
        """Know the values of the variables whose names speak of secrets, and the `extra` ones."""
        variables = os.environ if environ is None else environ
        values = {
            value.strip()
            for name, value in variables.items()
            if _NAMES_A_SECRET.search(name) and len(value.strip()) >= _MINIMUM
        }
        # A key of a letter or two is a stand-in, and every word has it.
        values.update(
            stripped for secret in extra if len(stripped := secret.strip()) >= _LEAST_GIVEN
        )
        return cls(secrets=tuple(sorted(values)))

    def text(self, value: str) -> str:
        """The text without secrets; doing it again changes nothing."""
        # What is left after a replacement may have become a shape of its own. Each round takes
        # characters away and never touches a marker, so there is a last one.
        while (redacted := _without_shapes(self.without_known(value))) != value:
            value = redacted
        return value

    def is_clean(self, document: str) -> bool:
        """Whether a JSON document surely has nothing to redact; False is only a suspicion.

        Much cheaper than `json` for the many documents that have nothing to hide.
        """
        lowered = document.lower()
        return not (
            any(form in document for form in self._forms)
            or any(cue in lowered for cue in _CUES)
            or (any(n in lowered for n in _NAME_CUES) and _SECRET_IN_JSON.search(lowered))
        )

    def json(self, value: JsonValue) -> JsonValue:
        """The same for every text in a JSON value, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, dict):
            return self._mapping(value)
        return value

    def _mapping(self, mapping: dict[str, JsonValue]) -> dict[str, JsonValue]:
        redacted: dict[str, JsonValue] = {}
        for key, value in mapping.items():
            name = _not_among(redacted, self.text(key))
            redacted[name] = MARKER if _is_kept_secret(key, value) else self.json(value)
        return redacted

    def without_known(self, text: str) -> str:
        """The text without the secrets that are known by value, whatever else it looks like."""
        for form in self._forms:
            if form in text:
                parts = text.split(MARKER)
                text = MARKER.join(part.replace(form, MARKER) for part in parts)
        return text

    @cached_property
    def _forms(self) -> tuple[str, ...]:
        forms = {form for secret in self.secrets for form in _written_forms(secret)}
        # A part of the marker would be found in the marker, for ever.
        return tuple(sorted((f for f in forms if f not in MARKER), key=len, reverse=True))


def _is_kept_secret(key: str, value: JsonValue) -> bool:
    if not isinstance(value, str) or not value.strip():
        return False
    return bool(_KEY_OF_A_SECRET.fullmatch(key)) and not _REFERENCE.fullmatch(value)


def _not_among(taken: Mapping[str, object], name: str) -> str:
    """The name, numbered when two keys became the same: neither value may be lost."""
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name} ({number})"
    return free
