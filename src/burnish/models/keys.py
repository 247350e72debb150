"""Keys of models: from the environment or a `.env` file, named in configurations, never shown."""

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.models.errors import ModelRefused
from burnish.models.references import ModelRef, is_here, is_providers_own
from burnish.system import read_text

_DOTENV = ".env"
WHERE = f"in the environment or in {_DOTENV}"

_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", re.ASCII)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_COMMENT = re.compile(r"\s#.*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def load_dotenv(folder: Path, environ: MutableMapping[str, str]) -> list[str]:
    """Put what `.env` says into `environ`, where it has nothing; the names that were set."""
    path = find_dotenv(folder)
    values = {} if path is None else read_dotenv(path)
    new = {name: value for name, value in values.items() if name not in environ}
    environ.update(new)
    return list(new)


def find_dotenv(folder: Path) -> Path | None:
    """The nearest `.env`, from `folder` up to the repository it lies in."""
    for place in _upwards(folder.resolve()):
        if (place / _DOTENV).is_file():
            return place / _DOTENV
    return None


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file. Values are taken as they stand: a `$` is a `$`."""
    values: dict[str, str] = {}
    bad: list[Problem] = []
    lines = read_text(path).removeprefix("\ufeff").split("\n")
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        try:
            name, value = _assignment(line)
        except ValueError:
            bad.append(_bad_line(path, number))
        else:
            values[name] = value
    if bad:
        raise ConfigError(bad)
    return values


def key_for(ref: ModelRef, environ: Mapping[str, str] | None = None) -> str | None:
    """The key of a model, or None when there is none.

    The provider's usual key goes to the provider's own hosts and to this machine only: another
    endpoint gets a key when the configuration names one.
    """
    env = os.environ if environ is None else environ
    if ref.api_key:
        return _referred(ref, env)
    if not (is_providers_own(ref) or is_here(ref)):
        return None
    values = (env.get(name, "").strip() for name in ref.row.key_variables)
    return next(filter(None, values), None)


def missing_key(ref: ModelRef) -> ModelRefused:
    """What to say when a model needs a key and there is none."""
    named = referred(ref.api_key) or ref.row.key_variables
    if not named:
        remedy = f"give the model an api_key: ${{NAME}}, and set NAME {WHERE}"
    else:
        remedy = f"set {' or '.join(named)} {WHERE}"
    return ModelRefused(f"there is no key for {ref.label}", remedy=remedy)


def require_reference(text: str, where: str) -> str:
    """A key as a configuration may hold it: nothing, or the name of a variable."""
    if not text or _REFERENCE.fullmatch(text.strip()):
        return text.strip()
    remedy = f"put it in {_DOTENV} and write ${{NAME}}"
    raise ConfigError([Problem(where=where, message="a key is written out", remedy=remedy)])


def referred(text: str) -> list[str]:
    """The names of the variables that a text refers to."""
    return _REFERENCE.findall(text)


def _referred(ref: ModelRef, environ: Mapping[str, str]) -> str:
    """The value of the variable that the model's own `api_key` names."""
    reference = require_reference(ref.api_key, f"the api_key of {ref.label}")
    value = environ.get(reference[2:-1], "").strip()
    if not value:
        raise missing_key(ref)
    return value


def _upwards(folder: Path) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        yield place
        if (place / ".git").exists():
            return


def _assignment(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None or "\0" in line:
        raise ValueError
    return match[1], _value(match[2])


def _value(written: str) -> str:
    text = written.strip()
    if text.startswith("'"):
        return _inside(_SINGLE, text)
    if text.startswith('"'):
        return re.sub(r"\\(.)", _unescaped, _inside(_DOUBLE, text))
    return _COMMENT.sub("", written, count=1).strip()


def _inside(quotes: re.Pattern[str], text: str) -> str:
    match = quotes.fullmatch(text)
    if match is None:
        raise ValueError
    return match[1]


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[0])


def _bad_line(path: Path, number: int) -> Problem:
    """What the line says is not told: it may well be a key."""
    remedy = "write NAME=value, and close every quote on its line"
    return Problem(where=f"{path}:{number}", message="not a variable", remedy=remedy)
