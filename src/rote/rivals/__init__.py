"""Other people's signals, one file each: ``signals = ["label_wave"]`` is the file of that name.

A file holds a ``rote.Signal`` that can be made without arguments, and names it ``SIGNAL``.
"""
