"""What the step benchmark says of rates that processes printed."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def image_step():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "image_step.py"
    spec = importlib.util.spec_from_file_location("image_step", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shares_are_medians_of_ratios_within_a_round(image_step):
    def rounds(rates, gigaflops=8.0):
        return [{"images_per_second": rate, "gigaflops_per_image": gigaflops} for rate in rates]

    ours = [{"images_per_second": rate} for rate in (10.0, 5.0, 12.0)]
    found = image_step.summary({"suite": ours, "bare": rounds([10, 10, 10]), "stock": rounds([10, 5, 10], 4.0)})
    assert found["suite_to_bare"] == 1.0  # of 1.0, 0.5, 1.2
    assert found["suite_to_stock"] == 1.0
    assert found["suite_to_stock_per_operation"] == 2.0
    assert "suite_to_bare_per_operation" not in found
    assert found["images_per_second"] == {"suite": 10.0, "bare": 10, "stock": 10}
    assert found["gigaflops_per_image"] == {"suite": 8.0, "bare": 8.0, "stock": 4.0}


def test_every_model_has_its_script(image_step):
    for workload in image_step.BATCHES:
        for framework in image_step.STOCK:
            name = f"{workload.removesuffix('50')}_{framework}.py"
            text = (image_step.BENCHMARKS / "bare" / name).read_text()
            for model in set(image_step.models(workload, framework)) - {"suite", "bare_malloc"}:
                assert model in text, f"{name} does not know {model}"
            assert "workloads" not in text
            assert "import suite" not in text
