"""Removes secrets and personal data from texts and JSON values before they are stored or shown."""

import base64
import html
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self, TypeAlias
from urllib.parse import quote, quote_plus

from pydantic import JsonValue

from burnish.system.user_code import replace_all
from burnish.system.variables import LEAST_SECRET

MARKER = "[redacted]"
Shapes: TypeAlias = Literal["known-keys", "own-secrets"]
"""What is removed besides the values of secrets: whatever looks like one, or nothing
(`own-secrets`)."""

_WORD = r"(?-i:[A-Z]{1,15}|[A-Za-z]?[a-z]{0,14})"
_PROSE = rf"{_WORD}(?:[-/.]{_WORD})*+(?![\w~+/=-])"
# A header's value is one word that ends the line or the quotation, or has a digit in it: so
# that 'Authorization: ask the owner' stays.
_LETTER = r"""(?:(?!\[redacted\])[^\s"',;<>\\])"""
# What is looked at again and again has a bound: a hostile text may repeat the cue a million times.
_HEADER_VALUE = (
    rf"""(?!\$\{{)(?:(?=[^\s"',;<>\\]{{0,100}}\d){_LETTER}++"""
    rf"""|{_LETTER}{{1,100}}+(?![^\s"',;<>\\])(?=[ \t]{{0,20}}(?:["',;\r\n\\]|$)))"""
)
_HEADER = r"""(?:\\?["'])?\s*[:=]\s*(?:\\?["'])?"""
_SCHEME = r"(?:(?:bearer|basic|token|apikey|negotiate)\s+)?"
_PARAMETERS = "access_token|api_?key|key|password|secret|signature|sig|token"
_PARAMETER_CUES = ("key=", "password=", "secret=", "signature=", "sig=", "token=")
"""What every one of them ends in."""

_SHAPES = tuple(
    (cues, re.compile(pattern, re.IGNORECASE))
    for cues, pattern in (
        (("sk-",), r"()(?<![a-z0-9_-])sk-(?!learn)[a-z0-9_-]{17,}"),
        (("authorization",), rf"(authorization{_HEADER})(?:aws4-\S{{1,200}}+|digest)\s[^\r\n]+"),
        (("authorization",), rf"(authorization{_HEADER}{_SCHEME}){_HEADER_VALUE}"),
        (("api-key",), rf"(api-key{_HEADER}){_HEADER_VALUE}"),
        (("bearer",), rf"(\bbearer\s+)(?!{_PROSE})[a-z0-9_.~+/=-]{{8,}}"),
        (("://",), r"""(://[^\s/:@"'<>]*:)(?!\$\{|\[redacted\]@)[^\s/?#"'<>]+(?=@)"""),
        (
            _PARAMETER_CUES,
            rf"""([?&;](?:{_PARAMETERS})=)"""
            r"""(?!\$\{|\[redacted\](?:[\s&#;"'<>\\]|$))[^\s&#;"'<>\\]+""",
        ),
    )
)
_CUES = (*dict.fromkeys(cue for cues, _ in _SHAPES for cue in cues), "basic")
"""A lower-case text without any of these does not look like it contains a secret."""
_BASIC = re.compile(r"(\bbasic\s+)([a-z0-9_+/-]{4,}={0,2})", re.IGNORECASE)

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
_SECRET_IN_JSON = re.compile(rf'(?:{"|".join(_NAME_CUES)})[^"]*"\s*:\s*"')
_REFERENCE = re.compile(r"\s*([a-z]+\s+)?\$\{[a-z_]\w*\}\s*", re.IGNORECASE)

_SHORT = 1_000
"""Texts with fewer characters are searched for all words at once, longer ones word by word."""


def _has(text: str, words: Iterable[str]) -> bool:
    """Whether a text has one of these few words."""
    for word in words:  # noqa: SIM110 - four times for every case, and any() takes twice as long
        if word in text:
            return True
    return False


def _names_a_secret(lowered: str) -> bool:
    """Whether a JSON document has a text whose name suggests a secret."""
    starts = [at for word in _NAME_CUES if (at := lowered.find(word)) >= 0]
    return bool(starts) and _SECRET_IN_JSON.search(lowered, min(starts)) is not None


def _finder(cues: Iterable[str]) -> Callable[[str], bool]:
    """Whether a text has one of these many words."""
    words = tuple(dict.fromkeys(cues))
    any_of_them = re.compile(_any_of(words))

    def found(text: str) -> bool:
        if len(text) < _SHORT:
            return any_of_them.search(text) is not None
        return any(word in text for word in words)

    return found


def _any_of(words: Collection[str]) -> str:
    """A pattern for any of these words that compares what they start with only once."""
    if "" in words:
        return ""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[0], []).append(word[1:])
    patterns = [f"{re.escape(first)}{_any_of(rest)}" for first, rest in rests.items()]
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"


_IN_PAGES = re.compile(r"[&<>]")
_NOT_PLAIN = re.compile(r"""["'&<>+`]|[^ -~]""")
"""Signs that some libraries write as codes in JSON."""


def _written_forms(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    for quoted in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield quoted
        # Either case of the digits is right, and servers differ.
        yield re.sub(r"%..", lambda match: match[0].lower(), quoted)
    yield html.escape(secret)
    for plain in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield plain
        yield json.dumps(plain)[1:-1]
        # As the libraries of PHP, Go and .NET write JSON, in texts that nobody reads as JSON.
        yield plain.replace("/", "\\/")
        yield _IN_PAGES.sub(lambda sign: f"\\u{ord(sign[0]):04x}", plain)
    escaped = secret.replace("\\", "\\\\")
    yield _NOT_PLAIN.sub(lambda sign: f"\\u{ord(sign[0]):04X}", escaped)
    yield from _base64_forms(raw)


def _without_shapes(text: str, *, spared: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        secret = match[0].removeprefix(match[1])
        is_spared = spared and secret.rstrip(".-_") in spared
        return match[0] if is_spared else f"{match[1]}{MARKER}"

    if _may_have_keys(text):
        text = _replace_keys(text, replaced)
    lowered = text.lower()
    if not _has(lowered, _CUES):
        return text
    for cues, pattern in _SHAPES:
        if any(cue in lowered for cue in cues):
            text = pattern.sub(replaced, text)
    if "basic" in lowered:
        text = _BASIC.sub(lambda m: replaced(m) if _is_basic_pair(m[2]) else m[0], text)
    return text


def _base64_forms(raw: bytes) -> Iterator[str]:
    """The whole encoding, and the part that is the same whatever surrounds the secret."""
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw).decode()
        bits = 8 * (shift + len(raw))
        core = encoded[-(-8 * shift // 6) : bits // 6]
        if len(core) >= 8:
            yield core
            yield core.replace("+", "-").replace("/", "_")


def _is_basic_pair(encoded: str) -> bool:
    """Credentials are 'name:password' in base64; anything else after 'basic' is prose."""
    standard = encoded.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        decoded = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode().isprintable()


@dataclass(frozen=True, kw_only=True)
class Redactor:
    """Replaces known secrets, and what looks like one, by `[redacted]`."""

    secrets: tuple[str, ...] = field(repr=False)
    shapes: Shapes = "known-keys"

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, extra: Iterable[str] = ()
    ) -> Self:
        """Redact the values of variables whose names suggest secrets, and `extra` ones."""
        variables = os.environ if environ is None else environ
        values = {
            value.strip()
            for name, value in variables.items()
            if _NAMES_A_SECRET.search(name) and len(value.strip()) >= LEAST_SECRET
        }
        # A key of a letter or two is a stand-in, and every word has it.
        values.update(stripped for secret in extra if len(stripped := secret.strip()) >= 4)
        return cls(secrets=tuple(sorted(values)))

    def text(self, value: str, *, spared: str = "") -> str:
        """The text without secrets; idempotent. What looks like one and is in `spared` stays."""
        if self.shapes == "own-secrets":
            return self.without_known(value)
        # What is left after a replacement may have become a shape of its own. Each round takes
        # characters away and never touches a marker, so there is a last one.
        while True:
            known = self.without_known(value)
            redacted = _without_shapes(known, spared=spared)
            if redacted == value:
                return value
            value = redacted

    def is_clean(self, document: str) -> bool:
        """Whether a JSON document certainly has nothing to redact; False is only a suspicion.

        Much cheaper than `json` for the many documents without secrets.
        """
        if _has(document, self._forms):
            return False
        if self.shapes == "own-secrets":
            return True
        lowered = document.lower()
        return not (_may_have_keys(document) or _has(lowered, _CUES) or _names_a_secret(lowered))

    def json(self, value: JsonValue, *, spared: str = "") -> JsonValue:
        """Redact every string in a JSON value, including keys."""
        if isinstance(value, str):
            return self.text(value, spared=spared)
        if isinstance(value, list):
            return [self.json(item, spared=spared) for item in value]
        if isinstance(value, dict):
            redacted: dict[str, JsonValue] = {}
            for key, item in value.items():
                # Two keys may become the same: neither value may be lost.
                name = spelled = self.text(key, spared=spared)
                number = 2
                while name in redacted:
                    name, number = f"{spelled} ({number})", number + 1
                hidden = self._is_secret(key, item, spared)
                redacted[name] = MARKER if hidden else self.json(item, spared=spared)
            return redacted
        return value

    def _is_secret(self, key: str, value: JsonValue, spared: str) -> bool:
        if not isinstance(value, str) or not value.strip() or self.shapes == "own-secrets":
            return False
        if spared and value in spared:
            return False
        return bool(_KEY_OF_A_SECRET.fullmatch(key)) and not _REFERENCE.fullmatch(value)

    def own_secrets_removed(self, value: JsonValue) -> JsonValue:
        """A JSON value without the secrets that are known by value."""
        return replace(self, shapes="own-secrets").json(value)

    def without_known(self, text: str) -> str:
        """The text without the secrets that are known by value."""
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


# -- Shapes of keys that well-known services issue -------------------------------------------------
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
"""Not inside a word; `\\n` in JSON text ends the word before."""
_END = r"(?![A-Za-z0-9_])"
_PEM_NAME = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"

_KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    # AWS: access key ids, and secret keys beside their name.
    (("AKIA", "ASIA", "ABIA", "ACCA"), rf"(){_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}{_END}"),
    (
        ("ecret",),
        r"((?i:aws_?secret(?:_?access)?_?key)\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?)"
        r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
    ),
    # Google: API keys, OAuth tokens and secrets, the id of a service account's key.
    (("AIza",), rf"(){_START}AIza[\w-]{{35}}(?![\w-])"),
    (("ya29.",), rf"(){_START}ya29\.[\w-]{{20,2000}}+"),
    (("GOCSPX-",), rf"(){_START}GOCSPX-[\w-]{{28}}(?![\w-])"),
    (("private_key_id",), r"(private_key_id\\?\"\s{0,9}:\s{0,9}\\?\")[0-9a-f]{40}"),
    # Azure: connection strings, client secrets, keys of its AI services.
    (("AccountKey=",), r"(AccountKey=)[A-Za-z0-9+/]{86}=="),
    (("AccessKey=",), r"(SharedAccessKey=)[A-Za-z0-9+/]{43}="),
    (("Q~",), r"()(?:(?<![\w~.-])|(?<=\\[nrt]))[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    (("JQQJ99",), rf"(){_START}[A-Za-z0-9]{{52}}JQQJ99[A-Za-z0-9]{{26}}{_END}"),
    # GitHub and GitLab.
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), rf"(){_START}gh[pousr]_[A-Za-z0-9]{{36,255}}+"),
    (("github_pat_",), rf"(){_START}github_pat_\w{{50,255}}+"),
    (
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glagent-", "glsoat-", "glft-", "glimt-"),
        rf"(){_START}gl(?:pat|dt|rt|ptt|cbt|agent|soat|ft|imt)-[\w-]{{20,255}}+(?:\.[\w-]{{1,50}}+){{0,3}}",
    ),
    # Slack and Stripe.
    (("xox", "xapp-"), rf"(){_START}(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{{10,255}}+"),
    (("hooks.slack.com",), r"(hooks\.slack\.com/services/)T\w{6,12}/B\w{6,12}/\w{20,30}"),
    (
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_"),
        rf"(){_START}[sr]k_(?:live|test)_[A-Za-z0-9]{{16,255}}+",
    ),
    (("whsec_",), rf"(){_START}whsec_[A-Za-z0-9+/]{{24,255}}+"),
    # Models; those of OpenAI and Anthropic start with sk-, which is a shape of its own.
    (("sk-",), r"()(?<=\\[nrt])sk-[A-Za-z0-9_-]{17,255}+"),
    (("hf_",), rf"(){_START}hf_[A-Za-z]{{34}}{_END}"),
    (("gsk_",), rf"(){_START}gsk_[A-Za-z0-9]{{52}}{_END}"),
    (("xai-",), rf"(){_START}xai-[A-Za-z0-9]{{80}}{_END}"),
    # Packages and mail.
    (("npm_",), rf"(){_START}npm_[A-Za-z0-9]{{36}}{_END}"),
    (("pypi-AgE",), rf"(){_START}pypi-AgE[\w-]{{50,1000}}+"),
    (("SG.",), rf"(){_START}SG\.[\w-]{{22}}\.[\w-]{{43}}(?![\w-])"),
    # JSON web tokens, and private keys in a frame. The frame's end may have been cut off.
    (
        ("eyJ",),
        r"()(?:(?<![\w.+/-])|(?<=\\[nrt]))"
        r"eyJ[\w-]{10,4000}+\.eyJ[\w-]{10,20000}+\.[\w-]{20,2000}+",
    ),
    (
        ("PRIVATE KEY",),
        rf"()-----BEGIN {_PEM_NAME}"
        rf"(?:(?:[^-]|-(?!----))*+-----END {_PEM_NAME}"
        r"|(?:\s|\\[nr])*+(?:[A-Za-z0-9+/=\s]|\\[nr]){40,}+)",
    ),
)
_KEY_SHAPES = tuple((cues, re.compile(pattern)) for cues, pattern in _KINDS)
_may_have_keys = _finder(cue for cues, _ in _KINDS for cue in cues)
"""Whether a text may contain such a key; False is certain, and cheap."""


def _replace_keys(text: str, replaced: Callable[[re.Match[str]], str]) -> str:
    """The text with each key replaced; the first group of a match is what stays before it."""
    for cues, pattern in _KEY_SHAPES:
        if any(cue in text for cue in cues):
            text = pattern.sub(replaced, text)
    return text


_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?<!\d )(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,5}\)[ .-]?)?"
    r"\d{1,14}(?:[ .-]\d{2,9}){0,5}(?!\w)"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_GROUPED = re.compile(r"[1-9]\d{0,2}(?: \d{3})+")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


def _is_card(text: str) -> bool:
    """Whether the digits have the check sum of a card (Luhn)."""
    digits = [int(each) for each in text if each.isdigit()]
    doubled = [2 * each - 9 * (each > 4) for each in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_phone(text: str) -> bool:
    """Whether it is written like a telephone number, not like a date, an amount or an id."""
    digits = sum(each.isdigit() for each in text)
    if text.startswith("+"):
        return 7 <= digits <= 15
    if _DATE.match(text) or _GROUPED.fullmatch(text) or _ADDRESS.fullmatch(text):
        return False
    if not 9 <= digits <= 15 or "." in text or not any(sign in text for sign in " -("):
        return False
    # Pairs of digits are a list of numbers, unless the first one is dialled.
    return text.startswith(("0", "(")) or bool(re.search(r"\d{3}", text))


_PERSONAL_KINDS: Mapping[str, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (_EMAIL, bool),
    "card": (_CARD, _is_card),
    "phone": (_PHONE, _is_phone),
}
PERSONAL = tuple(_PERSONAL_KINDS)


@dataclass(frozen=True, kw_only=True)
class DataRedactor:
    """Removes keys, personal data and a user's own patterns from values, and counts them."""

    secrets: Redactor
    personal: tuple[str, ...] = PERSONAL
    """Which kinds of personal data: email, card, phone."""
    patterns: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter[str])
    """How many were removed, by kind: keys, patterns, and the kinds of personal data."""

    def json(self, value: JsonValue) -> JsonValue:
        """The value without them; names of fields stay."""
        before = _markers(value)
        clean = self.secrets.json(value)
        self.counts["key"] += max(0, _markers(clean) - before)
        return self._without(clean)

    def _without(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._without(item) for item in value]
        if isinstance(value, dict):
            return {name: self._without(item) for name, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        for pattern in self.patterns:
            text, found = replace_all(pattern, MARKER, text)
            self.counts["pattern"] += found
        for kind in self.personal:
            text = self._replaced(kind, text)
        return text

    def _replaced(self, kind: str, text: str) -> str:
        pattern, certain = _PERSONAL_KINDS[kind]

        def replaced(match: re.Match[str]) -> str:
            if not certain(match[0]):
                return match[0]
            self.counts[kind] += 1
            return f"[{kind}]"

        return pattern.sub(replaced, text)

    def summary(self) -> str:
        """`3 e-mail addresses, 1 key`; empty if nothing was removed."""
        return _counts_in_words(self.counts)


_WORDS = {
    "key": ("key", "keys"),
    "pattern": ("match of --redact", "matches of --redact"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("telephone number", "telephone numbers"),
    "card": ("card number", "card numbers"),
}


def _counts_in_words(counts: Mapping[str, int]) -> str:
    """What was removed, in words."""
    parts: Iterable[str] = (
        f"{counts[kind]:,} {words[counts[kind] != 1]}"
        for kind, words in _WORDS.items()
        if counts.get(kind)
    )
    return ", ".join(parts)


def _markers(value: JsonValue) -> int:
    if isinstance(value, str):
        return value.count(MARKER)
    if isinstance(value, list):
        return sum(map(_markers, value))
    if isinstance(value, dict):
        return sum(map(_markers, value.values()))
    return 0
