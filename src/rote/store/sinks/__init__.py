"""What a tracker can write to: one file each, all behind one protocol."""

from rote.store.sinks.opening import SaveTo, Target, name_of, open_sinks, targets_of
from rote.store.sinks.several import Sinks
from rote.store.sinks.sink import Opened, Sink

__all__ = ["Opened", "SaveTo", "Sink", "Sinks", "Target", "name_of", "open_sinks", "targets_of"]
