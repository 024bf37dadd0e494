"""Signals from related work, one file each: ``signals = ["label_wave"]`` names a file.

A file holds a ``rote.Signal`` that can be made without arguments, and names it ``SIGNAL``.
"""
