"""Writes the tables of docs/reference/closed_rules.md from the code.

    python -m tests.workloads.rules_page

The tables between the page's marks are replaced.
"""

from collections.abc import Iterable
from pathlib import Path

from suite.catalog.division import find_deviations, schedule_inputs
from suite.catalog.rounds import find_round, get_round, workload_rounds
from suite.catalog.rules import Rule
from suite.catalog.sets import named_sets
from tests.workloads.gnmt import rules_of_gnmt, test_gnmt_workload
from tests.workloads.maskrcnn import rules_of_maskrcnn, test_maskrcnn_workload
from tests.workloads.ncf import rules_of_ncf
from tests.workloads.resnet50 import rules_of_resnet, test_resnet_workload
from tests.workloads.ssd import rules_of_ssd, test_ssd_workload
from tests.workloads.transformer import rules_of_transformer, test_transformer_workload
from workloads.api import DatasetInfo, Round, Settings, Workload
from workloads.gnmt.workload import GNMT
from workloads.llama31_8b.workload import Llama
from workloads.maskrcnn.workload import MaskRCNN
from workloads.ncf.dataset_info import published_facts
from workloads.ncf.workload import NCF
from workloads.resnet50.workload import ResNet50
from workloads.ssd.workload import SSD
from workloads.transformer.workload import Transformer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference/closed_rules.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
RULES = {
    NCF: rules_of_ncf,
    ResNet50: rules_of_resnet,
    SSD: rules_of_ssd,
    MaskRCNN: rules_of_maskrcnn,
    GNMT: rules_of_gnmt,
    Transformer: rules_of_transformer,
}
"""Map a workload to the module with the cases of its rules.

A module has these names:
- CLOSED: settings, and their deviations from the rules.
- OPEN: settings, and some of the reasons for which they are open.
- `around_the_edges()`: workloads with settings on both sides of the limits in EDGES. At least LEAST
  of them are closed, and at least LEAST open.
- LAXER: settings that violate the rules and that the stock checker accepts, with the reason.
"""
WORKLOADS = {workload: found.LAXER for workload, found in RULES.items()}
"""Map a workload to the settings that the checker does not check."""
PUBLISHED: dict[type[Workload], DatasetInfo] = {
    NCF: published_facts(),
    ResNet50: test_resnet_workload.IMAGENET,
    SSD: test_ssd_workload.COCO,
    MaskRCNN: test_maskrcnn_workload.COCO,
    GNMT: test_gnmt_workload.WMT,
    Transformer: test_transformer_workload.WMT,
}
"""Counts of the published data sets."""
SETS = (
    "The sets are those of `profile=reference`. Runs are closed unless the table names a reason."
    " *: the round lists the optimizer for other frameworks."
)
IMAGES = (ResNet50, SSD, MaskRCNN)
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
ROUNDS = ("v0.5", "v0.7")


def shared_rows(name: str, workloads: Iterable[type[Workload]]) -> list[Rule]:
    """Return the rows of a round that all of these workloads share."""
    first, *remaining = (
        found.rows for workload in workloads if (found := workload_rounds(workload).get(name))
    )
    return [row for row in first if all(_text(row) in map(_text, rows) for rows in remaining)]


def _text(row: Rule) -> str:
    """Return the text that distinguishes rows, because each workload reads separate objects."""
    return f"{_allowed(row)} {row.source}"


def table(rounds: dict[str, list[Rule]]) -> list[str]:
    """Return the rows in Markdown, beginning with rows of all rounds.

    Rows with the same source share a line.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, rows in rounds.items():
        for row in rows:
            found.setdefault((_allowed(row), _source(row, name)), []).append(name)
    tables: dict[str, dict[str, list[str]]] = {
        " and ".join(rounds): {},
        **{name: {} for name in rounds},
    }
    for (allowed, source), names in found.items():
        tables[" and ".join(names)].setdefault(source, []).append(allowed)
    lines = []
    for name, sources in tables.items():
        rows_of = [f"| {'; '.join(allowed)} | {source} |" for source, allowed in sources.items()]
        lines += [f"| allowed in {name} | source |", "|---|---|", *rows_of, ""] if rows_of else []
    return lines


def _source(row: Rule, name: str) -> str:
    """Return section or row of the rules, followed by a published result or a rule file.

    The text of the section is only in the code.
    """
    whole = row.source.removeprefix(f"{name}, ").replace(
        "Hyperparameters and Optimizer", "Hyperparameters"
    )
    section, _, words = whole.partition(": ")
    if "results" in words or not section[0].isupper():
        return whole
    return "; ".join([section, *(part for part in words.split("; ") if part.startswith("closed_"))])


def _allowed(row: Rule) -> str:
    names = ", ".join(f"`{name}`" for name in row.names)
    conditions = ", ".join(f"`{name}` {allowed}" for name, allowed in row.when.items())
    return f"{names}: {row.allowed}" + (f" (for {conditions})" if conditions else "")


def of_workload(workload: type[Workload], laxer: dict[str, str]) -> list[str]:
    """Return the rows of a single workload, and the settings that the checker does not check."""
    groups = (WORKLOADS, IMAGES) if workload in IMAGES else (WORKLOADS,)
    shared = {_text(row) for name in ROUNDS for group in groups for row in shared_rows(name, group)}
    specific = {
        name: [row for row in found.rows if _text(row) not in shared]
        for name, found in workload_rounds(workload).items()
    }
    lines = [f"## {workload.name}", "", *table(specific)]
    for name, found in workload_rounds(workload).items():
        listed = [
            f"`{optimizer}` in {', '.join(sorted(frameworks))}"
            for optimizer, frameworks in found.listed_optimizers.items()
        ]
        lines += [f"Implementations that {name} lists: {'; '.join(listed)}.", ""] if listed else []
        lines += (
            [f"Under {name} every run is open: {found.unsupported_reason}.", ""]
            if found.unsupported_reason
            else []
        )
    lines += ["Open, though the checker passes it:", ""]
    reasons: dict[str, list[str]] = {}
    for name, why in laxer.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    return [*lines, *(f"- {', '.join(names)}: {why}" for why, names in reasons.items()), ""]


def default_settings(workload: type[Workload], rules: str, framework: str) -> Settings:
    """Return the settings of a run of `profile=reference` on a GPU with the default set."""
    found = get_round(rules, workload)
    defaults = workload.defaults("reference", found, {})
    name = defaults.set_for(framework)
    values = {key: item.value for key, item in named_sets(workload)[name].items()}
    return Settings(
        workload=workload.name, framework=framework, profile="reference", rules=rules,
        round=found.figures, device="cuda", devices=1, nodes=1, cores_per_device=1,
        precision="fp32", global_batch_size=values.pop("global_batch_size"), batch_rule="default",
        lr_scaling=values.pop("lr_scaling"), dataset=defaults.dataset, model=defaults.model,
        targets=dict(defaults.targets), hyperparameter_set=name,
        falling_metrics=tuple(sorted(workload.falling_metrics)), epoch_unit=workload.epoch_unit,
        hyperparameters=values, max_epochs=values["max_epochs"], stop="target",
    )  # fmt: skip


def opened_by(run: Workload, **of_run: bool | str) -> list[str]:
    """Return the reasons for which a run is open.

    `of_run` has `seed_source` and `cache_clear` if they differ from a closed run's.
    """
    of_run = {"seed_source": "system", "cache_clear": True, **of_run}
    found = [
        *find_deviations(type(run), run.settings),
        *find_deviations(type(run), run.settings, **of_run, **schedule_inputs(run)),
    ]
    return [deviation.text for deviation in found]


def default_run(
    workload: type[Workload], rules: str, framework: str
) -> tuple[str, list[str], bool]:
    """Return the default set, the reasons for which a run with it is open, and `is_listed`.

    `is_listed` is true if the round lists its optimizer for the framework.
    """
    run = workload(default_settings(workload, rules, framework), PUBLISHED[workload])
    listed = get_round(rules, workload).listed_optimizers
    is_listed = not listed or framework in listed.get(run.optimizer().name, ())
    return run.settings.hyperparameter_set, opened_by(run), is_listed


def sets() -> list[str]:
    """Return the default set of each workload and round.

    If the sets differ between frameworks, each is listed with its frameworks.
    """
    lines = ["| workload | v0.5 | v0.7 |", "|---|---|---|"]
    for workload in WORKLOADS:
        cells = []
        for name_of_rules in ROUNDS:
            names: dict[str, list[str]] = (
                {} if name_of_rules in workload_rounds(workload) else {"refused: no such round": []}
            )
            for framework in FRAMEWORKS if not names else ():
                name, open_by, listed = default_run(workload, name_of_rules, framework)
                text = (
                    f"`{name}`"
                    + (f", open: {'; '.join(open_by)}" if open_by else "")
                    + ("" if listed else "*")
                )
                names.setdefault(text, []).append(framework)
            alone = len(names) == 1
            cells.append(
                "; ".join(
                    name if alone else f"{name} ({', '.join(of)})" for name, of in names.items()
                )
            )
        lines.append(f"| `{workload.name}` | {' | '.join(cells)} |")
    return [*lines, ""]


def rounds() -> list[str]:
    """Return the properties of a round that do not depend on the workload."""
    lines = [
        "| round | the clock starts | first epoch | 24 BLEU are | logs are checked by |",
        "|---|---|---|---|---|",
    ]
    for name in ROUNDS:
        found = find_round(name)
        assert isinstance(found, Round)
        clock = "before set-up" if found.setup_is_timed else "after up to 20 minutes of set-up"
        checked_by = (
            f"mlperf-logging {found.ruleset}" if found.ruleset else f"the suite's rules {name}"
        )
        lines.append(
            f"| {name} | {clock} | {found.first_epoch} | {24 * found.bleu_scale:g} | {checked_by} |"
        )
    return [*lines, ""]


def tables() -> str:
    """Return all tables."""
    every = {name: shared_rows(name, WORKLOADS) for name in ROUNDS}
    alike = {_text(row) for rows in every.values() for row in rows}
    of_images = [row for row in shared_rows("v0.7", IMAGES) if _text(row) not in alike]
    lines = ["## The rounds", "", *rounds(), "## The default sets", "", SETS, "", *sets()]
    lines += ["## Every workload", "", *table(every)]
    lines += ["## Every workload that reads images", "", *table({"both rounds": of_images})]
    for workload, laxer in WORKLOADS.items():
        lines += of_workload(workload, laxer)
    llama = {name: list(found.rows) for name, found in workload_rounds(Llama).items()}
    lines += [f"## {Llama.name}", "", *table(llama)]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return a page's text with new tables between its marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
