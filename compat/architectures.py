"""Which architectures are tried: at least one of every family, the small ones of each."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from compat.check import Item, Subject
from compat.graphs import LAYERS, graph_network
from compat.plain_networks import NETWORKS, plain_network
from compat.tiny_transformers import TASKS, kinds, tiny

CLASSES = 4
BATCH = 2
SIDE = 64
"""Of images, where a network takes such small ones."""

TORCHVISION = (
    "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 "
    "maxvit_t mnasnet0_5 mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small "
    "regnet_x_400mf regnet_y_400mf resnet18 resnet34 resnet50 resnext50_32x4d shufflenet_v2_x0_5 "
    "shufflenet_v2_x1_0 squeezenet1_0 squeezenet1_1 swin_t swin_v2_t vgg11_bn vit_b_32 "
    "lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large fcn_resnet50 r3d_18 mc3_18 "
    "r2plus1d_18 s3d"
)
PYTORCHCV = (
    "resnet20_cifar10 preresnet20_cifar10 seresnet20_cifar10 sepreresnet20_cifar10 "
    "diaresnet20_cifar10 diapreresnet20_cifar10 resnext20_16x4d_cifar10 densenet40_k12_cifar10 "
    "densenet40_k12_bc_cifar10 nin_cifar10 rir_cifar10 ror3_56_cifar10 shakedropresnet20_cifar10 "
    "shakeshakeresnet20_2x16d_cifar10 resdropresnet20_cifar10 fractalnet_cifar10 msdnet22_cifar10 "
    "pyramidnet110_a48_cifar10 wrn16_10_cifar10 xdensenet40_2_k24_bc_cifar10 revnet38 "
    "airnet50_1x64d_r16 bagnet9 bam_resnet18 bninception cbam_resnet18 channelnet "
    "condensenet74_c8_g8 darknet_tiny darknet_ref dicenet_wd5 diracnet18v2 dla46c dla46xc drnd22 "
    "espnetv2_wd2 fbnet_cb fdmobilenet_wd4 ghostnet hardnet39ds ibn_resnet50 igcv3_wd4 "
    "isqrtcovresnet18 menet108_8x1_g3 mixnet_s mnasnet_small mobilenet_wd4 mobilenetb_wd4 "
    "mobilenetv2_wd4 mobilenetv3_small_w7d20 octresnet10_ad2 peleenet preresnet10 "
    "proxylessnas_cpu regnetx002 regnety002 resattnet56 resnesta18 resneta10 sepreresnet10 "
    "seresnet10 sharesnet18 shufflenet_g1_wd4 shufflenetv2_wd2 shufflenetv2b_wd2 sknet50 "
    "sparsenet121 spnasnet squeezenet_v1_1 squeezeresnet_v1_1 vovnet27s zfnet selecsls42 scnet50"
)
SEGMENTATION = (
    "Unet UnetPlusPlus MAnet Linknet FPN PSPNet PAN DeepLabV3 DeepLabV3Plus UPerNet Segformer"
)
TIMM = (
    "test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet "
    "test_efficientnet_gn test_efficientnet_ln test_mambaout test_nfnet test_vit test_vit2 "
    "test_vit3 test_vit4 lcnet_035 lcnet_050 mobilenetv3_small_050 tinynet_e semnasnet_050 "
    "mobilenetv2_035 mnasnet_050 starnet_s050 repghostnet_050 ghostnet_050 ghostnetv3_050 "
    "edgenext_xx_small mobilevit_xxs mobilevitv2_050 regnetx_002 regnety_002 dla46_c dla46x_c "
    "dla60x_c efficientvit_m0 efficientvit_m1 efficientvit_b0 fasternet_t0 xcit_nano_12_p16_224 "
    "efficientformerv2_s0 cait_xxs24_224 coat_lite_tiny crossvit_9_240 convit_tiny "
    "deit_tiny_patch16_224 deit_tiny_distilled_patch16_224 vit_tiny_patch16_dinov3_qkvb "
    "eva02_tiny_patch14_224 fastvit_t8 hardcorenas_a halonet_h1 eca_botnext26ts_256 mobileone_s0 "
    "cpubone_nano csatv2 cs3darknet_focus_s densenet121 efficientformer_l1 efficientvim_m1 "
    "hgnetv2_b0 hrnet_w18_small iformer_t inception_next_atto lcnetv2_small levit_128s "
    "levit_conv_128s lowformer_b0 mambaout_femto poolformer_s12 poolformerv2_s12 caformer_s18 "
    "convformer_s18 gmlp_ti16_224 resmlp_12_224 mixer_s32_224 gmixer_12_224 fbnetv3_b pit_ti_224 "
    "pit_ti_distilled_224 pvt_v2_b0 repvit_m0_9 resnest14d resnet10t resnet14t resnet18 "
    "seresnet18 ecaresnet26t resnetv2_18 resnetblur18 rexnet_100 rexnetr_100 selecsls42b "
    "legacy_seresnet18 shvit_s1 skresnet18 starnet_s1 swiftformer_xs tiny_vit_5m_224 "
    "visformer_tiny vit_tiny_r_s16_p8_224 vit_tiny_patch16_224 ese_vovnet19b_slim_dw "
    "ese_vovnet19b_slim mixnet_s efficientnet_lite0 spnasnet_100 tf_efficientnetv2_b0 gernet_s "
    "repvgg_a0 lambda_resnet26t lamhalobotnet50ts_256 sehalonet33ts nf_regnet_b0 nf_resnet26 "
    "nfnet_l0 coatnet_nano_rw_224 maxvit_rmlp_pico_rw_256 coat_tiny gcvit_xxtiny "
    "focalnet_tiny_srf hiera_tiny_224 mvitv2_tiny nest_tiny sequencer2d_s "
    "swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 tnt_s_patch16_224 "
    "twins_svt_small twins_pcpvt_small vit_relpos_small_patch16_224 vit_srelpos_small_patch16_224 "
    "vitamin_small_224 volo_d1_224 davit_tiny dpn48b res2net50_48w_2s rdnet_tiny convmixer_768_32 "
    "inception_v3 xception41 legacy_xception nextvit_small flexivit_small tresnet_m inception_v4 "
)


def items() -> Iterator[Item]:
    """All of them, those that train fastest first within a library."""
    yield from _of("torch.nn", list(NETWORKS), plain_network)
    if find_spec("torch_geometric"):
        yield from _of("torch_geometric", list(LAYERS), graph_network)
    if find_spec("transformers"):
        yield from _of_transformers()
    if find_spec("pytorchcv"):
        yield from _of("pytorchcv", PYTORCHCV.split(), _of_pytorchcv)
    if find_spec("timm"):
        yield from _of("timm", TIMM.split(), _of_timm)
    if find_spec("torchvision"):
        yield from _of("torchvision", TORCHVISION.split(), _of_torchvision)
    if find_spec("segmentation_models_pytorch"):
        yield from _of("segmentation_models_pytorch", SEGMENTATION.split(), _of_segmentation)


def _of_transformers() -> Iterator[Item]:
    """Each kind of model once; with the head of another task its body is the same."""
    done: set[str] = set()
    for task in TASKS:
        found = [kind for kind in kinds(task) if kind not in done]
        done.update(found)
        yield from _of("transformers", found, partial(tiny, task), suffix=f" ({task})")


def _of(
    library: str, names: list[str], build: Callable[[str], Subject], suffix: str = ""
) -> Iterator[Item]:
    for name in names:
        yield Item("architecture", library, name + suffix, partial(build, name))


def _of_timm(name: str) -> Subject:
    timm = import_module("timm")
    is_fixed = timm.get_pretrained_cfg(name).fixed_input_size
    options = {"img_size": SIDE} if is_fixed else {}
    try:
        model, images = timm.create_model(name, num_classes=CLASSES, **options), _images()
        _run(model, images)
    except (TypeError, ValueError, RuntimeError, AssertionError, IndexError):
        model = timm.create_model(name, num_classes=CLASSES)
        images = torch.randn(BATCH, *model.default_cfg["input_size"])
    return _classifier(model, images)


def _of_torchvision(name: str) -> Subject:
    library = import_module("torchvision.models")
    options: dict[str, Any] = {"weights": None, "num_classes": CLASSES}
    is_map = re.match("lraspp|deeplab|fcn", name) is not None
    images = _images(BATCH, 3, SIDE, SIDE)
    if is_map:
        options |= {"weights_backbone": None}
    elif name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
        images = _images(BATCH, 3, 96, 96)
    elif name in ("maxvit_t", "vit_b_32"):
        images = _images(BATCH, 3, 224, 224)
    elif re.match("r3d|mc3|r2plus1d|s3d", name):
        images = _images(BATCH, 3, 16, SIDE, SIDE)
    subject = _classifier(library.get_model(name, **options), images)
    if is_map:
        subject.label_shape = (BATCH, SIDE, SIDE)
        subject.loss_fn = _of_map
    return subject


def _of_pytorchcv(name: str) -> Subject:
    provider = import_module("pytorchcv.model_provider")
    side = 32 if name.endswith("cifar10") else 224 if name in ("zfnet", "bninception") else SIDE
    options = {} if side == 32 else {"in_size": (side, side)}
    classes = 10 if side == 32 else CLASSES
    model = provider.get_model(name, num_classes=classes, **options)
    if name.startswith("msdnet"):
        raise ValueError("it returns one output per exit")
    subject = _classifier(model, _images(BATCH, 3, side, side))
    subject.num_classes = classes
    return subject


def _of_segmentation(name: str) -> Subject:
    library = import_module("segmentation_models_pytorch")
    model = getattr(library, name)("resnet18", encoder_weights=None, classes=CLASSES)
    subject = _classifier(model, _images())
    subject.label_shape = (BATCH, SIDE, SIDE)
    return subject


def _classifier(model: nn.Module, images: Tensor) -> Subject:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Subject(model, optimizer, images, CLASSES, (BATCH,))


def _images(*shape: int) -> Tensor:
    return torch.randn(shape or (BATCH, 3, SIDE, SIDE))


def _run(model: nn.Module, images: Tensor) -> None:
    with torch.no_grad():
        model.eval()(images)


def _of_map(output: Any, labels: Tensor) -> Tensor:
    return functional.cross_entropy(output["out"], labels)
