"""The notebook in docs/how-to/analyze_in_a_notebook.md runs on local and published logs.

Its printed conclusion is the conclusion on the page.
"""

from testing.fake_logs import write_run
from tests.helpers import PROJECT

PAGE = PROJECT / "docs" / "how-to/analyze_in_a_notebook.md"


def test_the_notebook_draws_three_figures_and_prints_its_conclusion(tmp_path, monkeypatch, capsys):
    for devices, seconds in ((1, 2.0), (2, 1.2)):
        write_run(tmp_path / "logs", f"ncf-{devices}", devices=devices, seconds_per_epoch=seconds)
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text().split("## From logs to a conclusion")[1].split("\n## ")[0]
    kinds = [part.partition("\n") for part in section.split("```")[1::2]]
    exec("".join(code for kind, _, code in kinds if kind == "python"), names := {})
    figures = {path.name: path.read_bytes()[:4] for path in tmp_path.glob("*.png")}
    assert figures == dict.fromkeys(("quality.png", "rates.png", "published.png"), b"\x89PNG")
    assert names["label_text"] == "cpu, demo"
    assert capsys.readouterr().out == next(text for kind, _, text in kinds if kind == "text")
    assert [(row["devices"], round(row["seconds"])) for row in names["times"]] == [
        (8, 1749),
        (64, 272),
        (1024, 34),
        (4320, 21),
    ]
