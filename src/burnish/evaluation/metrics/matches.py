"""One rule as a metric: a text, JSON or XML that matches."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.json_trees import EXACT as SAME_JSON
from burnish.evaluation.matching.json_trees import JsonRule, compare_json_texts
from burnish.evaluation.matching.texts import EXACT as SAME_TEXT
from burnish.evaluation.matching.texts import TextRule, compare_texts
from burnish.evaluation.matching.xml_trees import WELL_FORMED, XmlRule, compare_xml
from burnish.evaluation.metrics.answers import answer_json
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class TextMatch(ComputedMetric):
    """1 where the reply agrees with the expected text as the rule asks."""

    name: str = "text_match"
    rule: TextRule = SAME_TEXT

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; a rule that needs an expected text applies only where there is one."""
        if self.rule.needs_reference and exchange.expected is None:
            return None
        match = compare_texts(exchange.expected, exchange.reply, self.rule)
        return Verdict.of(held=match.held, reason=match.reason)


@dataclass(frozen=True, kw_only=True)
class JsonMatch(ComputedMetric):
    """1 where the answer is JSON as the rule asks."""

    name: str = "json_match"
    rule: JsonRule = SAME_JSON

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; a rule that needs an expected value applies only where there is one."""
        if self.rule.needs_reference and exchange.expected is None:
            return None
        match = compare_json_texts(exchange.expected, answer_json(exchange), self.rule)
        return Verdict.of(held=match.held, reason=match.reason)


@dataclass(frozen=True, kw_only=True)
class XmlMatch(ComputedMetric):
    """1 where the reply is XML as the rule asks."""

    name: str = "xml_match"
    rule: XmlRule = WELL_FORMED

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; a rule that needs an expected document applies only where there is one."""
        if self.rule.needs_reference and exchange.expected is None:
            return None
        match = compare_xml(exchange.expected, exchange.reply, self.rule)
        return Verdict.of(held=match.held, reason=match.reason)
