"""Taking secrets out of texts and JSON values before they are kept or shown."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from pydantic import JsonValue

from burnish.system.secret_shapes import CUES, MARKER, without_shapes, written_forms

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
        found = {
            value.strip()
            for name, value in variables.items()
            if _NAMES_A_SECRET.search(name) and len(value.strip()) >= _MINIMUM
        }
        # A key of a letter or two is a stand-in, and every word has it.
        found.update(given for secret in extra if len(given := secret.strip()) >= _LEAST_GIVEN)
        return cls(secrets=tuple(sorted(found)))

    def text(self, value: str) -> str:
        """The text without secrets; doing it again changes nothing."""
        # What is left after a replacement may have become a shape of its own. Each round takes
        # characters away and never touches a marker, so there is a last one.
        while (redacted := without_shapes(self.without_known(value))) != value:
            value = redacted
        return value

    def is_clean(self, document: str) -> bool:
        """Whether a JSON document surely has nothing to redact; False is only a suspicion.

        Much cheaper than `json` for the many documents that have nothing to hide.
        """
        lowered = document.lower()
        return not (
            any(form in document for form in self._forms)
            or any(cue in lowered for cue in CUES)
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
        forms = {form for secret in self.secrets for form in written_forms(secret)}
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
