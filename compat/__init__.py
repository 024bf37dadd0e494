"""Other people's architectures and optimizers under the probe; ``python -m compat`` runs them."""
