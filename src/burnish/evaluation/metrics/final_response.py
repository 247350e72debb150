"""The final response of a turn against several rules at once."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.json_trees import JsonRule, compare_json_texts
from burnish.evaluation.matching.match import Match, all_of
from burnish.evaluation.matching.rouge_rule import RougeMatch, RougeRule, compare_rouge
from burnish.evaluation.matching.texts import EXACT, TextRule, compare_texts
from burnish.evaluation.matching.xml_trees import XmlRule, compare_xml
from burnish.evaluation.metrics.answers import answer_json
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class FinalResponse(ComputedMetric):
    """1 where every rule that is given holds; without any, where the text is as expected."""

    name: str = "final_response_avg_score"
    text: TextRule | None = None
    json: JsonRule | None = None
    xml: XmlRule | None = None
    rouge: RougeRule | None = None

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected answer."""
        given = [rule for rule in (self.text, self.json, self.xml, self.rouge) if rule is not None]
        return any(rule.needs_reference for rule in given or [EXACT])

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Hold the reply against the rules; where one needs what is not there, say nothing."""
        if self.needs_reference and exchange.expected is None:
            return None
        rouge = self._rouge(exchange)
        match = all_of([*self._matches(exchange), *([rouge.match] if rouge else [])])
        numbers = {self.rouge.kind: rouge.value} if self.rouge and rouge else {}
        return Verdict.of(held=match.held, reason=match.reason, **numbers)

    def _matches(self, exchange: Exchange) -> list[Match]:
        expected, reply = exchange.expected, exchange.reply
        ruled = (self.text, self.json, self.xml, self.rouge) != (None, None, None, None)
        text = self.text if ruled else EXACT
        return [
            *([_about("text", compare_texts(expected, reply, text))] if text else []),
            *([_about("json", self._json(exchange, self.json))] if self.json else []),
            *([_about("xml", compare_xml(expected, reply, self.xml))] if self.xml else []),
        ]

    def _json(self, exchange: Exchange, rule: JsonRule) -> Match:
        return compare_json_texts(exchange.expected, answer_json(exchange), rule)

    def _rouge(self, exchange: Exchange) -> RougeMatch | None:
        if self.rouge is None or self.rouge.ignore or exchange.expected is None:
            return None
        return compare_rouge(exchange.expected, exchange.reply, self.rouge)


def _about(rule: str, match: Match) -> Match:
    return match if match.held else Match.missed(f"{rule}: {match.reason}")
