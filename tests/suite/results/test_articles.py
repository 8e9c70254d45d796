"""What four articles print, against each other and against the suite's own counts: no GPU is needed for these.

The printed figures are those of logs/published/throughput.csv; the fifth article's are tested with its tables.
"""

import math

import pytest

from suite.results.fits import fit_steps
from suite.results.published import csv_rows
from workloads.gnmt import network as gnmt

KERAS, FOUR_GPUS, NVLINK, P100 = (
    f"article: {name}"
    for name in ("Keras and TensorFlow on DGX-1", "GTX 1080", "DGX-1 with NVLink", "Tesla P100 servers")
)
CIFAR, LITTLE, RESNET, VGG = (
    *("LittleCNN (CIFAR-10, 32x32)", "LittleCNN (synthetic 224x224)"),
    *("ResNet-50 (synthetic 224x224)", "VGG16 (synthetic 224x224)"),
)
MULTIPLY_ADDS = {"vgg11": 7.609e9, "vgg16": 15.470e9, "vgg19": 19.632e9}
"""Of a forward pass over one image of 224 pixels, counted from the layers (Simonyan and Zisserman 2014, table 1)."""


def printed(source, **wanted):
    """The one figure of an article in a row with these texts, of those that its authors measured or specify."""
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


def test_two_batches_of_littlecnn_foretell_the_others():
    """Printed: 2.8 times from 16 to 64, and level from 1,024 on. 3.07 and 27,700 come out."""
    fit = fit_steps([(batch, batch / rate(CIFAR, batch)) for batch in (16, 1024)])
    gain = fit.rate(64) / fit.rate(16)
    assert gain == pytest.approx(3.07, abs=0.005)
    assert gain == pytest.approx(printed(KERAS, model=CIFAR, batch="64 vs 16", metric="training speedup"), rel=0.1)
    assert fit.rate(2048) == pytest.approx(27_700, rel=0.003)
    assert (fit.t0_error, fit.largest_deviation) == (None, pytest.approx(0, abs=1e-12))


def test_the_constant_part_of_a_step_with_large_images():
    """1.3 times from 16 to 64 with 442 images/s at 32: t0 = 13.2 ms, 1.85 ms an image."""
    gain = printed(KERAS, model=LITTLE, batch="64 vs 16", metric="training speedup")
    of_t0 = (64 * 16 * gain - 64 * 16) / (64 - 16 * gain)  # t0 over c, from 64 (t0 + 16 c) = gain · 16 (t0 + 64 c)
    c = 32 / rate(LITTLE, 32) / (of_t0 + 32)
    fit = fit_steps([(batch, (of_t0 + batch) * c) for batch in (16, 32, 64)])
    assert fit.t0 == pytest.approx(13.2e-3, abs=5e-5)
    assert fit.c == pytest.approx(1.85e-3, abs=5e-6)
    assert fit.rate(32) == pytest.approx(442)
    assert fit.t0_error < 1e-9


@pytest.mark.parametrize(
    ("model", "speedup", "milliseconds", "megabytes"), [(RESNET, 1.29, 92, 102), (VGG, 1.74, 31, 553)]
)
def test_what_a_second_gpu_costs_a_step(model, speedup, milliseconds, megabytes):
    """The smaller gradient costs more: no bandwidth explains that, a cost for each tensor does (161 against 32)."""
    assert printed(KERAS, model=model, chips="2", metric="training speedup over 1 GPU") == speedup
    alone = 32 / rate(model, 32)
    assert 1e3 * (2 * alone / speedup - alone) == pytest.approx(milliseconds, abs=0.6)
    count = {RESNET: 25_557_032, VGG: 138_357_544}[model]
    assert 4e-6 * count == pytest.approx(megabytes, rel=0.005)


def step(batch):
    return printed(FOUR_GPUS, batch=str(batch), metric="forward + backward time per minibatch")


def test_a_batch_of_128_takes_more_than_two_of_64():
    """Printed: almost 60 ms more. It is 59.3 ms, a ratio of 1.07."""
    extra = step(128) - 2 * step(64)
    assert extra == pytest.approx(59.3, abs=0.01)
    assert extra == pytest.approx(printed(FOUR_GPUS, batch="128 vs twice 64"), abs=1)
    assert step(128) / (2 * step(64)) == pytest.approx(1.0705, abs=1e-4)


@pytest.mark.parametrize(
    ("model", "tera", "tera_per_second", "possible"),
    [("vgg11", 2.92, 6.95, True), ("vgg16", 5.94, 14.1, False), ("vgg19", 7.54, 17.9, False)],
)
def test_which_vgg_the_article_timed(model, tera, tera_per_second, possible):
    """A GTX 1080 computes 8.2 (base clock) to 8.9 TFLOP/s (boost): more than VGG-11 needed, far less than the others would."""
    operations = 3 * 2 * 64 * MULTIPLY_ADDS[model]  # forward and backward: three times the forward pass
    reached = operations / (step(64) / 1e3)
    assert operations / 1e12 == pytest.approx(tera, abs=0.005)
    assert reached / 1e12 == pytest.approx(tera_per_second, abs=0.05)
    assert (reached < 8.9e12) is possible


def exposed(gain, ratio):
    """Share of a step that waits for communication over the slow and over the fast link, if a `ratio` times faster link makes
    the step `gain` times shorter."""
    slow = (1 - 1 / gain) / (1 - 1 / ratio)
    return 100 * slow, 100 * slow * gain / ratio


def test_what_the_gains_of_nvlink_mean():
    """14, 25, 36, 66 % of a step over PCIe and 1.2, 2.5, 4.2, 12.8 % over NVLink; no gain above 13 is possible."""
    fast = printed(NVLINK, system="DGX-1 V100 with NVLink", metric="collective bandwidth")
    slow = printed(NVLINK, system="previous hardware with PCIe", metric="collective bandwidth")
    percent = [
        printed(NVLINK, model=name, metric="performance benefit")
        for name in ("Inception-V3", "NMT with MLP attention (embedding 512)")
    ]
    gains = [
        *(1 + one / 100 for one in percent),
        printed(NVLINK, model="Seq2Seq RNN (embedding 512)", metric="training speedup"),
        printed(NVLINK, model="NMT with MLP attention (embedding 2048)", metric="training speedup"),
    ]
    assert (fast / slow, gains) == (13, [1.15, 1.30, 1.5, 2.54])
    shares = [exposed(gain, fast / slow) for gain in gains]
    assert [round(over_pcie) for over_pcie, _ in shares] == [14, 25, 36, 66]
    assert [over_nvlink for _, over_nvlink in shares] == pytest.approx([1.2, 2.5, 4.2, 12.8], abs=0.06)
    assert exposed(13, 13)[0] == pytest.approx(100)


@pytest.mark.parametrize(
    ("hidden", "megabytes", "nvlink_ms", "pcie_ms"),
    [(512, 227, 3.1, 39.7), (1024, 643, 8.7, 112), (2048, 2040, 27.5, 357)],
)
def test_gradients_of_gnmt_and_how_long_a_ring_of_eight_exchanges_them(hidden, megabytes, nvlink_ms, pcie_ms):
    network = gnmt.build({"hidden": hidden, "layers": 4}, 32_317, 0.2)
    size = 4 * sum(gnmt.parameter_counts(network).values())
    assert size / 1e6 == pytest.approx(megabytes, rel=0.003)
    carried = 2 * 7 / 8 * size
    assert carried / 130e9 * 1e3 == pytest.approx(nvlink_ms, abs=0.05)
    assert carried / 10e9 * 1e3 == pytest.approx(pcie_ms, rel=0.006)


def test_the_network_of_124_systems_by_formula():
    """Four EDR ports of 100 Gb/s with 64/66 coding in both directions across the middle; 40 Gb/s in one direction."""
    systems = 124
    bisection = systems / 2 * 4 * 100e9 * 2 * 64 / 66 / 8
    ethernet = systems / 2 * 40e9 / 8
    table = {"bisection bandwidth": (6012, 310), "system-wide latency": (1.28, 5)}
    for metric, values in table.items():
        for system, value in zip(("124x DGX-1, quad EDR IB", "124 systems, dual 10 Gb Ethernet"), values, strict=True):
            assert printed(NVLINK, system=system, metric=metric) == value
    assert bisection / 1e9 == pytest.approx(6012.1, abs=0.05)
    assert ethernet / 1e9 == 310
    assert 800 / 40 == printed(NVLINK, metric="network performance ratio") == 20
    assert pytest.approx(3.9, abs=0.01) == 5 / 1.28
    nvlink = printed(NVLINK, model="NVLink, 6 links")
    assert nvlink / 32 == pytest.approx(9.4, abs=0.05)  # PCIe 3.0 x16: 16 GB/s in each direction
    assert printed(NVLINK, model="NVLink vs PCIe Gen3 x16", metric="bandwidth ratio") == math.floor(nvlink / 32)


def test_four_p100_over_one():
    """The server paper's Googlenet: 5.3 and 19.7 times two Xeons, so 3.72 times on four times the GPUs."""
    one, four = (printed(P100, chips=str(count), metric="training speedup over CPU server") for count in (1, 4))
    assert four / one == pytest.approx(3.72, abs=0.005)
    assert four / one / 4 == pytest.approx(0.93, abs=0.002)
