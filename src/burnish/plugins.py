"""What plug-ins are written with: strategies, targets, metrics, file dialects and providers.

Each is one class behind one entry point, and works from files, flags, the environment, HTTP,
`--dry-run`, reports and resume without another edit:

    burnish.strategies   a StrategyPlugin: settings, roles, the search, its plan and its report
    burnish.proposers    a StrategyPlugin: what it offers to the strategy `auto`
    burnish.targets      a TargetPlugin: how a target is described and built, where its values live
    burnish.metrics      a MetricPlugin: how a metric is described in files, and made
    burnish.projects     a Dialect: which keys of a file set which fields of the description
    burnish.providers    a Provider: one row of the table of models' providers
"""

from burnish.core.content import AboveZero, AtLeastOne, NotNegative, Repeats, Share
from burnish.core.formatting import (
    Code,
    Diff,
    Facts,
    Heading,
    Listing,
    Section,
    Series,
    Table,
    Text,
)
from burnish.metrics.files import MetricBlock, MetricPlugin
from burnish.metrics.judges import MetricMaking
from burnish.metrics.turns import ComputedMetric, Exchange, TurnMetric, Verdict
from burnish.models.providers import Provider
from burnish.projects.dialects import Dialect, Document, Translation
from burnish.projects.evaluation_setup import read_metrics, read_splits, simulated_user
from burnish.runs.directory import RunRecord
from burnish.runs.homes import FileChange, FileHome, FileHomes, Homes
from burnish.runs.plugins import (
    DELEGATIONS,
    STEPS,
    Ability,
    Building,
    ResultFiles,
    RoleNeed,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
)
from burnish.runs.report_sections import plain_report
from burnish.runs.setup import (
    CandidateProposer,
    Proposed,
    ProposerEvidence,
    ProposerOffer,
    Tried,
)
from burnish.runs.spec import RunSpec, StrategySettings, TargetSpec
from burnish.system.settings import Access, Door, Settings

__all__ = [
    "DELEGATIONS",
    "STEPS",
    "Ability",
    "AboveZero",
    "Access",
    "AtLeastOne",
    "Building",
    "CandidateProposer",
    "Code",
    "ComputedMetric",
    "Dialect",
    "Diff",
    "Document",
    "Door",
    "Exchange",
    "Facts",
    "FileChange",
    "FileHome",
    "FileHomes",
    "Heading",
    "Homes",
    "Listing",
    "MetricBlock",
    "MetricMaking",
    "MetricPlugin",
    "NotNegative",
    "Proposed",
    "ProposerEvidence",
    "ProposerOffer",
    "Provider",
    "Repeats",
    "ResultFiles",
    "RoleNeed",
    "RunRecord",
    "RunSpec",
    "Section",
    "Series",
    "Settings",
    "Share",
    "StrategyParts",
    "StrategyPlugin",
    "StrategySettings",
    "Table",
    "TargetParts",
    "TargetPlugin",
    "TargetSpec",
    "Text",
    "Translation",
    "Tried",
    "TurnMetric",
    "Verdict",
    "plain_report",
    "read_metrics",
    "read_splits",
    "simulated_user",
]
