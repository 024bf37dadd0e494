"""Translations into other people's frameworks: one file each, and nothing of our own in them."""
