"""`launch=kubernetes`: the objects are valid for the API's schemas, and kubectl gets them."""

import shlex
import stat

import kubernetes_validate
import pytest
import yaml

from tests.helpers import run_suite_here

API = ("1.28.0", "1.37.0")
"""The oldest version that labels pods with their index, and the newest version with a schema."""
SSD = (
    "workload=ssd",
    "device=cuda",
    "launch=kubernetes",
    "launch.kubernetes.image=x/y:z",
    "launch.kubernetes.logs=results",
)
NCF = (
    "workload=ncf",
    "profile=demo",
    "launch=kubernetes",
    "launch.kubernetes.image=y",
    "launch.kubernetes.logs=/raid/logs",
)


def written(tmp_path, *words):
    """Return the objects of a command by kind, after validating each of them.

    The schema of a JobSet is not part of the API, so the job inside it is validated.
    """
    done = run_suite_here(tmp_path, *words, f"output={tmp_path / 'A_b.1'}", "dry_run=true", exits=0)
    assert not (tmp_path / "A_b.1").exists()
    found = {item["kind"]: item for item in yaml.safe_load_all(done.stdout)}
    if "JobSet" in found:
        (replicated,) = found["JobSet"]["spec"]["replicatedJobs"]
        found["Job"] = {
            **replicated["template"],
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job"},
        }
    for item in (found[kind] for kind in found if kind != "JobSet"):
        for version in API:
            kubernetes_validate.validate(item, version, strict=True)
    return found


@pytest.mark.parametrize(
    ("words", "pods", "limits", "volumes", "first"),
    [
        ((*SSD, "gpus=16", "nodes=2"), 2, {"nvidia.com/gpu": 8}, {"logs": "/logs"},
         "suite-a-b-1-0.suite-a-b-1"),
        ((*SSD, "-m", "gpus=4,8", "nodes=1,4", "launch.kubernetes.jobset=true"), 4,
         {"nvidia.com/gpu": 8}, {"logs": "/logs"}, "suite-a-b-1-run-0-0.suite-a-b-1"),
        ((*NCF, "gpus=6", "nodes=3", "cpu.cores_per_device=2", "launch.kubernetes.data=sets"), 3,
         {"cpu": 4}, {"data": "/data", "logs": "/raid/logs"}, "suite-a-b-1-0.suite-a-b-1"),
        ((*NCF, "cpu.cores_per_device=all"), 1, {}, {"logs": "/raid/logs"},
         "suite-a-b-1-0.suite-a-b-1"),
    ],
)  # fmt: skip
def test_a_job_is_valid_for_the_api(tmp_path, words, pods, limits, volumes, first):
    found = written(tmp_path, *words)
    spec = found["Job"]["spec"]
    assert (
        spec["completions"],
        spec["parallelism"],
        spec["completionMode"],
        spec["backoffLimit"],
    ) == (
        pods,
        pods,
        "Indexed",
        0,
    )
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == limits
    mounts = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
    assert mounts == {"shm": "/dev/shm", **volumes}
    assert {item["name"] for item in pod["volumes"]} == set(mounts)
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert (env["WORLD_SIZE"], env["MASTER_ADDR"]) == (str(pods), first)
    assert env.get("SUITE_DATA_DIR") == volumes.get("data")
    labels = spec["template"]["metadata"]["labels"]
    if "JobSet" in found:
        assert "Service" not in found
    else:
        assert found["Service"]["spec"]["selector"] == labels
        assert found["Service"]["metadata"]["name"] == pod["subdomain"]
    assert found["Secret"]["stringData"]["token"] not in str({**found, "Secret": None})
    ours = (
        "launch.kubernetes.image",
        "launch.kubernetes.logs",
        "launch.kubernetes.data",
        "launch.kubernetes.jobset",
        "launch=kubernetes",
        "dry_run",
        "output=",
    )
    kept = [word for word in words if not word.startswith(ours)]
    end = [
        "launch=external",
        "launch.wait_seconds=600",
        f"output={volumes['logs']}/A_b.1",
        "resume=true",
    ]
    assert container["command"] == ["suite", "run", *kept, *end]


def test_nodes_are_chosen_by_their_labels(tmp_path):
    labels = "[example.org/gpu=h100,zone=]"
    pod = written(tmp_path, *SSD, f"launch.kubernetes.node_selector={labels}")["Job"]["spec"][
        "template"
    ]["spec"]
    assert pod["nodeSelector"] == {"example.org/gpu": "h100", "zone": ""}


K = "launch.kubernetes"
IMAGE, LOGS = f"{K}.image=a", f"{K}.logs=a"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((LOGS,), f"launch=kubernetes: expected an image. Set {K}.image=NAME:TAG"),
        ((f"{K}.image='a b'", LOGS), f"{K}.image=a b: expected an image. Set {K}.image=NAME:TAG"),
        (
            (IMAGE,),
            f"launch=kubernetes: logs inside a pod would be lost with the pod. Set {K}.logs=CLAIM",
        ),
        ((IMAGE, f"{K}.logs=a/b"), f"{K}.logs=a/b: expected the name of a claim"),
        ((IMAGE, LOGS, f"{K}.data=/a:/b"), f"{K}.data=/a:/b: expected the name of a claim"),
        (
            (IMAGE, LOGS, f"{K}.node_selector=[h100]"),
            f"{K}.node_selector: h100 is not a label. Set",
        ),
        (
            (IMAGE, LOGS, "gpus=3", "nodes=2"),
            "nodes=2 gpus=3: every machine must have the same number",
        ),
        ((IMAGE, LOGS, "precision=tf32", "device=cpu"), "precision=tf32: only GPUs support it"),
        (
            ("launch=ssh", "launch.hosts=[a]", IMAGE),
            f"{IMAGE}: launch.by is ssh. Set launch=kubernetes",
        ),
        ((IMAGE, LOGS, f"{K}.submit=true"), "launch=kubernetes: kubectl is not installed here"),
    ],
)
def test_invalid_options_of_kubernetes_are_refused(tmp_path, words, message):
    by = () if words[0].startswith("launch=") else ("launch=kubernetes",)
    output = tmp_path / "out"
    done = run_suite_here(
        tmp_path,
        "workload=ncf",
        "profile=demo",
        *by,
        *words,
        f"output={output}",
        PATH="/nowhere",
        exits=2,
    )
    assert done.stderr.startswith(f"run_suite.py: {message}")
    assert done.stderr.count("\n") == 1
    assert output.exists() == ("launch.kubernetes.submit=true" in words)


@pytest.mark.parametrize(
    "refusal", ["", "error: You must be logged in to the server (Unauthorized)"]
)
def test_kubectl_gets_the_file_and_the_file_is_never_overwritten(tmp_path, refusal):
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "{refusal}" >&2\nexit {len(refusal)}\n'
    )
    program.chmod(0o755)
    file = tmp_path / "out" / "kubernetes.yaml"
    words = (*NCF, "launch.kubernetes.submit=true", f"output={file.parent}")
    path = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    done = run_suite_here(tmp_path, *words, **path, exits=2 if refusal else 0)
    assert (tmp_path / "asked").read_text() == f"apply --filename={file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it holds a secret"
    if refusal:
        assert (
            f"launch=kubernetes: {refusal}. The job is in {file}. Run: kubectl apply" in done.stderr
        )
    else:
        assert (
            "submitted as suite-out. It writes to out in launch.kubernetes.logs=/raid/logs"
            in done.stdout
        )
        assert f"kubectl delete {shlex.quote(f'--filename={file}')}" in done.stdout
    text = file.read_text()
    done = run_suite_here(tmp_path, *words, **path, exits=2)
    assert f"{file} exists and may have been edited" in done.stderr
    assert file.read_text() == text
