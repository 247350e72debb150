"""What is known of models by their names, and of schemas, agrees with pydantic-ai."""

import json
from copy import deepcopy
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.models import KnownModelName
from pydantic_ai.profiles import InlineDefsJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.providers.openai import OpenAIProvider

from burnish.models.endpoints import Endpoint, build_model, http_client
from burnish.models.model_families import Family, UnknownSchema, family_of, written_schema
from burnish.models.providers import BUILT_IN, Provider
from burnish.models.references import ModelRef

pytestmark = pytest.mark.slow

CLIENT = http_client(Endpoint(address="http://localhost", key="k"))
SPEAKERS = [row for row in BUILT_IN if row.protocol in ("openai", "azure")]
LENGTHS: Any = OpenAIProvider.model_profile("gpt-4o")
TRANSFORMERS: dict[str, Any] = {
    "strict": OpenAIJsonSchemaTransformer,
    "strict with lengths": LENGTHS["json_schema_transformer"],
    "without strict": OpenAIJsonSchemaTransformer,
    "inlined": InlineDefsJsonSchemaTransformer,
}
VENDORS = (
    "acme", "amazon", "anthropic", "bedrock", "cohere", "deepseek", "google", "groq", "meta",
    "meta-llama", "mistral", "mistralai", "moonshotai", "openai", "qwen", "Qwen", "x-ai", "zai-org",
)  # fmt: skip
STEMS = (
    "command-r", "command-reasoning", "deepseek-r1", "ft:gpt-4o", "gemma3", "glm-4.6", "glm-5.3",
    "gpt-oss:20b", "grok-4", "kimi-k2.5", "llama3.2", "magistral-small", "meta-llama-3",
    "ministral", "mistral", "o1-mini", "qwen-3-coder", "qwen3.5-9b", "qwen3:8b", "qwq",
    "zai-glm-5-3",
)  # fmt: skip


def names() -> list[str]:
    """Every name that pydantic-ai knows, and those that its rules speak of."""
    listed = get_args(getattr(KnownModelName, "__value__", KnownModelName))
    found = {each.partition(":")[2] or each for each in listed}
    ends = ("", "-mini", "-pro", "-chat-latest", "-codex", "-codex-max", "-astra", "-sol", "-terra")
    found |= {f"gpt-{number}{end}" for number in ("5", "5.1", "5.2", "5.3", "5.4", "6", "6.1")
              for end in ends}  # fmt: skip
    found |= {*STEMS, *(f"{stem}-cloud" for stem in STEMS)}
    found |= {f"{vendor}/{stem}" for vendor in VENDORS for stem in (*STEMS, "o3", "gpt-5.4")}
    return sorted(found)


def expected(row: Provider, name: str, address: str) -> dict[str, object]:
    """The same in pydantic-ai's words."""
    ref = ModelRef(provider=row.name, name=name, base_url=address)
    profile: Any = build_model(ref, Endpoint(address=address, key="k"), CLIENT).profile
    transformer = profile.get("json_schema_transformer")
    transformer = getattr(transformer, "output_object_transformer", transformer)
    strict = profile.get("openai_supports_strict_tool_definition", True)
    reasons = profile.get("openai_supports_reasoning", False)
    return {
        "enforces_schemas": profile.get("supports_json_schema_output", False),
        "has_json_mode": profile.get("supports_json_object_output", False),
        "reasons": reasons,
        "reasons_by_default": reasons and profile.get("thinking_enabled_by_default", False),
        "system_role": profile.get("openai_system_prompt_role") or "system",
        "newer_max_tokens": profile.get("openai_chat_supports_max_completion_tokens", True),
        "transformer": transformer,
        "strict": strict,
    }


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("row", SPEAKERS, ids=lambda row: row.name)
def test_families_are_those_of_pydantic_ai(
    row: Provider, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    away = "https://models.ollama.com/v1" if row.name == "ollama" else "https://else.example/v1"
    address = away if elsewhere or not row.address else row.address
    everyone = names() if row.name in ("openai", "azure", "ollama", "openrouter") else STEMS
    unknown = 0
    for name in everyone:
        family = family_of(row, name, address)
        if family is None:
            unknown += 1
            continue
        theirs = expected(row, name, address)
        if not family.enforces_schemas:  # how a schema would be written does not matter
            ours = TRANSFORMERS[family.schemas]
            theirs |= {"transformer": ours, "strict": True}
        is_stated = family.schemas in ("strict", "strict with lengths")
        ours = {
            **{key: value for key, value in vars(family).items() if key != "schemas"},
            "transformer": TRANSFORMERS[family.schemas],
            "strict": theirs["strict"] if family.schemas == "inlined" else is_stated,
        }
        if not family.enforces_schemas:
            ours["strict"] = True
        assert ours == theirs, name
    assert unknown < len(everyone) / 4


LEAVES = st.one_of(
    st.sampled_from(["string", "integer", "null"]).map(lambda kind: {"type": kind}),
    st.sampled_from(["A", "B", "C"]).map(lambda name: {"$ref": f"#/$defs/{name}"}),
    st.sampled_from(
        [
            {},
            {"enum": ["a"]},
            {"const": 1},
            {"type": ["string", "null"]},
            {"$ref": "#/properties/a"},
        ]
    ),
)
NOTES = st.dictionaries(
    st.sampled_from(
        ["title", "description", "default", "maxLength", "format", "discriminator", "uniqueItems"]
    ),
    st.sampled_from(["date", "uri", "text"]),
    max_size=2,
)


def _union(kind: str, members: list[Any]) -> dict[str, Any]:
    return {kind: members}


def _noted(node: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    return {**node, **notes}


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A schema around others."""
    properties = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    unions = st.sampled_from(["anyOf", "allOf", "oneOf"])
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": properties,
                "required": st.lists(st.sampled_from("abc"), unique=True),
                "additionalProperties": st.one_of(st.booleans(), inner),
                "patternProperties": properties,
                "propertyNames": inner,
                "anyOf": st.lists(inner, max_size=2),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={"items": st.one_of(inner, st.booleans()), "contains": inner},
        ),
        st.builds(_union, unions, st.lists(inner, min_size=1, max_size=3)),
        st.builds(_noted, inner, NOTES),
    )


NODES = st.recursive(LEAVES, nodes, max_leaves=8)


@settings(max_examples=400, deadline=None)
@given(NODES, st.fixed_dictionaries(dict.fromkeys("ABC", NODES)))
def test_schemas_are_written_as_pydantic_ai_writes_them(
    root: dict[str, Any], definitions: dict[str, Any]
) -> None:
    schema: Any = {**root, "$defs": definitions}
    before = json.dumps(schema)
    for way, transformer in TRANSFORMERS.items():
        try:
            written = written_schema(schema, Family(schemas=way))  # pyright: ignore[reportArgumentType]
        except UnknownSchema:
            continue
        theirs = transformer(deepcopy(schema), strict=None)
        result = {"schema": theirs.walk()}
        if way.startswith("strict"):
            result["strict"] = theirs.is_strict_compatible
        assert json.dumps(written) == json.dumps(result), way
    assert json.dumps(schema) == before
