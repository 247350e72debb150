"""Whether every model of a graph can be asked, those that it may choose included."""

from dataclasses import replace

from burnish.core.surfaces import ChoiceSurface
from burnish.models.calling import ModelClient
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.gathering import Gathering
from burnish.targets.graph import GraphTarget


def check_reach(target: GraphTarget, models: Models, wrong: Gathering) -> None:
    """Keep what is wrong with each model, before anything is paid."""
    for name, client in target.clients.items():
        wrong.of(("nodes", name, "model"), client.check, None)
    for surface in target.surfaces:
        if isinstance(surface, ChoiceSurface):
            node = surface.id.partition("#")[0].rpartition("/")[2]
            for label in surface.choices:
                chosen = _chosen(str(label), target.clients[node], models)
                wrong.of(("optimizer", "choices", surface.id), chosen.check, None)


def _chosen(label: str, now: ModelClient, models: Models) -> ModelClient:
    """The model that a choice stands for; of the same provider, with its address and key."""
    ref = ModelRef.parse(label)
    same = ref.provider == now.ref.provider
    return models.client(replace(now.ref, name=ref.name) if same else ref)
