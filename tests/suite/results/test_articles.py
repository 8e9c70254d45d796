"""Figures that articles print, compared with each other and with figures that the suite computes.

These tests need no GPU.
"""

import pytest

from suite.results.predict.fits import fit_steps
from suite.results.published_results import ARTICLE, csv_rows
from suite.results.scores import find_published
from suite.results.views.tables_view import printed_speedups
from tests.suite.results.rows import pairs

ARTICLES = ("Keras and TensorFlow on DGX-1", "GTX 1080", "DGX-1 with NVLink")
KERAS, FOUR_GPUS, NVLINK = (f"article: {name}" for name in ARTICLES)
CIFAR = "LittleCNN (CIFAR-10, 32x32)"
MULTIPLY_ADDS = {"vgg11": 7.609e9, "vgg16": 15.470e9, "vgg19": 19.632e9}
"""Multiply-adds of a forward pass over one image of 224 × 224 pixels.

They are counted from the layers (Simonyan and Zisserman 2014, table 1).
"""


def printed(source, **wanted):
    """Return the only figure of an article whose row contains the given values.

    Figures that the authors quote from elsewhere are ignored.
    """
    found = [
        float(row["value"])
        for row in csv_rows("throughput*.csv", ("source", "kind", "value"))
        if row["source"] == source
        and all(row[name] == text for name, text in wanted.items())
        and row["kind"] != "quoted from elsewhere"
    ]
    assert len(found) == 1, (wanted, found)
    return found[0]


def rate(model, batch):
    return printed(KERAS, model=model, batch=str(batch), metric="training throughput")


def test_two_batches_of_littlecnn_predict_its_remaining_batches():
    """Compare a fit to batches 16 and 1,024 with more figures that the article prints.

    The article prints a speedup of 2.8 from batch 16 to 64 and a constant rate above batch 1,024.
    The fit yields 3.07, and 27,700 samples/s at batch 2,048.
    """
    fit = fit_steps([(batch, batch / rate(CIFAR, batch)) for batch in (16, 1024)])
    gain = fit.rate(64) / fit.rate(16)
    assert gain == pytest.approx(3.07, abs=0.005)
    assert gain == pytest.approx(
        printed(KERAS, model=CIFAR, batch="64 vs 16", metric="training speedup"), rel=0.1
    )
    assert fit.rate(2048) == pytest.approx(27_700, rel=0.003)
    assert (fit.t0_error, fit.largest_deviation) == (None, pytest.approx(0, abs=1e-12))


def test_the_vgg_that_the_article_timed_is_vgg11():
    """Compare the operations per second that each VGG would need with the GPU's peak rate.

    A GTX 1080 computes 8.2 (base clock) to 8.9 TFLOP/s (boost clock). VGG-11 needs less, VGG-16
    and VGG-19 need far more.
    """
    step = printed(FOUR_GPUS, batch="64", metric="forward + backward time per minibatch")
    # The backward pass takes twice the operations of the forward pass.
    per_second = [
        3 * 2 * 64 * multiply_adds / (step / 1e3) for multiply_adds in MULTIPLY_ADDS.values()
    ]
    assert [rate_needed / 1e12 for rate_needed in per_second] == pytest.approx(
        [6.95, 14.1, 17.9], abs=0.05
    )


def exposed(gain, ratio):
    """Return the percentage of a step that waits for the slow link and for the fast link.

    Args:
        gain: Step time over the slow link / step time over the fast link.
        ratio: Bandwidth of the fast link / bandwidth of the slow link.
    """
    slow = (1 - 1 / gain) / (1 - 1 / ratio)
    return 100 * slow, 100 * slow * gain / ratio


def test_gains_of_nvlink_yield_the_share_of_communication_in_a_step():
    """Communication takes 14 to 66 % of a step over PCIe and 1.2 to 12.8 % over NVLink.

    NVLink has 13 times the bandwidth, so no gain above 13 is possible.
    """
    fast = printed(NVLINK, system="DGX-1 V100 with NVLink", metric="collective bandwidth")
    slow = printed(NVLINK, system="previous hardware with PCIe", metric="collective bandwidth")
    names = ("Inception-V3", "NMT with MLP attention (embedding 512)")
    gains = [1 + printed(NVLINK, model=name, metric="performance benefit") / 100 for name in names]
    names = ("Seq2Seq RNN (embedding 512)", "NMT with MLP attention (embedding 2048)")
    gains += [printed(NVLINK, model=name, metric="training speedup") for name in names]
    assert (fast / slow, gains) == (13, [1.15, 1.30, 1.5, 2.54])
    shares = [exposed(gain, fast / slow) for gain in gains]
    assert [round(over_pcie) for over_pcie, _ in shares] == [14, 25, 36, 66]
    assert [over_nvlink for _, over_nvlink in shares] == pytest.approx(
        [1.2, 2.5, 4.2, 12.8], abs=0.06
    )
    assert exposed(13, 13)[0] == pytest.approx(100)


def article_pairs():
    return {
        (pair.before.workload, pair.before.devices, pair.after.devices): pair
        for pair in pairs(find_published(ARTICLE))
    }


def test_table_7_of_the_article_follows_from_its_tables_1_to_6():
    found = article_pairs()
    both = {key: (value, found[key].total) for key, value in printed_speedups().items()}
    wrong = {
        key: (value, total)
        for key, (value, total) in both.items()
        if abs(total / value - 1) > 0.003
    }
    assert len(both) == 12
    assert wrong == {("resnet50", 1, 4): (4.76, pytest.approx(4.68, abs=0.005))}


@pytest.mark.parametrize(
    ("key", "scaling", "throughput", "efficiency"),
    [
        (("resnet50", 1, 4), "mixed", 16.21 / 4.56, 83 / 63),
        (("resnet50", 4, 8), "strong", 4.56 / 2.2002, 1),
        (("maskrcnn", 1, 8), "mixed", 179.183 / 24.9895, 11 / 13),
        (("maskrcnn", 4, 8), "weak", 44.315 / 24.9895, 18 / 13),
        (("ssd", 1, 8), "weak", 4.080 / 0.5628, 1),
        (("gnmt", 1, 4), "unknown", 39.98 / 12.31, 1),
        (("gnmt", 1, 8), "mixed", 39.98 / 6.4, 5 / 3),
        (("transformer", 1, 8), "weak", 60.34 / 7.648, 2),
        (("ncf", 1, 8), "strong", 1.76 / 0.63, 1),
    ],
)
def test_factors_and_kind_of_scaling_of_the_article(key, scaling, throughput, efficiency):
    pair = article_pairs()[key]
    assert pair.scaling == scaling
    assert (pair.throughput, pair.efficiency) == (
        pytest.approx(throughput, rel=1e-8),
        pytest.approx(efficiency),
    )
    assert pair.scaling_efficiency == pytest.approx(throughput * key[1] / key[2], rel=1e-8)
    assert pair.interval is None
    assert pair.no_interval.startswith("no single runs are known on ")
