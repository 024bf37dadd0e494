"""Loggers, one file each: the file ``mlflow.py`` is what ``mlflow:EXPERIMENT`` means.

Each has an object ``LOGGER``. A file with an underscore in its name is not a logger but the format
of the one beside it.
"""
