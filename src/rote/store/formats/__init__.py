"""How a run looks in each logger: what its sink writes and its source reads."""
