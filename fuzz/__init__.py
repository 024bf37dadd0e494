"""Attacks on rote, seeded and bounded in time; ``python -m fuzz`` runs them."""
