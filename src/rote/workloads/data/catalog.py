"""The data sets that rote knows by name, and how to get them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HubAddress:
    """The address of a data set on the Hugging Face hub.

    Attributes:
        repository: owner and name.
        image: the column of images.
        label: the column of labels.
        configuration: the name of one of several versions.
        test: the name of the test split.
    """

    repository: str
    image: str = "image"
    label: str = "label"
    configuration: str | None = None
    test: str = "test"


@dataclass(frozen=True)
class NamedSet:
    """A known data set.

    Attributes:
        name: as in a spec.
        classes: the number of classes.
        shape: the shape of one image: height, width, channels.
        samples: the published numbers of training and test samples.
        files: its possible names in the data folder, best first.
        obtain: how to get it.
        hub: where it is on the hub.
        is_truth: whether its training labels are known to be right.
        folder: whether it may be a folder of image files.
    """

    name: str
    classes: int
    shape: tuple[int, int, int]
    samples: tuple[int, int]
    files: tuple[str, ...]
    obtain: str
    hub: HubAddress | None = None
    is_truth: bool = True
    folder: bool = False


_ARRAYS = "arrays x_train, y_train, x_test, y_test"
_FOLDER = "a folder with train.txt and test.txt, lines of `path/of/image.jpg class-number`"

CATALOG: dict[str, NamedSet] = {
    entry.name: entry
    for entry in (
        NamedSet(
            "digits", 10, (8, 8, 1), (1442, 355), (), "nothing to do: it comes with scikit-learn"
        ),
        NamedSet(
            "mnist",
            10,
            (28, 28, 1),
            (60_000, 10_000),
            ("mnist.npz",),
            f"http://yann.lecun.com/exdb/mnist, as {_ARRAYS}",
            hub=HubAddress("ylecun/mnist"),
        ),
        NamedSet(
            "fashion_mnist",
            10,
            (28, 28, 1),
            (60_000, 10_000),
            ("fashion_mnist.npz",),
            f"https://github.com/zalandoresearch/fashion-mnist, as {_ARRAYS}",
            hub=HubAddress("zalando-datasets/fashion_mnist"),
        ),
        NamedSet(
            "cifar10",
            10,
            (32, 32, 3),
            (50_000, 10_000),
            ("cifar10.npz", "cifar10_20k_5k.npz"),
            f"https://www.cs.toronto.edu/~kriz/cifar.html, as {_ARRAYS}",
            hub=HubAddress("uoft-cs/cifar10", image="img"),
        ),
        NamedSet(
            "cifar100",
            100,
            (32, 32, 3),
            (50_000, 10_000),
            ("cifar100.npz",),
            f"https://www.cs.toronto.edu/~kriz/cifar.html, as {_ARRAYS} (fine labels)",
            hub=HubAddress("uoft-cs/cifar100", image="img", label="fine_label"),
        ),
        NamedSet(
            "svhn",
            10,
            (32, 32, 3),
            (73_257, 26_032),
            ("svhn.npz",),
            f"http://ufldl.stanford.edu/housenumbers (cropped digits), as {_ARRAYS}",
            hub=HubAddress("ufldl-stanford/svhn", configuration="cropped_digits"),
        ),
        NamedSet(
            "tiny_imagenet",
            200,
            (64, 64, 3),
            (100_000, 10_000),
            ("tiny_imagenet.npz",),
            f"http://cs231n.stanford.edu/tiny-imagenet-200.zip, as {_ARRAYS}, or {_FOLDER}",
            hub=HubAddress("zh-plus/tiny-imagenet", test="valid"),
            folder=True,
        ),
        NamedSet(
            "animal10n",
            10,
            (64, 64, 3),
            (50_000, 5_000),
            ("animal10n.npz",),
            f"https://dm.kaist.ac.kr/datasets/animal-10n (on request), as {_ARRAYS}, or {_FOLDER}",
            is_truth=False,
            folder=True,
        ),
        NamedSet(
            "clothing1m",
            14,
            (64, 64, 3),
            (1_000_000, 10_526),
            ("clothing1m.npz",),
            f"https://github.com/Cysu/noisy_label (on request), as {_ARRAYS}, or {_FOLDER}",
            is_truth=False,
            folder=True,
        ),
        NamedSet(
            "cifar10n",
            10,
            (32, 32, 3),
            (50_000, 10_000),
            ("cifar10n.npz", "cifar10_20k_5k.npz"),
            "the images of cifar10, and cifar10n_labels.npz with y_clean, y_aggre, y_random1, "
            "y_random2, y_random3, y_worse from https://github.com/UCSC-REAL/cifar-10-100n",
        ),
    )
}
"""By name."""
