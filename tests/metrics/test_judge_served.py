"""A judge behind a real socket whose endpoint takes no schema."""

import pytest

from burnish.core.cases import Outcome
from burnish.journal.executors import together
from burnish.journal.outages import RetryPolicy
from burnish.metrics.judges import Judge, Panel
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.testing.servers import ScriptedServer, Status
from tests.metrics.judge_bench import KINDS, score

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("refused", [("json_schema",), ("json_schema", "json_object")])
async def test_many_verdicts_at_once_find_the_form_once(refused: tuple[str, ...]) -> None:
    kind = KINDS["llm_final_response"]
    fenced = f"My verdict:\n```json\n{kind.good}\n```\n"
    models = Models(retries=RetryPolicy(attempts=1))
    async with ScriptedServer(answers=[fenced], refuses=refused) as server:
        ref = ModelRef.parse("openai:judge", base_url=server.base_url)
        metric = kind.make(Panel(judges=(Judge(client=models.client(ref)),)))
        first = await score(metric)
        asked = len(server.requests)
        many = [Outcome(replies=(f"It is Paris, said {n} times.",)) for n in range(40)]
        rest = await together(score(metric, outcome=outcome) for outcome in many)
        assert asked == 1 + len(refused)
        assert len(server.requests) == asked + len(many)
        await models.close()
    assert [found.value for found in (first, *rest)] == [1.0] * 41


async def test_where_every_form_is_refused_the_score_is_missing_and_says_why() -> None:
    models = Models(retries=RetryPolicy(attempts=1))
    refusal = Status(400, message="response_format is not supported")
    async with ScriptedServer(answers=[refusal]) as server:
        ref = ModelRef.parse("openai:judge", base_url=server.base_url)
        judges = Panel(judges=(Judge(client=models.client(ref)),))
        found = await score(KINDS["llm_final_response"].make(judges))
        await models.close()
    assert found.value is None
    assert "HTTP 400: response_format is not supported" in found.reason
