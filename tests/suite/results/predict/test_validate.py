"""The validation on published rows: which rows, which errors, and that a rule without knowledge fails its bars."""

from dataclasses import replace

import numpy as np
import pytest

from suite.results.predict.law import INTERVAL_FACTOR, LEVEL, POWER
from suite.results.predict.observations import CONSTANTS_UP_TO, TOKENS_PER_SENTENCE, of_rounds, published_families
from suite.results.predict.validate import Bar, Protocol, held_out, of_workload, select, validate
from suite.results.predict.validation_text import validation_text
from suite.results.published.csv_files import load_published_results
from tests.helpers import suite_here


@pytest.fixture(scope="module")
def validation():
    return validate()


def test_rows_and_families():
    published = published_families()
    assert (published.rows, len(published.families)) == (190, 66)
    assert dict(published.left_out)["Mask R-CNN with fewer images than devices"] == 3
    assert dict(published.left_out)["logs of an earlier round again"] == 23
    total = published.rows + sum(count for _, count in published.left_out)
    assert total == sum(item.benchmark not in ("ncf", "minigo") for item in load_published_results())


def test_every_family_has_one_accelerator_and_rising_device_counts():
    for family in published_families().families:
        counts = [row.devices for row in family]
        assert counts == sorted(set(counts))
        assert len({(row.workload, row.round) for row in family}) == 1


def test_tokens_become_sentences():
    families = of_workload(published_families().families, "transformer")
    article = next(family for family in families if family[0].round == "dgx1-article")
    assert article[0].batch_per_device == pytest.approx(5120 / TOKENS_PER_SENTENCE)
    assert all(row.batch_per_device < 1000 for item in published_families().families for row in item)


def test_the_bars_are_met(validation):
    assert [bar.name for bar in validation.bars if not bar.met] == []
    row, small, far = (validation.errors("law", protocol) for protocol in Protocol)
    assert (row.rows, small.rows, far.rows) == (190, 124, 66)
    assert row.median <= 0.045
    assert row.p90 <= 0.18
    assert small.median <= 0.06
    assert small.p90 <= 0.22
    assert far.median <= 0.09


def test_intervals_hold_what_they_say(validation):
    for protocol, share in validation.coverage.items():
        assert 0.88 <= share <= 0.92, protocol
    assert round(validation.factor, 2) == INTERVAL_FACTOR
    inside = np.mean([item.width <= validation.factor for item in validation.held["law"]])
    assert inside == pytest.approx(LEVEL, abs=0.005)


def test_simpler_rules_are_worse_in_every_workload(validation):
    for workload in validation.constants:
        for protocol in (Protocol.ROW, Protocol.SMALLEST):
            own = validation.errors("law", protocol, workload).median
            assert own < validation.errors("linear", protocol, workload).median
            assert own < validation.errors("power", protocol, workload).median


def test_linear_would_fail_the_bars(validation):
    failing = replace(validation, held={**validation.held, "law": validation.held["linear"]})
    assert not all(bar.met for bar in failing.bars[:5])
    assert Bar("", 0.9, 0.88, 0.92).met
    assert not Bar("", 0.93, 0.88, 0.92).met


def test_later_rounds_never_see_their_own_constants(validation):
    rows = published_families().families
    later = [family for family in rows if family[0].round not in CONSTANTS_UP_TO]
    assert len(of_rounds(rows, CONSTANTS_UP_TO)) + len(later) == len(rows)
    assert {item.row.round for item in validation.later} == {"v2.1", "v3.0"}
    assert np.median([abs(item.error) for item in select(validation.later, Protocol.ROW)]) < 0.045
    alone = held_out(of_workload(later, "resnet50"), POWER, [])
    assert {item.row.workload for item in alone} == {"resnet50"}


def test_the_known_bad_rows_are_named(validation):
    text = validation_text(validation)
    for name in (
        "v0.5/NVIDIA/dgx1_ngc18.11_mxnet",
        "v0.5/NVIDIA/dgx1_multi_ngc18.11_mxnet",
        "4N_mxnet",
        "dgx1-article/Microway/dgx1",
    ):
        assert name in text
    assert "NOT MET" not in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_command_prints_it(tmp_path):
    done = suite_here(tmp_path, "scaling", "--validate")
    assert done.returncode == 0
    assert "190 rows in 66 families" in done.stdout
