"""One spelling for one value, keys made of it, and streams of randomness that stay put."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Outcome
from burnish.core.content import (
    DigestSet,
    Json,
    canonical,
    codec,
    computed_once,
    digest,
    is_deeper,
    of_canonical,
    short_id,
    stream,
)
from burnish.core.errors import NotJournalable
from burnish.core.money import NOTHING
from burnish.core.protocols import Call

_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('abc_\n"é'), inner),
)


def key(request: Json = None, *, kind: str = "agent", draw: int = 0) -> str:
    return Call(kind=kind, request=request, codec=codec(str), draw=draw).key


@given(_VALUES, st.integers(0, 4))
@settings(deadline=None)
def test_how_deep_a_value_is(value: Json, levels: int) -> None:
    def depth(part: Json) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return isinstance(part, (dict, list)) + max(map(depth, inner), default=0)

    assert is_deeper(value, levels) == (depth(value) > levels)


def test_computed_once() -> None:
    class Counting:
        calls = 0

        @computed_once
        def number(self) -> int:
            """How often it was computed."""
            self.calls += 1
            return self.calls

    one, another = Counting(), Counting()
    assert (one.number, one.number, another.number, one.calls) == (1, 1, 1, 1)


class TestCanonical:
    def test_keys_are_sorted_and_text_is_utf8(self) -> None:
        assert canonical({"b": [1, 1.5, None, True], "a": "ü☂"}) == (
            '{"a":"ü☂","b":[1,1.5,null,true]}'.encode()
        )

    @pytest.mark.parametrize(
        "value",
        [
            float("nan"),
            float("inf"),
            -float("inf"),
            "\ud800",
            {"a": [float("nan")]},
            {"\udfff": 1},
            ["ok", {"deep": "\ud83d"}],
        ],
    )
    def test_what_has_no_spelling_is_refused(self, value: Json) -> None:
        with pytest.raises(NotJournalable) as refused:
            canonical(value)
        assert "surrogate" in refused.value.remedy

    def test_a_whole_surrogate_pair_is_text(self) -> None:
        assert canonical("\N{GRINNING FACE}") == '"😀"'.encode()

    @given(_VALUES)
    @settings(max_examples=300, deadline=None)
    def test_it_is_read_as_any_json_text_is(self, value: Json) -> None:
        spelled = canonical(value)
        assert repr(of_canonical(spelled)) == repr(json.loads(spelled))

    @given(_VALUES)
    @settings(max_examples=300, deadline=None)
    def test_it_is_spelled_as_python_spells_it(self, value: Json) -> None:
        """Keys are hashes of it: another spelling would lose every journal."""
        spelled = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert canonical(value) == spelled.encode()

    def test_what_is_nested_deeply_is_read_too(self) -> None:
        value: Json = 1
        for _ in range(220):
            value = [value]
        assert of_canonical(canonical(value)) == value

    def test_what_is_damaged_is_refused(self) -> None:
        with pytest.raises(ValueError, match="Expecting"):
            of_canonical(b'{"a":')

    def test_digests(self) -> None:
        assert short_id([1]) == digest([1])[:16]
        assert digest([1]) != digest([1.5]) != digest(["1"])


class TestKeys:
    def test_the_same_content_has_the_same_key(self) -> None:
        assert key({"a": 1, "b": [2]}) == key({"b": [2], "a": 1})

    def test_kind_request_and_draw_make_the_key(self) -> None:
        keys = [key({"a": 1}), key({"a": 2}), key({"a": 1}, draw=1), key({"a": 1}, kind="judge")]
        assert len(set(keys)) == 4

    def test_the_estimate_does_not(self) -> None:
        free = Call(kind="agent", request={"a": 1}, codec=codec(str), estimate=NOTHING)
        assert free.key == key({"a": 1})
        assert not free.paid
        assert Call(kind="agent", request=None, codec=codec(str)).paid

    def test_the_order_of_a_list_does(self) -> None:
        assert key([1, 2]) != key([2, 1])

    def test_one_is_pinned(self) -> None:
        """Journals of users hold these: they change only with KEY_SCHEMA."""
        assert key({"a": [1]}) == (
            "80a93bffb9c8f227095f4909673c02223fbf6115d21561c05deb92ae41a914dd"
        )


class TestStreams:
    def test_a_value_is_pinned(self) -> None:
        assert stream(7, "minibatch", 3).random() == 0.9569537629435441

    def test_the_same_names_give_the_same_stream(self) -> None:
        assert stream(1, "a", 2).random() == stream(1, "a", 2).random()

    def test_one_stream_does_not_disturb_another(self) -> None:
        alone = [stream(1, "a").random() for _ in range(2)]
        mine, other = stream(1, "a"), stream(1, "b")
        mixed = [mine.random()]
        other.random()
        assert mixed[0] == alone[0]
        assert mine.random() != alone[1]

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.integers(0, 99)),
            min_size=2,
            max_size=2,
            unique=True,
        )
    )
    def test_other_names_or_seeds_give_another(self, pair: list[tuple[int, str, int]]) -> None:
        first, second = (stream(*names).getrandbits(64) for names in pair)
        assert first != second


_DIGESTS = st.integers(0, 40).map(lambda number: bytes.fromhex(digest(number)))


@given(st.lists(_DIGESTS), st.lists(st.tuples(st.booleans(), _DIGESTS)), st.integers(1, 5))
@settings(deadline=None)
def test_a_set_of_digests_is_a_set(
    first: list[bytes], changes: list[tuple[bool, bytes]], late: int
) -> None:
    class Small(DigestSet):
        _LATE = late

    compact, plain = Small(first), set(first)
    for added, each in changes:
        if added:
            assert compact.add(each) == (each not in plain)
            plain.add(each)
        else:
            compact.discard(each)
            plain.discard(each)
        assert len(compact) == len(plain)
    every = [bytes.fromhex(digest(number)) for number in range(42)]
    assert [each in compact for each in every] == [each in plain for each in every]


class TestReading:
    @given(_VALUES, st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)))
    @settings(deadline=None)
    def test_what_is_read_is_what_was_decoded(self, data: Json, measures: dict[str, float]) -> None:
        outcome = Outcome(replies=("ä", ""), data=data, measures=measures, seconds=0.1)
        outcomes = codec(Outcome)
        spelled = canonical(outcomes.encode(outcome))
        assert outcomes.read(spelled) == outcomes.decode(of_canonical(spelled)) == outcome

    def test_deep_values_are_read(self) -> None:
        data: Json = "deep"
        for _ in range(220):
            data = [data]
        assert codec(Outcome).read(canonical({"data": data})).data == data

    def test_what_is_no_such_value_is_refused(self) -> None:
        for spelled in (b'{"replies": 5}', b"{", b""):
            with pytest.raises(ValueError, match=r"."):
                codec(Outcome).read(spelled)
