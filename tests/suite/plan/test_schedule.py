"""Notes on runs that train beyond the end of their learning-rate schedule, with the epoch.

Constant rates and step schedules have no end.
"""

import math
from dataclasses import replace

import pytest

from suite.catalog.sets import named_sets
from suite.common import registry
from suite.plan import jobs
from suite.plan.schedule import schedule_note
from tests.helpers import TOY, TOY_RUN, composed, run_suite_here

STEPS_PER_EPOCH = 16
"""The toy has 1,000 samples and batches of 64."""


def cosine(epochs):
    steps = epochs * STEPS_PER_EPOCH
    return lambda self, step: 0.1 * (1 + math.cos(math.pi * min(step / steps, 1)))


def polynomial(epochs, end):
    steps = epochs * STEPS_PER_EPOCH
    return lambda self, step: end + (0.2 - end) * (1 - min(step / steps, 1)) ** 2


def in_steps(self, step):
    return 0.2 * 0.1 ** (step // (2 * STEPS_PER_EPOCH))


def after_first_epoch_zero(self, step):
    return 0.2 if step < STEPS_PER_EPOCH else 0.0


CASES = [
    (cosine(4), ["workload.max_epochs=9"],
     "=9: the learning rate is zero from epoch 5 on. Set workload.max_epochs=4"),
    (cosine(4), ["workload.max_epochs=5"], "from epoch 5 on"),
    (cosine(4), ["workload.max_epochs=4"], ""),
    (cosine(4), ["stop=epochs:6"],
     "stop=epochs:6: the learning rate is zero from epoch 5 on. Set stop=epochs:4"),
    (cosine(4), ["stop=steps:80"], "stop=steps:80: the learning rate is zero from epoch 5 on"),
    (cosine(4), ["stop=samples:9000"],
     "stop=samples:9000: the learning rate is zero from epoch 5 on"),
    (cosine(4), ["stop=steps:64"], ""),
    (cosine(4), ["stop=epochs:6", "mode=forward"], ""),
    (cosine(4), ["stop=epochs:6", "mode=forward_backward"], ""),
    (cosine(3), [], ""),  # the hyperparameter set defines max_epochs, so there is no note
    (polynomial(4, 0.001), ["workload.max_epochs=9"],
     "the learning rate is 0.001, its end value, from epoch 5 on"),
    (polynomial(4.5, 0), ["workload.max_epochs=9"],
     "zero from epoch 6 on. Set workload.max_epochs=5"),
    (in_steps, ["workload.max_epochs=9"], ""),
    (after_first_epoch_zero, ["workload.max_epochs=9"], ""),
    (lambda self, step: 0.2, ["workload.max_epochs=1000"], ""),
    (lambda self, step: 0.2 / math.sqrt(step + 1), ["workload.max_epochs=1000"], ""),
]  # fmt: skip


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Return the toy's class. Its data set exists."""
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path / "data"))
    import toy

    registry.refresh()
    registry.load_dataset("toy-demo").make_demo(tmp_path / "data" / "toy-demo")
    yield toy.Toy
    registry.refresh()


@pytest.mark.parametrize(("rate", "words", "expected"), CASES)
def test_epochs_after_the_end_of_the_schedule_are_noted(toy, monkeypatch, rate, words, expected):
    monkeypatch.setattr(toy, "learning_rate", rate)
    planned = jobs.plan(composed(*TOY_RUN, "device=cpu", *words))
    notes = [note for note in planned.notes if "learning rate" in note]
    assert len(notes) == bool(expected)
    assert expected in "".join(notes)


def test_the_note_is_printed_by_a_run_and_a_dry_run(toy, monkeypatch, tmp_path):
    monkeypatch.setattr(toy, "learning_rate", cosine(1))
    words = (*TOY_RUN, "workload.max_epochs=3")
    for more in (["dry_run=true"], []):
        done = run_suite_here(tmp_path, *words, *more, toy=True)
        assert (
            done.stderr.count(
                "the learning rate is zero from epoch 2 on. Set workload.max_epochs=1"
            )
            == 1
        )


def test_a_note_is_printed_once_if_the_data_are_created_first(toy, monkeypatch, tmp_path):
    monkeypatch.setattr(toy, "learning_rate", cosine(1))
    (tmp_path / "elsewhere").mkdir()
    done = run_suite_here(tmp_path / "elsewhere", *TOY_RUN, "workload.max_epochs=3", toy=True)
    assert done.stderr.count("the learning rate is zero from epoch 2 on") == 1


def test_no_shipped_set_trains_beyond_its_schedule():
    checked = 0
    for name in ("resnet50", "ssd", "maskrcnn"):
        workload = registry.load_workload(name)
        for chosen in named_sets(workload):
            words = [
                f"workload={name}",
                "profile=synthetic",
                "device=cpu",
                f"workload.hyperparameter_set={chosen}",
            ]
            draft = jobs.plan(composed(*words, "gpus=1", "stop=steps:5", "batch=global:32")).draft
            if draft is not None and draft.dataset_info is not None:
                epochs = draft.settings.hyperparameters["max_epochs"]
                settings = replace(draft.settings, stop=f"epochs:{epochs}")
                assert schedule_note(workload(settings, draft.dataset_info)) == "", (name, chosen)
                checked += 1
    assert checked >= 20
