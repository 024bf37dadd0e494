"""Node classification: the model takes a whole graph, and every sample is a row of its logits.

python examples/graph_nodes.py
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote

EPOCHS, STEPS, NODES, HOLDOUT, CLASSES = 20, 10, 768, 256, 4


class GraphNetwork(nn.Module):
    """Two graph convolutions (Kipf & Welling, 2017), of plain torch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Logits of all nodes."""
        hidden = torch.sparse.mm(edges, self.first(x)).relu()
        return torch.sparse.mm(edges, self.second(hidden))


def graph() -> tuple[Tensor, Tensor, Tensor]:
    """Four communities: features, normalized adjacency, classes of which half were resampled."""
    classes = torch.randint(CLASSES, (NODES,))
    likely = torch.where(classes[:, None] == classes, 0.015, 0.004)
    edges = (torch.rand(NODES, NODES) < likely).float().triu(1)
    edges = edges + edges.T + torch.eye(NODES)
    features = torch.randn(NODES, 32) + torch.randn(CLASSES, 32)[classes]
    noisy = torch.where(torch.rand(NODES) < 0.5, torch.randint(CLASSES, (NODES,)), classes)
    scale = edges.sum(1).rsqrt()
    return features, (scale[:, None] * edges * scale).to_sparse(), noisy


def train(*, probes: bool = True) -> nn.Module:
    """Train on all nodes but the first 256, whose labels nobody looks at: those are S̃."""
    torch.manual_seed(0)
    x, edges, y = graph()
    model = GraphNetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if probes:
        nodes = rote.Samples((x, edges), axis=None, rows=torch.arange(HOLDOUT))
        tracker = rote.track(model, optimizer, inputs=nodes, num_classes=CLASSES)
    for epoch in range(1, EPOCHS + 1):
        for _ in range(STEPS):
            optimizer.zero_grad()
            cross_entropy(model(x, edges)[HOLDOUT:], y[HOLDOUT:]).backward()
            optimizer.step()
        if probes and (reading := tracker.probe()) and epoch % 5 == 0:
            print(f"epoch {epoch:2}  ζ {reading.susceptibility:.4f}")
    return model


if __name__ == "__main__":
    train()
