"""The parcel desk of examples/multi_node as a PromptIter engine, with eval sets in files."""

from pathlib import Path

from burnish.compat.promptiter import Engine, RunRequest
from burnish.server import engine_of

HERE = Path(__file__).parent
GRAPH = HERE.parent / "multi_node" / "graph.yaml"
APP = "desk"


def engine() -> Engine:
    """The target, its eval sets, and a model for the three stages."""
    return engine_of(GRAPH, APP, data_dir=HERE / "data")


def request() -> RunRequest:
    """What one run is asked for, in PromptIter's terms."""
    return RunRequest.from_json(
        {
            "train": [{"evalSetId": "train"}],
            "validation": [{"evalSetId": "validation"}],
            "TargetSurfaceIDs": ["desk/rewrite#instruction", "desk/compose#instruction"],
            "AcceptancePolicy": {"MinScoreGain": 0.01},
            "StopPolicy": {"MaxRoundsWithoutAcceptance": 3, "TargetScore": 1.0},
            "MaxRounds": 4,
        }
    )
