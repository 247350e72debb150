"""What OpenAI-compatible endpoints expect of a model by its name, and of a schema.

These are the rules of pydantic-ai for the models that most people call, and a test compares the two
for every name that pydantic-ai knows. A family or a schema with rules of its own is unknown here;
pydantic-ai calls it then.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from burnish.core.content import Json
from burnish.models.providers import OPENAI_CHAT, Provider

_Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Family:
    """What an endpoint expects of a model."""

    enforces_schemas: bool = True
    has_json_mode: bool = True
    reasons: bool = False
    reasons_by_default: bool = False
    """It does not accept a temperature then."""
    system_role: Literal["system", "user"] = "system"
    newer_max_tokens: bool = True
    """Whether the limit of tokens is `max_completion_tokens`."""
    schemas: Literal["strict", "strict with lengths", "without strict", "inlined"] = "strict"
    """How a schema is written: whether it is marked as strict, which a schema with limits of
    lengths may be too, and whether definitions are repeated where they are used.
    """


_PROMPTED = Family(enforces_schemas=False, has_json_mode=False)
_REASONS = re.compile(
    r"o[134]|gpt-5(?!-chat)|gpt-6-(?:astra|sol|luna)|gpt-6\.1-(?:sol|terra)", re.ASCII
)
_ONLY_IF_ASKED = re.compile(
    r"gpt-5\.(?:1(?!-codex|-chat)|2(?!-pro|-chat)|3(?!-chat)|4(?!-pro))", re.ASCII
)


def family_of(row: Provider, name: str, address: str) -> Family | None:
    """The family of a model; None for another protocol, or if only pydantic-ai knows it."""
    if row.protocol not in ("openai", "azure"):
        return None
    own = address == row.address
    sdk = row.sdk if row.sdk_elsewhere or own else ""
    if row.protocol == "azure":
        family = _at_azure(name.lower())
    elif (rules := _RULES.get((row.chat_model, sdk))) is not None:
        family = rules(name, address)
    else:
        return None
    if family is None or takes_newer_name(row, own=own, reasons=family.reasons):
        return family
    return replace(family, newer_max_tokens=False)


def takes_newer_name(row: Provider, *, own: bool, reasons: bool) -> bool:
    """Whether the endpoint is sure to know the newer name of `max_tokens`.

    Many compatible servers silently ignore it; OpenAI's own reasoning models accept nothing else at
    any address.
    """
    if row.legacy_max_tokens == "elsewhere":
        return own or reasons
    return row.legacy_max_tokens == "never"


def _of_openai(name: str) -> Family:
    reasons = _REASONS.match(name) is not None
    return Family(
        reasons=reasons,
        reasons_by_default=reasons and _ONLY_IF_ASKED.match(name) is None,
        system_role="user" if name.startswith("o1-mini") else "system",
    )


def _at_openai(name: str, address: str) -> Family:
    del address
    lengths = not name.startswith("ft:")
    return replace(_of_openai(name), schemas="strict with lengths" if lengths else "strict")


def _at_ollama(name: str, address: str) -> Family | None:
    name, host = name.lower(), urlsplit(address).hostname or ""
    if name.startswith(("gemma", "glm-5.3")):
        return None
    in_cloud = name.endswith("-cloud") or host == "ollama.com" or host.endswith(".ollama.com")
    inlined = name.startswith(("llama", "qwen", "qwq"))
    return Family(
        # Its cloud takes a schema and ignores it.
        enforces_schemas=not in_cloud,
        schemas="inlined" if inlined else "without strict",
    )


def _at_azure(name: str) -> Family:
    if name.startswith(("mistral", "ministral", "magistral")):
        return replace(_PROMPTED, newer_max_tokens=False)
    if name.startswith(("llama", "meta-", "deepseek", "cohere-")):
        return _PROMPTED
    return Family() if name.startswith("grok") else _of_openai(name)


_VENDORS_WITH_OWN_RULES = ("anthropic", "google")
_VENDORS_WITHOUT_JSON = (
    "amazon", "bedrock", "deepseek", "groq", "meta", "meta-llama", "moonshotai",
)  # fmt: skip


def _at_any_endpoint(name: str, address: str) -> Family | None:
    """By the vendor, in names such as `qwen/qwen3-32b`."""
    del address
    vendor, slash, model = name.partition("/")
    if not slash:
        return _of_openai(name)
    if vendor in _VENDORS_WITH_OWN_RULES or model.lower().startswith(("glm-5.3", "zai-glm-5-3")):
        return None
    if vendor in _VENDORS_WITHOUT_JSON:
        return _PROMPTED
    if vendor == "qwen":
        return None if re.search(r"qwen-?3[.-]5", model) else _PROMPTED
    if vendor in ("mistral", "mistralai"):
        return _PROMPTED if model.startswith("magistral") else _of_openai(model)
    if vendor == "cohere" and "reasoning" in model:
        return _PROMPTED
    return Family() if vendor == "x-ai" else _of_openai(model if vendor == "openai" else name)


_RULES: Mapping[tuple[str, str], Callable[[str, str], Family | None]] = {
    (OPENAI_CHAT, ""): _at_any_endpoint,
    (OPENAI_CHAT, "pydantic_ai.providers.openai:OpenAIProvider"): _at_openai,
    (
        "pydantic_ai.models.ollama:OllamaModel",
        "pydantic_ai.providers.ollama:OllamaProvider",
    ): _at_ollama,
}
"""By the classes of pydantic-ai in a provider's row."""


# -- Schemas ---------------------------------------------------------------------------------------


class UnknownSchema(ValueError):
    """A schema that only pydantic-ai knows how to write; users never see this."""


_NOT_STRICT = (
    "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties",
    "maxProperties", "unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems",
    "default", "oneOf",
)  # fmt: skip
_LENGTHS = ("minLength", "maxLength")
_STRICT_FORMATS = (
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
)  # fmt: skip
_UNKNOWN = {"$dynamicRef", "definitions", "prefixItems", "not"}
_TYPED = {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}
_DEFINITION = re.compile(r"#/\$defs/([^/~]+)")
_UNIONS = ("allOf", "anyOf", "oneOf")
_MOST_COPIES = 1000
_DEEPEST = 10
_MOST_PROPERTIES = 5000


def written_schema(schema: Mapping[str, Json], family: Family) -> dict[str, Any]:
    """The `schema` of a response format and, where it is to be said, whether it is `strict`."""
    writer = _SchemaWriter(deepcopy(dict(schema)), family)
    written = writer.write()
    stated = family.schemas in ("strict", "strict with lengths")
    return {"schema": written, "strict": writer.is_strict} if stated else {"schema": written}


class _SchemaWriter:
    """Writes one schema as its endpoint expects it.

    Strict means that every property is required and no other one allowed. Nothing is changed to
    make a schema strict: it only says whether it is.
    """

    def __init__(self, schema: _Schema, family: Family) -> None:
        self.is_strict = True
        self._schema = schema
        self._family = family
        self._definitions: dict[str, _Schema] = schema.pop("$defs", {})
        self._within: list[str] = []
        self._copies = 0
        self._properties = 0

    def write(self) -> _Schema:
        if "$ref" in self._schema:
            raise UnknownSchema
        root = self._node(self._schema, 0)
        if self._definitions and self._family.schemas != "inlined":
            root["$defs"] = {name: self._node(each, 0) for name, each in self._definitions.items()}
        return root

    def _node(self, node: Any, depth: int) -> Any:
        """A schema inside the schema; `depth` counts the objects around it."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict) or not _UNKNOWN.isdisjoint(node):  # pyright: ignore[reportUnknownArgumentType]
            raise UnknownSchema
        schema = cast("_Schema", node)
        if self._family.schemas == "inlined" and "$ref" in schema:
            return self._inlined(schema, depth)
        if properties := schema.get("properties"):
            depth += 1
            self._properties += len(properties)
        if depth > _DEEPEST or self._properties > _MOST_PROPERTIES:
            raise UnknownSchema  # More than OpenAI takes as strict.
        self._walk_parts(schema, depth)
        schema = self._with_unions(schema, depth)
        return schema if self._family.schemas == "inlined" else self._strict(schema)

    def _walk_parts(self, schema: _Schema, depth: int) -> None:
        """The schemas of properties and items, which only a plain object or array has."""
        kind, inlined = schema.get("type"), self._family.schemas == "inlined"
        if kind == "object":
            for name in ("properties", "patternProperties"):
                if parts := schema.get(name):
                    schema[name] = {key: self._node(each, depth) for key, each in parts.items()}
            names = ("additionalProperties", *(("propertyNames",) if inlined else ()))
        elif kind == "array":
            names = ("items", *(("contains",) if inlined else ()))
        else:
            return
        for name in names:
            if schema.get(name):
                schema[name] = self._node(schema[name], depth)

    def _with_unions(self, schema: _Schema, depth: int) -> _Schema:
        """A union of one is that one, where there is no type beside it."""
        typed = schema.get("type") is not None
        for union in _UNIONS:
            if union not in schema or (typed and not schema[union]):
                continue
            members = [self._node(each, depth) for each in schema[union]]
            if not typed:
                del schema[union]
                if len(members) == 1 and isinstance(members[0], dict):
                    schema = cast("_Schema", members[0]) | schema
                    continue
            schema[union] = members
        return schema

    def _inlined(self, schema: _Schema, depth: int) -> _Schema:
        match = _DEFINITION.fullmatch(str(schema["$ref"]))
        name = match[1] if match else ""
        self._copies += 1
        if name not in self._definitions or name in self._within or self._copies > _MOST_COPIES:
            raise UnknownSchema
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        self._within.append(name)
        written = self._node({**deepcopy(self._definitions[name]), **beside}, depth)
        self._within.pop()
        return written

    def _strict(self, schema: _Schema) -> _Schema:
        for name in ("title", "$schema", "discriminator"):
            schema.pop(name, None)
        if "$ref" in schema:
            if not _DEFINITION.fullmatch(str(schema["$ref"])):
                raise UnknownSchema
            if len(schema) > 1:
                schema["anyOf"] = [{"$ref": schema.pop("$ref")}]
        if schema.get("type") == "object":
            self._close(schema)
        self.is_strict &= not any(self._obstacles(schema))
        return schema

    def _close(self, schema: _Schema) -> None:
        """Allow no other properties, unless the schema does."""
        properties = schema.setdefault("properties", {})
        if schema.get("additionalProperties") in (None, False):
            schema["additionalProperties"] = False
        else:
            self.is_strict = False
        required = schema.get("required")
        self.is_strict &= required is not None and all(each in required for each in properties)

    def _obstacles(self, schema: _Schema) -> Iterator[bool]:
        yield any(name in schema for name in _NOT_STRICT)
        if self._family.schemas != "strict with lengths":
            yield any(name in schema for name in _LENGTHS)
        yield bool(form := schema.get("format")) and form not in _STRICT_FORMATS
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and "(?" in pattern:
            raise UnknownSchema
        if schema.get("type") == "array":
            items = schema.get("items")
            yield not isinstance(items, dict) or _TYPED.isdisjoint(items)  # pyright: ignore[reportUnknownArgumentType]
