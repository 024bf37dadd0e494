"""A check whether a model and its optimizer can be probed, by probing them once."""

from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from rote.errors import RoteError
from rote.probe import Inputs, ProbePolicy
from rote.records import Reading
from rote.tracking.make_tracker import track


@dataclass(frozen=True)
class Examination:
    """The result of a check.

    Attributes:
        reading: the reading of one probe; None if the model cannot be probed.
        obstacle: why the model cannot be probed; None if it can.
        remarks: notes on probing this model.
    """

    reading: Reading | None
    obstacle: str | None
    remarks: tuple[str, ...]


def examine(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    inputs: Inputs,
    num_classes: int,
) -> Examination:
    """Probe once and prove by checksum that nothing changed."""
    try:
        tracker = track(
            model,
            optimizer,
            inputs=inputs,
            num_classes=num_classes,
            policy=ProbePolicy(verify=True),
        )
        reading = tracker.probe()
    except RoteError as error:
        return Examination(None, str(error), ())
    except Exception as error:  # noqa: BLE001  # any error of a user's model is the finding
        return Examination(None, f"The model raised {type(error).__name__}: {error}", ())
    return Examination(reading, None, _list_remarks(model, optimizer))


def _list_remarks(model: nn.Module, optimizer: Optimizer) -> tuple[str, ...]:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    outside = sum(p.requires_grad and id(p) not in held for p in model.parameters())
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    silenced = getattr(optimizer, "_optimizer_step_pre_hooks", None) or getattr(
        optimizer, "_optimizer_step_post_hooks", None
    )
    remarks = {
        "BatchNorm uses statistics of the probe batch; its running statistics are restored.": any(
            isinstance(module, _BatchNorm) and module.training for module in model.modules()
        ),
        f"The optimizer does not hold {outside} trainable parameters; the probe leaves them "
        "unchanged.": outside > 0,
        "Forward hooks also run during the probe; files that they write are not undone.": hooked,
        "Hooks of the optimizer do not run during the probe.": silenced,
    }
    return tuple(remark for remark, applies in remarks.items() if applies)
