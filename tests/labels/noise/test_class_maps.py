"""The CIFAR-100 superclasses, against the names in the data set's own description."""

from rote.labels.noise import CIFAR100_BLOCKS, CIFAR100_SUPERCLASSES

# Superclass: its five classes, as listed by Krizhevsky 2009.
NAMES = """
aquatic mammals: beaver dolphin otter seal whale
fish: aquarium_fish flatfish ray shark trout
flowers: orchid poppy rose sunflower tulip
food containers: bottle bowl can cup plate
fruit and vegetables: apple mushroom orange pear sweet_pepper
household electrical devices: clock keyboard lamp telephone television
household furniture: bed chair couch table wardrobe
insects: bee beetle butterfly caterpillar cockroach
large carnivores: bear leopard lion tiger wolf
large man-made outdoor things: bridge castle house road skyscraper
large natural outdoor scenes: cloud forest mountain plain sea
large omnivores and herbivores: camel cattle chimpanzee elephant kangaroo
medium-sized mammals: fox porcupine possum raccoon skunk
non-insect invertebrates: crab lobster snail spider worm
people: baby boy girl man woman
reptiles: crocodile dinosaur lizard snake turtle
small mammals: hamster mouse rabbit shrew squirrel
trees: maple_tree oak_tree palm_tree pine_tree willow_tree
vehicles 1: bicycle bus motorcycle pickup_truck train
vehicles 2: lawn_mower rocket streetcar tank tractor
"""


def test_superclasses_are_the_named_ones_in_alphabetical_numbering() -> None:
    groups = [line.split(": ")[1].split() for line in NAMES.strip().splitlines()]
    fine = sorted(name for group in groups for name in group)
    assert len(set(fine)) == 100
    expected = tuple(tuple(fine.index(name) for name in group) for group in groups)
    assert expected == CIFAR100_SUPERCLASSES


def test_both_kinds_of_blocks_split_all_classes_into_fives() -> None:
    for blocks in CIFAR100_BLOCKS.values():
        assert [len(block) for block in blocks] == [5] * 20
        assert sorted(label for block in blocks for label in block) == list(range(100))


def test_consecutive_blocks_are_not_superclasses() -> None:
    assert not set(CIFAR100_BLOCKS["consecutive"]) & set(CIFAR100_BLOCKS["superclass"])
