"""Hyperparameter sets as files: shipped sets, user-defined sets, and invalid files."""

import subprocess
import sys

import pytest

from suite.catalog import sets
from suite.catalog.division import find_deviations
from suite.catalog.sets import named_sets
from suite.common import conf, registry
from suite.plan.settings import resolve_settings
from tests.helpers import composed
from workloads.api import default_values, hyperparameter_fields, option_keys

SHIPPED = [
    (workload, name)
    for workload in registry.names(registry.WORKLOADS)
    for name in named_sets(registry.load_workload(workload))
]
MINIMAL_SET = "based_on: reference\nlearning_rate: 0.002\n"
"""The minimal content of a user-defined set."""


@pytest.fixture
def user_set(tmp_path, monkeypatch):
    """Return a function that writes a hyperparameter set of NCF into a user folder."""
    monkeypatch.setattr(sets, "_user_folders", [])
    # Composing without --config-dir would reset the searched folders.
    monkeypatch.setattr(conf, "search", lambda folders: None)
    folder = tmp_path / "hyperparameters" / "ncf"
    folder.mkdir(parents=True)

    def write(text, name="mine"):
        (folder / f"{name}.yaml").write_text(text)
        sets.search([tmp_path])
        return registry.load_workload("ncf")

    return write


def settings_of(workload, *overrides):
    config = composed("workload=ncf", "device=cpu", *overrides)
    return resolve_settings(config, workload, registry.load_framework("pytorch"))


@pytest.mark.parametrize(("workload", "name"), SHIPPED)
def test_a_shipped_set_has_a_description_and_the_source_of_every_value(workload, name):
    found = named_sets(registry.load_workload(workload))[name]
    assert found.sentence
    for key, item in found.items():
        kind = item.source.partition(":")[0]
        assert kind in ("published", "derived", "presumed") or (workload, key) == (
            "allreduce",
            "lr_scaling",
        )


@pytest.mark.parametrize("workload", registry.names(registry.WORKLOADS))
def test_a_configuration_has_the_keys_that_users_can_set(workload):
    options = registry.load_workload(workload).Options
    found = composed(f"workload={workload}", "profile=synthetic").workload
    keys = {key.partition(".")[2] for key in option_keys(options) if key.startswith("workload.")}
    assert set(found) == keys
    assert all(found[key] is None for key in hyperparameter_fields(options) if key in keys)
    assert found == {**{key: default_values(options)[key] for key in keys}, "name": workload}


def test_a_user_defined_set_is_chosen_like_a_shipped_set(user_set):
    workload = user_set(
        "sentence: A try\n" + MINIMAL_SET + 'beta1: {value: 0.8, source: "derived: by hand"}\n'
    )
    settings = settings_of(workload, "workload.hyperparameter_set=mine", "workload.beta2=0.9")
    reference = named_sets(workload)["reference"]
    assert settings.hyperparameters == {
        **reference.plain,
        "learning_rate": 0.002,
        "beta1": 0.8,
        "beta2": 0.9,
    }
    assert settings.hyperparameter_sources == {
        **{name: item.source for name, item in reference.items()},
        **{"learning_rate": "user: mine.yaml", "beta1": "derived: by hand", "beta2": "user"},
    }
    assert settings.global_batch_size == reference["global_batch_size"].value
    assert named_sets(workload)["mine"].sentence == "A try"


def test_a_user_defined_set_makes_a_run_open_with_a_reason(user_set):
    workload = user_set("based_on: reference\n")
    shipped, mine = (
        settings_of(workload, f"workload.hyperparameter_set={name}")
        for name in ("reference", "mine")
    )
    assert shipped.hyperparameters == mine.hyperparameters
    assert find_deviations(workload, shipped) == []
    assert [deviation.text for deviation in find_deviations(workload, mine)] == [
        "hyperparameter set mine, a file of the user's"
    ]
    assert find_deviations(workload, mine, seed_source="system") == []


def test_values_and_sources_are_inherited_through_based_on(user_set):
    user_set(
        'based_on: reference\nbased_on_source: "presumed: as there"\nepsilon: {source: "derived:'
        ' so"}\n',
        "first",
    )
    workload = user_set(
        'based_on: first\nsource: "published: elsewhere"\nmax_epochs: 3\n', "second"
    )
    found, reference = named_sets(workload)["second"], named_sets(workload)["reference"]
    values, wanted = (
        {name: item.value for name, item in hyperparameters.items()}
        for hyperparameters in (found, reference)
    )
    assert values == {**wanted, "max_epochs": 3}
    sources = {item.source for name, item in found.items() if name not in ("max_epochs", "epsilon")}
    assert sources == {"presumed: as there"}
    assert (found["epsilon"].source, found["max_epochs"].source) == (
        "derived: so",
        "published: elsewhere",
    )


def test_a_power_of_ten_is_a_number_however_it_is_written(user_set):
    found = named_sets(user_set(MINIMAL_SET + "epsilon: 1e-7\nbeta1: 9E-1\n"))["mine"]
    assert (found["epsilon"].value, found["beta1"].value) == (1e-7, 0.9)


def test_lists_are_checked_value_by_value(user_set, tmp_path):
    (tmp_path / "hyperparameters" / "resnet50").mkdir()
    path = tmp_path / "hyperparameters" / "resnet50" / "mine.yaml"
    user_set(MINIMAL_SET)
    for text, message in (
        ("[30, 60]", ""),
        ("30", "expected a list"),
        ("[30, x]", "decay_epochs=x: expected an integer"),
    ):
        path.write_text(f"based_on: reference\ndecay_epochs: {text}\n")
        found = named_sets(registry.load_workload("resnet50"))
        if message:
            with pytest.raises(ValueError, match=rf"^{path}: .*{message}"):
                found["mine"]
        else:
            assert found["mine"]["decay_epochs"].value == [30, 60]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected lines of the form KEY: VALUE, got None"),
        ("- 1\n", "expected lines of the form KEY: VALUE"),
        ("a: [\n", "line 2: expected the node content"),
        ("a: !!python/object/apply:os.system [id]\n",
         "line 1: could not determine a constructor for the tag"),
        (MINIMAL_SET + "lerning_rate: 1\n",
         r"lerning_rate: unknown key, allowed: .*\(did you mean 'learning_rate'\?\)"),
        (MINIMAL_SET + "evaluation_users_per_batch: 8\n",
         "evaluation_users_per_batch: unknown key"),
        (MINIMAL_SET + "beta1: 0.1\nbeta1: 0.2\n", "line 4: the key beta1 occurs twice"),
        (MINIMAL_SET + "beta1: fast\n", "beta1=fast: expected a number of at least 0"),
        (MINIMAL_SET + "beta1: -1\n", "beta1=-1: expected at least 0"),
        (MINIMAL_SET + "beta1: .nan\n", "beta1=nan: expected a finite number"),
        (MINIMAL_SET + "beta1:\n", "beta1=None: expected a number"),
        (MINIMAL_SET + "beta1: {value: 1, from: me}\n",
         "beta1: expected a value or {value: …, source: …}"),
        (MINIMAL_SET + "beta1: {value: 1, source: 3}\n", "beta1: no source"),
        (MINIMAL_SET + "global_batch_size: 0\n", "global_batch_size=0: expected at least 1"),
        (MINIMAL_SET + "global_batch_size: 1.5\n", "global_batch_size=1.5: expected an integer"),
        (MINIMAL_SET + "lr_scaling: square\n", "lr_scaling=square: allowed: linear, none, sqrt"),
        (MINIMAL_SET + "sentence: [a]\n", "sentence: expected a non-empty string"),
        ("based_on: referense\n",
         r"based_on: unknown set referense, allowed: .*\(did you mean 'reference'\?\)"),
        ("based_on: mine\n", "based_on=mine: mine > mine is a cycle"),
        ("learning_rate: 0.1\n", "global_batch_size: missing. Add it, or add based_on: NAME"),
    ],
)  # fmt: skip
def test_an_error_in_a_set_is_one_line_with_the_file_and_the_key(user_set, tmp_path, text, message):
    workload = user_set(text)
    with pytest.raises(
        ValueError, match=f"^{tmp_path}/hyperparameters/ncf/mine.yaml: {message}"
    ) as refusal:
        settings_of(workload, "workload.hyperparameter_set=mine")
    assert "\n" not in str(refusal.value)
    settings_of(workload, "workload.hyperparameter_set=reference")  # shipped sets still load


def test_a_file_does_not_replace_a_shipped_set(user_set):
    workload = user_set(MINIMAL_SET, "reference")
    with pytest.raises(
        ValueError,
        match=r"ncf/reference\.yaml: ncf has a set reference already .*\. Rename the file",
    ):
        named_sets(workload)


def test_an_unknown_name_is_refused_with_the_user_defined_names(user_set):
    workload = user_set(MINIMAL_SET)
    with pytest.raises(
        ValueError,
        match=r"^workload\.hyperparameter_set=nine: allowed: .*mine.*did you mean 'mine'",
    ):
        settings_of(workload, "workload.hyperparameter_set=nine")


def test_a_worker_needs_no_yaml():
    """Build a workload from a finished `run.json` without PyYAML.

    The environments of the frameworks do not contain PyYAML.
    """
    code = (
        "import sys; sys.modules['yaml'] = None\nimport suite.worker.main\nfrom suite.common import"
        " registry\nfrom workloads.api import Settings, build_options\nfigures = {'name': 'v9',"
        " 'setup_is_timed': True, 'first_epoch': 3, 'bleu_scale': 1.0, 'ruleset': ''}\nfor name in"
        " registry.names(registry.WORKLOADS):\n    kind = registry.load_workload(name)\n    assert"
        " build_options(kind.Options, Settings(workload=name, hyperparameters={'max_epochs': 7}))\n"
        "    run = object.__new__(kind)\n    run.settings = Settings(workload=name, rules='v9',"
        " round=figures)\n    assert (run.round.first_epoch, run.round.clock) == (3, 'v0.5')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
