"""The callback for fastai: ζ in the Learner's table, and stopping by it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rote.extras import require
from rote.integrations.adapter import TrainerAdapter
from rote.integrations.holdout import SampleSet
from rote.integrations.training_batch import LabeledBatch
from rote.records import Reading
from rote.tracking import Tracker

try:
    from fastai.callback.core import Callback, CancelFitException
    from fastai.callback.tracker import SaveModelCallback
    from fastai.learner import ValueMetric
    from fastai.optimizer import OptimWrapper
except ImportError:
    require("fastai", extra="fastai")
    raise

_COLUMNS = ("susceptibility", "susceptibility_plain")


class SusceptibilityCallback(Callback):
    """Probe ``learn.model`` after the training part of every epoch, or every n batches.

    ``susceptibility`` (ζ) and ``susceptibility_plain`` are columns of the Learner's table, and can
    be monitored by fastai's own trackers (``EarlyStoppingCallback(monitor="susceptibility")``). The
    objective is ``learn.loss_func``, the optimizer ``learn.opt``, and ``num_classes`` is ``dls.c``
    by default. The holdout is of ``dls.valid``. The training accuracy is measured: fastai's metrics
    look at the validation set. A second ``fit`` continues the readings. Nothing is probed in
    ``lr_find`` and ``get_preds``.

    Args:
        options: The options of ``TrainerAdapter``.

    Attributes:
        rote: The adapter, which has ``tracker``, ``stop``, ``keep`` and ``verdict``.
    """

    order = 49  # before the Recorder, which reads the names of the metrics

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rote = _LearnerAdapter(**options)
        self._columns: list[Any] = []

    @property
    def tracker(self) -> Tracker | None:
        """The tracker of the current or last training."""
        return self.rote.tracker

    @property
    def keep(self) -> int | None:
        """The ``step`` of the reading whose checkpoint to keep, according to ``stop``."""
        return self.rote.keep

    def before_fit(self) -> None:
        self.run = not hasattr(self.learn, "lr_finder") and not hasattr(self, "gather_preds")
        if not self.run:
            return
        self.rote.start(self.learn)
        self._columns = [ValueMetric(self.rote.read_newest(name), name) for name in _COLUMNS]
        self.learn.metrics = self.learn.metrics + self._columns

    def before_epoch(self) -> None:
        if self.rote.stop is not None and self.rote.stop.stopped:
            raise CancelFitException  # only now, so that the epoch before is in the table

    def before_batch(self) -> None:
        if self.training:
            self.rote.listen()

    def after_batch(self) -> None:
        if self.training:
            self.rote.end_batch(self.learn)

    def after_train(self) -> None:
        self.rote.end_epoch(self.learn)

    def after_fit(self) -> None:
        self.learn.metrics = [m for m in self.learn.metrics if m not in self._columns]
        self.rote.finish()


class _LearnerAdapter(TrainerAdapter):
    """The adapter, separate from the callback, whose attributes fastai uses differently."""

    resume_option = "a second fit of the same Learner"
    _batches, _epochs = 0, 0
    _valid: Any = None
    _saver: Any = None

    def start(self, learn: Any) -> None:
        saved = self.get_earlier_state(learn.model)
        self.loader, self._valid = learn.dls.train, learn.dls.valid
        savers = [saver for saver in learn.cbs if isinstance(saver, SaveModelCallback)]
        folder = learn.path / learn.model_dir
        self._saver = next(((folder, s.fname) for s in savers if s.every_epoch), None)
        self._batches, self._epochs = (self._batches, self._epochs) if saved else (0, 0)
        optimizer = learn.opt.opt if isinstance(learn.opt, OptimWrapper) else learn.opt
        self.begin_tracking(
            learn.model,
            optimizer,
            saved,
            num_classes=self.num_classes or getattr(learn.dls, "c", None),
            loss_fn=self.loss_fn or learn.loss_func,
        )

    def read_newest(self, name: str) -> Callable[[], float | None]:
        def value() -> float | None:
            return getattr(self.readings[-1], name) if self.readings else None

        return value

    def end_batch(self, learn: Any) -> None:
        self.show_batch((*learn.xb, *learn.yb), loss=learn.loss)
        self._batches += 1
        if self.every != "epoch" and self._batches % self.every == 0:
            self._probe()

    def end_epoch(self, learn: Any) -> None:
        self._epochs += 1
        if self.every == "epoch":
            self._probe()

    def find_checkpoints(self) -> dict[int, str]:
        saved = (
            {} if self._saver is None else {r.step: self._locate_weights(r) for r in self.readings}
        )
        there = {step: str(place) for step, place in saved.items() if place.is_file()}
        return there | super().find_checkpoints()

    def _locate_weights(self, reading: Reading) -> Path:
        """Return where ``SaveModelCallback(every_epoch=...)`` puts an epoch, counted from 0."""
        folder, name = self._saver
        return Path(folder) / f"{name}_{int(reading.metrics['epoch']) - 1}.pth"

    def finish(self) -> None:
        self.close()
        self._valid = None
        self.conclude()

    def _probe(self) -> None:
        reading = self.take_reading({}, epoch=self._epochs, global_step=self._batches)
        self.should_stop(reading)

    def training_set(self) -> SampleSet:
        return _sample_set(self.loader)

    def validation_set(self) -> SampleSet | None:
        is_empty = self._valid is None or not len(getattr(self._valid, "dataset", ()))
        return None if is_empty else _sample_set(self._valid)

    def batch_size(self) -> int | None:
        return getattr(self.loader, "bs", None)

    def split_batch(self, batch: Any) -> LabeledBatch:
        count = self.loader.n_inp if hasattr(self.loader, "n_inp") else len(batch) - 1
        inputs = batch[0] if count == 1 else tuple(batch[:count])
        given = batch[count] if len(batch) == count + 1 else None
        return LabeledBatch(inputs, given)


def _sample_set(loader: Any) -> SampleSet:
    return SampleSet(_Items(loader), lambda items: loader.after_batch(loader.do_batch(items)))


class _Items:
    """The samples of a fastai loader, before they are collated."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader.dataset)

    def __getitem__(self, index: int) -> Any:
        return self._loader.do_item(index)
