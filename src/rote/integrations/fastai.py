"""ζ in fastai: one callback that shows it in the Learner's table, and can stop by it."""

from collections.abc import Callable
from typing import Any

from rote.extras import require
from rote.integrations.adapter import Adapter
from rote.integrations.training_batch import LabeledBatch
from rote.tracking import Tracker

try:
    from fastai.callback.core import Callback, CancelFitException
    from fastai.learner import ValueMetric
    from fastai.optimizer import OptimWrapper
except ImportError:
    require("fastai", extra="fastai")
    raise

_COLUMNS = ("susceptibility", "susceptibility_plain")


class SusceptibilityCallback(Callback):
    """Probes ``learn.model`` after the training part of every epoch, or every n batches.

    ``susceptibility`` (ζ) and ``susceptibility_plain`` are columns of the Learner's table, and can
    be monitored by fastai's own trackers (``EarlyStoppingCallback(monitor="susceptibility")``). The
    objective is ``learn.loss_func``, the optimizer ``learn.opt``, and ``num_classes`` is ``dls.c``
    by default. The training accuracy is measured: fastai's metrics look at the validation set. A
    second ``fit`` goes on. Nothing is probed in ``lr_find`` and ``get_preds``.

    Args:
        options: what all callbacks take, described in ``Adapter``.

    Attributes:
        rote: the adapter, which has ``tracker``, ``stop``, ``keep`` and ``verdict``.
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
        """The ``step`` of the reading whose checkpoint is the one to keep, as ``stop`` says."""
        return self.rote.keep

    def before_fit(self) -> None:
        self.run = not hasattr(self.learn, "lr_finder") and not hasattr(self, "gather_preds")
        if not self.run:
            return
        self.rote.start(self.learn)
        self._columns = [ValueMetric(self.rote.newest(name), name) for name in _COLUMNS]
        self.learn.metrics = self.learn.metrics + self._columns

    def before_epoch(self) -> None:
        if self.rote.stop is not None and self.rote.stop.stopped:
            raise CancelFitException  # only now, so that the epoch before is in the table

    def before_batch(self) -> None:
        if self.training:
            self.rote._listen()

    def after_batch(self) -> None:
        if self.training:
            self.rote.see(self.learn)

    def after_train(self) -> None:
        self.rote.end_epoch(self.learn)

    def after_fit(self) -> None:
        self.learn.metrics = [m for m in self.learn.metrics if m not in self._columns]
        self.rote.finish()


class _LearnerAdapter(Adapter):
    """Apart from the callback, since fastai has other ideas of ``name`` and of attributes."""

    _resumed_by = "a second fit of the same Learner"
    _batches, _epochs = 0, 0

    def start(self, learn: Any) -> None:
        saved = self._state_for(learn.model)
        self._loader = learn.dls.train
        self._batches, self._epochs = (self._batches, self._epochs) if saved else (0, 0)
        optimizer = learn.opt.opt if isinstance(learn.opt, OptimWrapper) else learn.opt
        self._begin(
            learn.model,
            optimizer,
            saved,
            num_classes=self.num_classes or getattr(learn.dls, "c", None),
            loss_fn=self.loss_fn or learn.loss_func,
        )

    def newest(self, name: str) -> Callable[[], float | None]:
        def value() -> float | None:
            return getattr(self._readings()[-1], name) if self._readings() else None

        return value

    def see(self, learn: Any) -> None:
        self._watching.show((*learn.xb, *learn.yb), loss=learn.loss)
        self._batches += 1
        if self.every != "epoch" and self._batches % self.every == 0:
            self._probe()

    def end_epoch(self, learn: Any) -> None:
        self._epochs += 1
        if self.every == "epoch":
            self._probe()

    def finish(self) -> None:
        self._close()
        self._conclude()

    def _probe(self) -> None:
        self._should_stop(self._read({}, epoch=self._epochs, global_step=self._batches))

    def _training_set(self) -> tuple[Any, Callable[[list[Any]], Any]]:
        loader = self._loader
        return _Items(loader), lambda items: loader.after_batch(loader.do_batch(items))

    def _labeled(self, batch: Any) -> LabeledBatch:
        count = self._loader.n_inp if hasattr(self._loader, "n_inp") else len(batch) - 1
        inputs = batch[0] if count == 1 else tuple(batch[:count])
        given = batch[count] if len(batch) == count + 1 else None
        return LabeledBatch(inputs, given)


class _Items:
    """The samples of a fastai loader, before they are made into batches."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader.dataset)

    def __getitem__(self, index: int) -> Any:
        return self._loader.do_item(index)
