"""Content as canonical JSON, and the hashes that keys and ids are made of."""

import hashlib
import json

from pydantic import JsonValue

from burnish.core.errors import NotJournalable

Json = JsonValue

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical(value: Json) -> bytes:
    """One spelling for one value: keys sorted, no spaces, UTF-8.

    NaN, Infinity and lone surrogates have no such spelling and are refused.
    """
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except (ValueError, TypeError) as error:
        raise NotJournalable(
            f"this value cannot be kept as JSON: {error}",
            remedy="give plain text, numbers, lists and mappings; "
            "NaN, Infinity and half a surrogate pair have no JSON form",
        ) from error


def digest(value: Json) -> str:
    """The SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def short_id(value: Json) -> str:
    """A digest short enough to read aloud and long enough never to clash in one project."""
    return digest(value)[:16]
