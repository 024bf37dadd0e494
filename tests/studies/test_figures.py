"""Every study on made-up records, against plain loops."""

import json
from statistics import fmean, pstdev, stdev

import numpy as np
import polars as pl
import pytest
from scipy import stats

from rote.selection import make_candidates, select
from rote.studies import find_study, studies, write_page
from rote.studies.chart import as_svg, draw_panels
from rote.studies.checkpoints import (
    FEWEST,
    average_regions,
    find_regions,
    get_stated_mean,
    group_runs,
)
from rote.studies.figures.four_regions import find_least_spread, is_region_one_best
from rote.studies.figures.widths import read_width
from rote.studies.selector import TRUTH
from rote.studies.study import judge_claim
from rote.workloads import RunSpec
from tests.studies.records import LENGTH, RUNS, made_pool, made_table

pytestmark = pytest.mark.slow

POOL = made_pool()
TABLE = made_table(POOL)
ZETA, PLAIN = "susceptibility", "susceptibility_plain_relative"


def column(name: str) -> list[float]:
    return TABLE.frame[name].to_list()


def measured(name: str) -> dict:  # type: ignore[type-arg]
    record = find_study(name).measure([(POOL, TABLE)])
    return record["pools"][POOL.name]  # type: ignore[no-any-return]


def region_one(low: str, high: str) -> list[float]:
    """The test accuracies of Region 1."""
    lows, highs = column(low), column(high)
    return [
        truth
        for x, y, truth in zip(lows, highs, column("test_accuracy"), strict=True)
        if x <= fmean(lows) and y >= fmean(highs)
    ]


def lower_half(zeta: str) -> list[int]:
    middle = float(np.median(column(zeta)))
    return [i for i, value in enumerate(column(zeta)) if value <= middle]


def test_regions_are_those_of_the_rule() -> None:
    found = select(TABLE, rule="regions").regions
    for mine, theirs in zip(measured("regions")["ζ"], found, strict=True):
        assert mine["count"] == theirs.count
        assert mine["mean"] == pytest.approx(theirs.test_accuracy)
    inside = region_one(PLAIN, "train_accuracy")
    one = measured("real-noise")["ζ of the reference step"][0]
    assert one["count"] == len(inside)
    assert (one["mean"], one["spread"]) == pytest.approx((fmean(inside), pstdev(inside)))


def test_staged_regions_are_those_of_the_rule() -> None:
    found = select(TABLE, rule="staged").regions
    mine = measured("regions")["the rule `staged`"]
    assert [region["count"] for region in mine] == [theirs.count for theirs in found]
    assert mine[0]["mean"] == pytest.approx(found[0].test_accuracy)
    assert mine != measured("regions")["ζ"]


def test_a_region_without_checkpoints_has_no_mean() -> None:
    flat = TABLE.frame.with_columns(pl.lit(0.5).alias(ZETA), pl.lit(0.5).alias("train_accuracy"))
    candidates = make_candidates(type(TABLE)(flat, TABLE.descriptions), ZETA)
    found = average_regions(candidates, find_regions(candidates, ZETA, "train_accuracy"))
    assert [region["count"] for region in found] == [RUNS * LENGTH, 0, 0, 0]
    assert found[1]["mean"] is None
    unknown = find_regions(candidates, ZETA, "not recorded")
    assert unknown.tolist() == [0] * (RUNS * LENGTH)


def test_the_oracle_and_detectors_divide_by_what_they_know() -> None:
    found, detectors = measured("oracle-regions"), measured("detector")
    oracle = region_one("noisy_accuracy", "clean_accuracy")
    assert found["oracle"]["mean"] == detectors["detector 100 %"] == pytest.approx(fmean(oracle))
    assert found["oracle"]["shared"] == 1
    assert detectors["detector 90 %"] == pytest.approx(
        fmean(region_one("detector_90_noisy", "detector_90_clean"))
    )
    both = set(oracle) & set(region_one(ZETA, "train_accuracy"))
    assert found["ζ"]["shared"] == pytest.approx(len(both) / found["ζ"]["count"])
    assert measured("asymmetric") == found
    assert measured("low-noise")["regions"] == found


@pytest.mark.parametrize(
    ("study", "keys", "columns"),
    [
        ("tracking", ("groups", "all runs"), (ZETA, "noisy_accuracy")),
        ("tracking", ("plain",), (PLAIN, "noisy_accuracy")),
        ("low-noise", ("ζ",), (ZETA, "noisy_accuracy")),
        ("rivals", ("all runs", "gradient disparity"), ("gradient_disparity", "noisy_accuracy")),
        ("rivals", ("all runs", "loss-mixture gap (SELC)"), ("selc", "noisy_accuracy")),
        ("rivals", ("all runs", "accuracy drop (PMV)"), ("pmv", "noisy_accuracy")),
        ("steps", ("reference step", "pearson"), ("susceptibility_plain", "noisy_accuracy")),
        ("filter", ("before_pearson",), ("train_accuracy", "test_accuracy")),
        ("schedules", ("all", "ζ"), (ZETA, "noisy_accuracy")),
        ("widths", ("all", "ζ of the reference step"), (PLAIN, "noisy_accuracy")),
    ],
)
def test_correlations_are_pearsons(
    study: str, keys: tuple[str, ...], columns: tuple[str, str]
) -> None:
    found = measured(study)
    for key in keys:
        found = found[key]
    value, low, high = found
    assert value == pytest.approx(stats.pearsonr(*map(column, columns)).statistic)
    assert low < value < high


def of_runs(name: str, among: list[bool]) -> list[float]:
    return [value for value, is_in in zip(column(name), among, strict=True) if is_in]


def test_tracking_is_reported_by_group_and_within_recipes() -> None:
    first = sorted(POOL.specs)[0]
    wild = pl.when(pl.col("run") == first).then(1e20).otherwise(pl.col(ZETA)).alias(ZETA)
    table = type(TABLE)(TABLE.frame.with_columns(wild), TABLE.descriptions)
    record = find_study("tracking").measure([(POOL, table)])
    found = record["pools"][POOL.name]
    assert found["diverged"] == 1
    others = [run != first for run in TABLE.frame["run"]]
    kept = [of_runs(name, others) for name in (ZETA, "noisy_accuracy")]
    # Perceptrons have no batch norm, and the run that diverged is in the first group only.
    assert found["groups"].keys() == {"all runs", "no batch norm"}
    assert found["groups"]["no batch norm"][0] == pytest.approx(stats.pearsonr(*kept).statistic)
    assert all(point["zeta"] < 1 for point in found["points"])
    assert {point["architecture"] for point in found["points"]} == {"mlp"}
    assert len(found["recipes"]) == 2
    assert found["is_half"]
    said = find_study("tracking").finding(record)
    assert "made-0" in said
    assert "1 diverged" in said


def test_groups_of_runs_are_split_by_batch_norm() -> None:
    networks = {
        "norm": {"architecture": {"name": "mlp", "options": {"batch_norm": True}}},
        "none": {"architecture": {"name": "mlp"}},
        "conv": {"architecture": {"name": "cnn"}},
        "bare": {"architecture": {"name": "cnn", "options": {"batch_norm": False}}},
        "vgg": {"architecture": {"name": "vgg11"}},
    }
    pool = made_pool(network=networks)
    table = made_table(pool)
    groups = group_runs(pool, make_candidates(table, ZETA))
    names = np.array(table.frame["run"].to_list())
    assert set(names[groups["batch norm"]]) == {"norm", "conv", "vgg"}
    assert set(names[groups["no batch norm"]]) == {"none", "bare"}
    assert groups["all runs"].all()
    found = find_study("filter").measure([(pool, table)])["pools"][pool.name]
    inside = groups["batch norm"]
    train, test = (table.frame[name].to_numpy()[inside] for name in ("train_accuracy", TRUTH))
    before = found["groups"]["before"]["batch norm"][0]
    assert before == pytest.approx(stats.pearsonr(train, test).statistic)


def test_verdict_is_computed_from_pools() -> None:
    assert judge_claim([]) is None
    assert [judge_claim(held) for held in ([True, True], [True, False], [False])] == [
        "confirmed",
        "confirmed in part",
        "not confirmed",
    ]
    for name, study in studies().items():
        if study.paper and study.wants is not None and study.examine is None:
            record = study.measure([(POOL, TABLE)])
            if record["pools"]:
                ours, verdict = study.brief(record)  # type: ignore[misc]
                assert ours, name
                assert verdict in (None, "confirmed", "confirmed in part", "not confirmed")


def test_a_region_of_few_checkpoints_is_not_judged() -> None:
    few = {"mean": 0.9, "spread": 0.0, "count": FEWEST - 1}
    many = {"mean": 0.5, "spread": 0.1, "count": FEWEST}
    assert (get_stated_mean(few), get_stated_mean(many)) == (None, 0.5)
    assert is_region_one_best([few, many, many, many]) is None
    assert is_region_one_best([many, few, few, few]) is None
    assert is_region_one_best([many, many, few, few]) is True
    assert is_region_one_best([many, {**many, "mean": 0.6}, few, few]) is False
    assert find_least_spread([many, many, {**many, "spread": 0.05}, few]) == 3
    assert find_least_spread([few, many, many, many]) is None  # nothing is said of Region 1
    assert find_least_spread([many, few, few, few]) is None


def test_regions_are_averaged_over_compared_pools_only() -> None:
    """A mean of Region 3 over other pools than that of Region 1 would compare data sets."""
    found = measured("regions")
    many = {"mean": 0.5, "spread": 0.1, "count": FEWEST}
    full = {**found, "ζ": [many, {**many, "mean": 0.4}, {**many, "mean": 0.6}, many]}
    few = {**found, "ζ": [{**many, "count": 1}, *[{**many, "mean": 0.9}] * 3]}
    said = find_study("regions").finding({"pools": {"a": full, "b": few}})
    assert "50.0 / 40.0 / 60.0 / 50.0 % over the 1 pool" in said
    assert "ahead of Region 2 in 1 and the best region in 0 of 1" in said


def test_the_page_says_which_recipes_are_in_a_region_and_where_the_oracle_looks() -> None:
    found = measured("regions")
    assert len(found["recipes"]) == 2
    by_region = np.sum([recipe["regions"] for recipe in found["recipes"].values()], axis=0)
    assert by_region.tolist() == [region["count"] for region in found["ζ"]]
    both = set(region_one("noisy_accuracy", "clean_accuracy")) & set(
        region_one(ZETA, "train_accuracy")
    )
    assert found["oracle"]["regions"][0] == len(both)
    assert found["oracle"]["ours"] == found["ζ"][0]["count"]


@pytest.mark.parametrize(
    ("ways", "ours", "verdict"),
    [
        ({"detector 80 %": 0.5, "detector 96 %": 0.6}, "X = 80 % beats ζ (40.0 %)", 0),
        ({"detector 80 %": 0.3, "detector 96 %": 0.6}, "ζ (40.0 %) equals X = 80 %", 1),
        ({"detector 80 %": 0.3, "detector 96 %": 0.4}, "ζ (40.0 %) equals X = 96 %", 2),
    ],
)
def test_a_detector_without_a_region_says_nothing(
    ways: dict[str, float], ours: str, verdict: int
) -> None:
    """Of 50 to 70 % nothing is known, and the second pool, without ζ, is not in the means."""
    unknown = dict.fromkeys(("detector 50 %", "detector 60 %", "detector 70 %"))
    pools = {"a": {**unknown, **ways, "ζ": 0.4}, "b": {"detector 80 %": 0.9, "ζ": None}}
    study = find_study("detector")
    assert study.brief is not None
    names = ("not confirmed", "confirmed in part", "confirmed")
    assert study.brief({"pools": pools}) == (ours, names[verdict])
    said = study.finding({"pools": pools})
    assert "1 pool of 2" in said
    assert f"detector 80 % {100 * ways['detector 80 %']:.1f} %" in said


def test_figures_of_one_study_have_claims_and_forms_of_their_own() -> None:
    """A high correlation does not confirm Region 1, nor a wrong label the right one."""
    low_noise, regions = find_study("low-noise"), measured("oracle-regions")
    few = {**regions, **{way: {**regions[way], "count": 1} for way in ("oracle", "ζ")}}
    record = {"pools": {"a": {"ζ": [0.9, 0.8, 1.0], "points": [], "regions": few}}}
    tracking, chosen = (
        low_noise.get_brief("fig:cifar10less"),
        low_noise.get_brief("fig:figure1_less_cifar10"),
    )
    assert tracking is not None
    assert chosen is not None
    assert tracking(record) == ("ρ 0.90", "confirmed")
    assert chosen(record).verdict is None
    assert low_noise.get_draw("fig:cifar10less") is not low_noise.get_draw(
        "fig:figure1_less_cifar10"
    )


def test_the_papers_four_networks_have_a_table_of_their_own() -> None:
    names = ("cnn", "efficientnet_b0", "mobilenet", "resnet18", "vgg11")
    pool = made_pool(network={name: {"architecture": {"name": name}} for name in names})
    table = made_table(pool)
    found = find_study("validation-size").measure([(pool, table)])
    among = (table.frame["run"] != "vgg11").to_numpy()
    size, test = (table.frame[n].to_numpy()[among] for n in ("noisy_validation_10", TRUTH))
    four = found["pools"][pool.name]["the paper's four networks"]
    assert four["validation, n = 10"][0] == pytest.approx(stats.kendalltau(size, test).statistic)
    assert "| size of the set | noisy validation | ζ filter |" in find_study(
        "validation-size"
    ).text(found)
    assert "the paper's four networks" not in measured("validation-size")


def test_a_signal_that_falls_with_memorization_does_not_confirm_zeta() -> None:
    found = {"all runs": {"ζ": [-0.9], "loss-mixture gap (SELC)": [0.1]}, "points": {}}
    brief = find_study("rivals").brief
    assert brief is not None
    assert brief({"pools": {"a": found}}).verdict == "not confirmed"
    # In the paper, the loss mixture falls with memorization.
    for selc, verdict in ((-0.4, "confirmed"), (0.4, "confirmed in part")):
        found["all runs"] = {"ζ": [0.9], "loss-mixture gap (SELC)": [selc]}
        assert brief({"pools": {"a": found}}).verdict == verdict


def test_the_size_of_the_probe_set_may_matter_if_it_is_very_small() -> None:
    brief = find_study("probe-set").brief
    assert brief is not None

    def judge(tiny: float, large: float) -> str | None:
        sizes = {"10": tiny, "128": 0.9, "2000": large}
        rows = {size: {"pearson": [rho], "spread": 0.1} for size, rho in sizes.items()}
        return brief({"pools": {"a": {"holdout": rows}}}).verdict

    assert judge(0.2, 0.9) == "confirmed"
    assert judge(0.9, 0.2) == "confirmed in part"


def test_the_best_checkpoint_survives_the_filter_or_not() -> None:
    found = measured("regions")["best"]
    best = int(np.argmax(column(TRUTH)))
    assert found["survives"] == (best in lower_half(ZETA))
    is_low = column(ZETA)[best] <= fmean(column(ZETA))
    is_high = column("train_accuracy")[best] >= fmean(column("train_accuracy"))
    assert found["region"] == 1 + (not is_low) + 2 * (not is_high)


def test_a_page_explains_the_numbers_of_the_small_preset_only() -> None:
    study = find_study("regions")
    record = study.measure([(POOL, TABLE)])
    assert "**Why.**" in write_page(study, record, "small")
    assert "**Why.**" not in write_page(study, record, "tiny")


def test_panels_stand_in_the_order_of_their_rows() -> None:
    rows = [{"pool": name, "x": 1, "y": 2} for name in ("b", "c", "a")]
    chart = draw_panels(rows, "circle", "x:Q", "y:Q", titles=("x", "y")).to_dict()
    assert chart["facet"]["sort"] == ["b", "c", "a"]


def test_titles_wider_than_a_panel_have_two_lines() -> None:
    rows = [{"pool": f"{name} (6 of 12 runs)", "x": 1.0, "y": 2.0} for name in ("mnist", "b", "c")]
    titles = ("points of test accuracy gained", "y")
    svg = as_svg(draw_panels(rows, "circle", "x:Q", "y:Q", titles=titles)).decode()
    lines = [">mnist<", ">(6 of 12 runs)<", ">points of test accuracy<", ">gained<"]
    assert [line for line in lines if line not in svg] == []


def test_the_filter_keeps_the_lower_half() -> None:
    for way, zeta in (("after", ZETA), ("plain", PLAIN)):
        train, test = (
            [column(name)[i] for i in lower_half(zeta)]
            for name in ("train_accuracy", "test_accuracy")
        )
        found = measured("filter")
        assert found[f"{way}_pearson"][0] == pytest.approx(stats.pearsonr(train, test).statistic)
        assert found[f"{way}_kendall"][0] == pytest.approx(stats.kendalltau(train, test).statistic)


@pytest.mark.parametrize(("after", "verdict"), [(0.6, "confirmed"), (0.31, "not confirmed")])
def test_the_filter_is_confirmed_by_a_clear_rise_only(after: float, verdict: str) -> None:
    record = {"pools": {"a": {"before_pearson": [0.3], "after_pearson": [after]}}}
    brief = find_study("filter").brief
    assert brief is not None
    assert brief(record) == (f"0.30 before, {after:.2f} after", verdict)


def test_validation_sizes_and_noise_map_use_kendalls_tau() -> None:
    sizes, lead = measured("validation-size"), measured("noise-map")
    test = column("test_accuracy")
    kept = lower_half(ZETA)
    ours = stats.kendalltau(
        [column("train_accuracy")[i] for i in kept], [test[i] for i in kept]
    ).statistic
    assert sizes["all runs"]["ζ filter, n = 128"][0] == pytest.approx(ours)
    assert lead["rate"] == 0.5
    for size in (10, 512):
        theirs = stats.kendalltau(column(f"noisy_validation_{size}"), test).statistic
        assert sizes["all runs"][f"validation, n = {size}"][0] == pytest.approx(theirs)
        assert lead["lead"][str(size)] == pytest.approx(ours - theirs)


def test_settings_are_distinguished_by_their_specs() -> None:
    found = measured("widths")
    assert list(found) == ["8", "16", "128", "all"]
    assert [group["runs"] for group in found.values()] == [2, 2, 2, 6]
    inside = ["cosine" in run for run in column("run")]
    pairs = [
        (x, y)
        for x, y, is_in in zip(column(ZETA), column("noisy_accuracy"), inside, strict=True)
        if is_in
    ]
    value = measured("schedules")["cosine"]["ζ"][0]
    assert value == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])


def test_the_paper_scales_two_networks() -> None:
    scaled = RunSpec.from_dict({"architecture": {"name": "mobilenet", "scale": 0.5}})
    assert read_width(scaled) == "mobilenet × 0.5"
    assert (
        read_width(RunSpec.from_dict({"architecture": {"name": "resnet18", "scale": 0.5}})) is None
    )


def test_curves_are_compared_within_a_run() -> None:
    found = measured("overlay")
    zeta, noisy = (np.array(column(n)).reshape(RUNS, LENGTH) for n in (ZETA, "noisy_accuracy"))
    within = [np.corrcoef(x, y)[0, 1] for x, y in zip(zeta, noisy, strict=True)]
    assert found["median"] == pytest.approx(np.median(within))
    assert found["positive"] == pytest.approx(np.mean([value > 0 for value in within]))
    test = np.array(column("test_accuracy")).reshape(RUNS, LENGTH)
    assert found["regret"]["last checkpoint"] == pytest.approx((test.max(1) - test[:, -1]).mean())
    lowest = test[np.arange(RUNS), zeta.argmin(1)]
    assert found["regret"]["lowest ζ"] == pytest.approx((test.max(1) - lowest).mean())
    shown = noisy[noisy.max(1).argmax()]
    scaled = (shown - shown.min()) / (shown.max() - shown.min())
    (curves,) = found["curves"]  # one for each architecture
    assert curves["accuracy on noisy labels"] == pytest.approx(scaled, abs=1e-3)


def test_thresholds_are_those_of_percentiles() -> None:
    found = measured("thresholds")
    zeta, train, test = (np.array(column(n)) for n in (ZETA, "train_accuracy", "test_accuracy"))
    for cell in found["cells"]:
        high = train >= np.percentile(train, 100 - cell["train"])  # the 100th is the minimum
        low = zeta <= np.percentile(zeta, cell["zeta"])
        assert cell["count"] == (high & low).sum()
        one, two = test[high & low], test[high & ~low]
        assert (cell["mean"] is None) == (len(one) < FEWEST)
        assert (cell["lead"] is None) == (min(len(one), len(two)) < FEWEST)
        if cell["lead"] is not None:
            assert cell["lead"] == pytest.approx(one.mean() - two.mean())
    filled = [cell["mean"] for cell in found["cells"] if cell["mean"] is not None]
    assert found["best"]["mean"] == max(filled)
    assert found["means"] == pytest.approx(fmean(region_one(ZETA, "train_accuracy")))


def test_sizes_and_seeds_of_probe_sets() -> None:
    found = find_study("probe-set").measure([(POOL, TABLE)])["pools"][POOL.name]
    assert list(found) == ["holdout"]
    assert list(found["holdout"]) == ["10", "128"]
    noisy = TABLE.frame["noisy_accuracy"].to_numpy()
    columns = {seed: TABLE.frame[f"zeta_holdout_10_{seed}"].to_numpy() for seed in range(3)}
    each = [np.corrcoef(column, noisy)[0, 1] for column in columns.values()]
    of_ten = found["holdout"]["10"]
    assert of_ten["seeds"] == 3
    assert of_ten["pearson"] == pytest.approx([fmean(each), min(each), max(each)])
    spreads = []
    for run in range(RUNS):
        ends = [float(column[(run + 1) * LENGTH - 1]) for column in columns.values()]
        spreads.append(stdev(ends) / fmean(ends))
    assert of_ten["spread"] == pytest.approx(fmean(spreads))


def test_sharp_rises_are_counted_between_readings_of_a_run() -> None:
    found = find_study("jumps").measure([(POOL, TABLE)])["pools"][POOL.name]
    columns = ("train_accuracy", "clean_accuracy", "noisy_accuracy")
    rises = []
    for run in range(RUNS):
        train, clean, noisy = (
            TABLE.frame[name].to_list()[run * LENGTH : (run + 1) * LENGTH] for name in columns
        )
        for i in range(1, LENGTH):
            rise = (train[i] - train[i - 1], clean[i] - clean[i - 1], noisy[i] - noisy[i - 1])
            rises.append((*rise, noisy[i]))
    limit = np.percentile([rise[0] for rise in rises], 95)
    sharp = [rise for rise in rises if rise[0] >= limit]
    assert found["sharp"] == len(sharp)
    assert found["right"] == pytest.approx(fmean(rise[1] > rise[2] for rise in sharp))
    jumps = found["jumps"]["cross-entropy"]
    assert len(jumps) == len(sharp)
    assert fmean(jump["cause"] == "right labels" for jump in jumps) == found["right"]
    all_rises, memorized = zip(*((rise[0], rise[3]) for rise in rises), strict=True)
    assert found["rise"][0] == pytest.approx(np.corrcoef(all_rises, memorized)[0, 1])


def test_the_stop_rule_loses_as_much_as_plain_loops() -> None:
    given = np.random.default_rng(1).random(RUNS * LENGTH)
    frame = TABLE.frame.with_columns(pl.Series("validation_accuracy", given))
    noise = {"data": {"noise": {"realized_rate": 0.4}}}
    table = type(TABLE)(frame, dict.fromkeys(TABLE.descriptions, noise))
    found = find_study("stopping").measure([(POOL, table)])["pools"][POOL.name]
    names = ("test_accuracy", "train_accuracy", "validation_accuracy", ZETA)
    lost: dict[str, list[float]] = {name: [] for name in found}
    for i in range(RUNS):
        test, train, valid, zeta = (
            frame[n].to_list()[i * LENGTH : (i + 1) * LENGTH] for n in names
        )
        keeps = {"last checkpoint": LENGTH - 1, "ζ": _lowest_high_enough(zeta, train)}
        keeps["noisy validation"] = _best_with_patience(valid, train)
        for off, name in ((0, ""), (0.1, " 0.1 too high"), (-0.1, " 0.1 too low")):
            reached = (j for j, share in enumerate(train) if share >= 0.6 - off)
            keeps[f"noise_rate{name}"] = next(reached, LENGTH - 1)
        for name, keep in keeps.items():
            lost[name].append(max(test) - test[keep])
    for name, points in lost.items():
        assert found[name]["regret"] == pytest.approx(fmean(points)), name
        assert found[name]["error"] == pytest.approx(stdev(points) / RUNS**0.5), name


def _lowest_high_enough(zeta: list[float], train: list[float]) -> int:
    """The lowest ζ so far of trained readings from the fifth on, until five were above it."""
    keep, waited = None, 0
    for i in range(4, LENGTH):
        if train[i] < 0.5:
            continue
        if keep is None or zeta[i] < zeta[keep]:
            keep, waited = i, 0
        elif zeta[i] > zeta[keep]:
            waited += 1
        if waited == 5:
            break
    return LENGTH - 1 if keep is None else keep


def _best_with_patience(valid: list[float], train: list[float]) -> int:
    """The best so far, until five better trained ones were no better."""
    keep, waited = 0, 0
    for i in range(1, LENGTH):
        if valid[i] > valid[keep]:
            keep, waited = i, 0
        elif train[i] > train[keep]:
            waited += 1
        if waited >= 5 and i >= 4:
            break
    return keep


def test_selectors_without_their_column_are_left_out() -> None:
    bare = type(TABLE)(TABLE.frame.drop("noisy_accuracy", "detector_80_noisy"), TABLE.descriptions)
    for name in ("tracking", "overlay", "rivals", "steps", "detector", "widths"):
        assert find_study(name).measure([(POOL, bare)])["pools"] == {}
    assert find_study("estimated-accuracy").measure([(POOL, TABLE)])["pools"] == {}


OF_RUNS = {name for name, study in studies().items() if study.wants and not study.examine}


@pytest.mark.parametrize("name", sorted(OF_RUNS - {"estimated-accuracy"}))
def test_every_record_is_plain_data_with_text_and_figure(name: str) -> None:
    study = find_study(name)
    robust = {kind: {"objective": {"name": kind}} for kind in ("mixup", "nce-rce")}
    lists = {"objectives": {"objective": robust}}.get(name, {})
    pool = made_pool(**lists)
    record = study.measure([(pool, made_table(pool))])
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    told = write_page(study, record, "tiny")
    assert pool.name in told
    assert study.finding(record) in " ".join(told.split())
    assert "None" not in told
    assert study.draw is not None
    assert as_svg(study.draw(record)).startswith(b"<svg")
