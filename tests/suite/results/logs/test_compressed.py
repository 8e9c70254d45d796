"""Compressed logs: they are read with bounded memory and time, or reported as compressed."""

import bz2
import gzip
import lzma
import subprocess
import sys

import pytest

from suite.commands import check
from suite.results import read
from suite.results.logs import compressed
from suite.results.logs.collect import collect
from testing.fake_logs import demo_log, write
from tests.helpers import subcommand

LOG = ("\n".join(demo_log()) + "\n").encode()
PACKED = {"gz": gzip.compress(LOG), "bz2": bz2.compress(LOG), "xz": lzma.compress(LOG)}


@pytest.mark.parametrize("name", ["result_0.txt.{}", "result_0.txt", "some.log.{}"])
@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_log_reads_like_the_plain_log(tmp_path, suffix, name):
    plain = read(write(tmp_path / "plain" / "result_0.txt", LOG))
    write(tmp_path / "packed" / name.format(suffix), PACKED[suffix])
    (run,) = collect([tmp_path / "packed"])
    assert run.status == "success"
    assert run.evaluations == plain.evaluations
    assert (run.digest, run.problems) == (plain.digest, plain.problems)


@pytest.mark.parametrize("first", [b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\x04\x22\x4d\x18"])
def test_an_unsupported_compression_is_reported_with_a_command(tmp_path, first):
    (run,) = collect([write(tmp_path / "result_0.txt.zst", first + b"\0" * 100).parent])
    assert run.status == "unreadable"
    assert "compressed with" in run.reason
    assert "Run: " in run.reason


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_a_damaged_compressed_file_is_a_problem(tmp_path, suffix, share):
    packed = PACKED[suffix]
    cut = packed[: max(10, int(share * len(packed)))]
    broken = (
        packed[: len(packed) // 2]
        + bytes([packed[len(packed) // 2] ^ 0x55])
        + packed[len(packed) // 2 + 1 :]
    )
    for data in (cut, broken):
        record = read(write(tmp_path / "result_0.txt", data))
        assert any("damaged or incomplete" in problem.text for problem in record.problems)


def test_a_log_that_decompresses_to_too_much_is_read_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(compressed, "MAX_DECOMPRESSED_BYTES", 1 << 20)
    path = write(tmp_path / "result_0.txt", gzip.compress(LOG + b"x\n" * (1 << 21)))
    record = read(path)
    assert len(record.evaluations) == 3
    assert any("after decompression" in problem.text for problem in record.problems)
    assert subcommand(check, str(path))


def test_a_decompression_bomb_takes_little_memory(tmp_path):
    path = tmp_path / "result_0.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    program = (
        "import sys; from pathlib import Path; from suite.results import read;"
        " print(read(sys.argv[1]).problems[0].text)\nprint(next(line for line in"
        " Path('/proc/self/status').read_text().splitlines() if line.startswith('VmHWM')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert "after decompression" in ended.stdout
    peak_kib = int(ended.stdout.split("VmHWM:")[1].split()[0])
    assert peak_kib < 400 << 10
