"""Settings of workloads with several targets, no targets, no sets, or a choice of models.

Modes, asynchronous updates, and options of images are tested here too.
"""

import dataclasses
from copy import deepcopy
from dataclasses import dataclass

import pytest

from suite.catalog.sets import named_sets
from suite.common import registry
from suite.config.compose import compose
from suite.launch.hosts import AvailableHost
from suite.machine import devices
from suite.plan.run_template import _labels
from suite.plan.settings import resolve_settings
from suite.plan.unsupported import UnsupportedError
from tests.helpers import composed
from workloads.api import DatasetInfo, Defaults, Settings, field_names, option, option_keys
from workloads.common.cores import DataThreadsOptions
from workloads.common.images.workload import ImageOptions
from workloads.ncf.settings import NCFOptions
from workloads.ncf.workload import NCF


@dataclass(frozen=True)
class TwoTargets(NCFOptions):
    target: dict = option({"bbox": None, "segm": None}, "AP to reach")
    model: str = option("small", "which network", choices=("small", "large"))


class Detector(NCF):
    Options = TwoTargets

    @classmethod
    def defaults(cls, profile, round, options):
        sizes = {"depth": 50 if options.get("model") == "large" else 18}
        return Defaults("ml-demo", "demo", sizes, {"bbox": 0.377, "segm": 0.339})


class Throughput(NCF):
    name = "throughput"  # a workload without hyperparameter sets

    @classmethod
    def defaults(cls, profile, round, options):
        return Defaults("ml-demo")


def settings_of(workload, *arguments, **options):
    profile = () if any(text.startswith("profile=") for text in arguments) else ("profile=demo",)
    config = composed("workload=ncf", "device=cpu", *profile, *arguments)
    config.workload = {**dataclasses.asdict(workload.Options()), **options}
    return resolve_settings(config, workload, registry.load_framework("pytorch"))


def test_each_of_several_targets_is_settable():
    assert settings_of(Detector).targets == {"bbox": 0.377, "segm": 0.339}
    changed = settings_of(Detector, target={"bbox": 0.1, "segm": None})
    assert changed.targets == {"bbox": 0.1, "segm": 0.339}
    with pytest.raises(
        ValueError, match=r"\. Set workload\.target\.bbox=0\.377, workload\.target\.segm=0\.339$"
    ):
        settings_of(Detector, target=0.5)
    with pytest.raises(ValueError, match=r"workload\.target \(of ncf\)=box: allowed: bbox, segm"):
        settings_of(Detector, target={"box": 0.5})


def test_defaults_see_what_the_user_chose():
    assert settings_of(Detector).model == {"depth": 18}
    assert settings_of(Detector, model="large").model == {"depth": 50}
    assert settings_of(Detector, model="large").options["model"] == "large"


def test_a_workload_that_only_measures_throughput_needs_neither_sets_nor_targets():
    settings = settings_of(Throughput, "batch=per_device:32", "gpus=2", "oversubscribe=true")
    assert (settings.global_batch_size, settings.hyperparameter_set, settings.targets) == (
        64,
        "",
        {},
    )
    assert (settings.stop, settings.hyperparameters) == ("steps:50", {})
    with pytest.raises(
        ValueError,
        match=r"^batch=default: the workload has no hyperparameter set .* Set batch=global:N$",
    ):
        settings_of(Throughput)
    with pytest.raises(
        ValueError, match=r"^stop=target: the workload has no target\. Set stop=steps:50$"
    ):
        settings_of(Throughput, "batch=global:32", "stop=target")


@pytest.mark.parametrize("mode", ["forward", "forward_backward", "inference"])
def test_modes_that_do_not_train_have_a_fixed_length(mode):
    assert settings_of(NCF, f"mode={mode}").stop == "steps:50"
    assert (
        settings_of(
            NCF, f"mode={mode}", "stop=steps:20", "timing.warmup_steps=5"
        ).timing_warmup_steps
        == 5
    )


def zoo_settings(*arguments, framework="pytorch"):
    job = compose(["workload=zoo", "profile=demo", "device=cpu", *arguments]).jobs[0]
    return resolve_settings(
        job.config, registry.load_workload("zoo"), registry.load_framework(framework)
    )


def test_updates_are_synchronous_by_default():
    settings = zoo_settings()
    assert (settings.update, settings.straggler_ms) == ("sync", 0)
    for framework in ("pytorch", "tensorflow", "mxnet"):
        settings = zoo_settings("update=async", "update.straggler_ms=50", framework=framework)
        assert (settings.update, settings.straggler_ms) == ("async", 50)


REFUSED = {
    ("stop=target", "mode=forward"): r"^stop=target: profile=demo mode=forward does not evaluate",
    (
        "stop=epochs:2",
        "mode=inference",
    ): r"^stop=epochs:2: mode=inference counts .*\. Set stop=steps:50$",
    (
        "profile=synthetic",
        "mode=inference",
    ): r"^mode=inference: profile=synthetic has no .*\. Set profile=demo",
    (
        "timing.warmup_steps=5",
    ): r"^timing\.warmup_steps=5: a run to its target is timed from its first step",
    (
        "update=async",
    ): r"^update=async: not supported by ncf in pytorch\. Set update=sync, or workload=zoo\Z",
    (
        "workload=zoo",
        "update=async",
        "mode=forward",
    ): r"^update=async: .* Set mode=train, or update=sync\Z",
    (
        "workload=zoo",
        "update=async",
        "timing=steps",
    ): r"^update=async: [^\n]+\. Set timing=interval, or update=sync\Z",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_contradicting_overrides_are_refused_with_the_overrides_to_set(words):
    of_zoo = "workload=zoo" in words
    with pytest.raises(ValueError, match=REFUSED[words]) as error:
        zoo_settings(*words[1:], "stop=steps:5") if of_zoo else settings_of(NCF, *words)
    assert isinstance(error.value, UnsupportedError) == (words == ("update=async",))


def test_asynchronous_straggling_and_oversubscribed_runs_are_labeled(monkeypatch):
    labels, _ = _labels(
        zoo_settings("update=async", "update.straggler_ms=50"),
        DatasetInfo(1, 1, {}, "", ("a note",)),
    )
    assert [label.text for label in labels] == ["demo", "cpu", "async", "straggler 50 ms", "a note"]
    assert [label.text for label in _labels(zoo_settings(), DatasetInfo(1, 1, {}, ""))[0]] == [
        "demo",
        "cpu",
    ]
    both = zoo_settings("gpus=2", "oversubscribe=true")
    monkeypatch.setattr(devices, "cpu_cores", lambda: (3,))
    labels, cores = _labels(both, DatasetInfo(1, 1, {}, ""))
    assert ([label.text for label in labels], cores) == (["demo", "cpu", "oversubscribed"], (3,))


def test_options_of_images_are_allowed_only_for_workloads_with_images():
    keys = option_keys(ImageOptions) | option_keys(DataThreadsOptions)
    assert set(keys) == {
        "data.decode", "data.threads", "data.skip_bad", "workload.compile", "workload.fused_norms",
        "workload.evaluation_batch_size",
    }  # fmt: skip
    unknown_keys = {
        "data.decode=scaled": "Allowed: data.threads",
        "backbone.weights=a": "Run with workload=ncf --help",
    }
    for word, instead in unknown_keys.items():
        with pytest.raises(ValueError, match=rf"^{word}: unknown key of [^.]+\. {instead}"):
            compose(("workload=ncf", "profile=demo", word))
    (job,) = compose(("workload=ssd", "profile=demo", "data.decode=scaled", "data.threads=3")).jobs
    settings = resolve_settings(
        job.config, registry.load_workload("ssd"), registry.load_framework("pytorch")
    )
    assert (settings.options["decode"], settings.options["data_threads"]) == ("scaled", 3)


def test_planning_leaves_the_configuration_and_the_sets_as_they_are():
    before = {name: dict(values) for name, values in named_sets(NCF).items()}
    config = composed("workload=ncf", "device=cpu", "profile=demo", "batch=global:4096")
    copy = deepcopy(config)
    first, second = (
        resolve_settings(config, NCF, registry.load_framework("pytorch")) for _ in range(2)
    )
    assert first == second
    assert config == copy
    assert {name: dict(values) for name, values in named_sets(NCF).items()} == before


def test_lists_of_settings_are_derived_from_the_fields():
    assert {"seed", "data_dir", "round"} == set(field_names(Settings, must_match_on_resume=False))
    scales_with_devices = {
        item.name for item in dataclasses.fields(Settings) if item.metadata["scales_with_devices"]
    }
    assert scales_with_devices == {"devices", "nodes", "global_batch_size"}
    assert "seed" not in field_names(Settings, logged=True)
    # Synchronous and asynchronous runs are never in the same row, and give no speedup.
    assert {"update", "straggler_ms"} <= set(
        field_names(
            Settings, logged=True, experiment_key=True, family=True, must_match_on_resume=True
        )
    )


def test_a_machine_whose_gpu_does_not_answer_trains_on_cpu_cores_alone():
    node = AvailableHost(
        "b", "10.0.0.2", "eth0", (0, 1), {"gpus": []}, "GPU 1 does not answer (GPU is lost)"
    )
    config = composed("workload=ncf", "profile=demo")
    with pytest.raises(ValueError, match=r"^machine b: GPU 1 does not answer \(GPU is lost\)$"):
        resolve_settings(config, NCF, registry.load_framework("pytorch"), [node])
    config = composed("workload=ncf", "profile=demo", "device=cpu")
    assert resolve_settings(config, NCF, registry.load_framework("pytorch"), [node]).device == "cpu"
