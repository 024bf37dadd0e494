"""Graph networks of torch_geometric: one layer of each kind between two linear ones."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

import rote
from compat.check import Subject

NODES = 12
WIDTH = 16
CLASSES = 4

LAYERS: dict[str, Callable[[Any], nn.Module]] = {
    name: (lambda room, name=name: getattr(room, name)(WIDTH, WIDTH))
    for name in (
        "GCNConv SAGEConv GATConv GATv2Conv TransformerConv TAGConv SGConv ARMAConv ClusterGCNConv "
        "GraphConv LEConv MFConv FeaStConv FiLMConv ResGatedGraphConv GeneralConv EGConv "
        "SuperGATConv GENConv HypergraphConv"
    ).split()
} | {
    "SSGConv": lambda room: room.SSGConv(WIDTH, WIDTH, alpha=0.1),
    "ChebConv": lambda room: room.ChebConv(WIDTH, WIDTH, K=2),
    "AGNNConv": lambda room: room.AGNNConv(),
    "LGConv": lambda room: room.LGConv(),
    "APPNP": lambda room: room.APPNP(K=3, alpha=0.1, dropout=0.3),
    "AntiSymmetricConv": lambda room: room.AntiSymmetricConv(WIDTH),
    "GatedGraphConv": lambda room: room.GatedGraphConv(WIDTH, 2),
    "GINConv": lambda room: room.GINConv(_perceptron(WIDTH), train_eps=True),
    "EdgeConv": lambda room: room.EdgeConv(_perceptron(2 * WIDTH)),
    "CGConv": lambda room: room.CGConv(WIDTH, batch_norm=True),
    "DirGNNConv": lambda room: room.DirGNNConv(room.GCNConv(WIDTH, WIDTH)),
    "GPSConv": lambda room: room.GPSConv(WIDTH, room.GCNConv(WIDTH, WIDTH), heads=2, dropout=0.1),
    "PNAConv": lambda room: room.PNAConv(
        WIDTH, WIDTH, ["mean", "max", "std"], ["identity", "amplification"], torch.ones(4).long()
    ),
    "GCNConv cached": lambda room: room.GCNConv(WIDTH, WIDTH, cached=True),
    "SGConv cached": lambda room: room.SGConv(WIDTH, WIDTH, K=2, cached=True),
    "GATConv with dropout": lambda room: room.GATConv(WIDTH, 4, heads=4, dropout=0.5),
    "GCN": lambda room: room.GCN(WIDTH, WIDTH, 2, WIDTH, norm="batch_norm", dropout=0.5),
    "GraphSAGE": lambda room: room.GraphSAGE(WIDTH, WIDTH, 2, WIDTH, norm="layer_norm"),
    "GIN": lambda room: room.GIN(WIDTH, WIDTH, 2, WIDTH, norm="graph_norm"),
    "GAT": lambda room: room.GAT(WIDTH, WIDTH, 2, WIDTH, v2=True, heads=2, jk="lstm"),
    "EdgeCNN": lambda room: room.EdgeCNN(WIDTH, WIDTH, 2, WIDTH, jk="cat"),
    "GraphUNet": lambda room: room.GraphUNet(WIDTH, WIDTH, WIDTH, depth=2),
    "LINKX": lambda room: room.LINKX(NODES, WIDTH, WIDTH, WIDTH, num_layers=2),
}


class GraphNetwork(nn.Module):
    """Node classification."""

    def __init__(self, layer: nn.Module, name: str) -> None:
        super().__init__()
        self.inside = nn.Linear(5, WIDTH)
        self.layer = layer
        self.outside = nn.Linear(WIDTH, CLASSES)
        self.name = name

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """One row of logits per node."""
        logits: Tensor = self.outside(torch.relu(self.layer(torch.relu(self.inside(x)), edges)))
        return logits


def graph_network(name: str) -> Subject:
    """Return a network around the layer of that name, and a ring with chords to train it on."""
    room = import_module("torch_geometric.nn")
    model = GraphNetwork(LAYERS[name](room), name)
    ring = torch.arange(NODES)
    edges = torch.stack([ring.repeat(2), torch.cat([(ring + 1) % NODES, (ring * 5) % NODES])])
    inputs = rote.Samples((torch.randn(NODES, 5), edges), axis=None, rows=NODES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return Subject(model, optimizer, inputs, CLASSES, (NODES,))


def _perceptron(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
