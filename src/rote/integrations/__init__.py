"""Translations into other people's frameworks: what they share is in ``adapter``."""
