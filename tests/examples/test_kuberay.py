"""The manifest for KubeRay: fields of RayJob v1, and names that the example has."""

import importlib.util
import shlex
from pathlib import Path, PurePosixPath

import pytest
import yaml

from cogrs.cluster import Plan

EXAMPLE = Path(__file__).parents[2] / "examples/cluster"
APP = PurePosixPath("/app")
# Of KubeRay's RayJob and RayCluster, v1.
JOB = {
    "activeDeadlineSeconds",
    "backoffLimit",
    "clusterSelector",
    "entrypoint",
    "entrypointNumCpus",
    "entrypointNumGpus",
    "entrypointResources",
    "jobId",
    "managedBy",
    "metadata",
    "rayClusterSpec",
    "runtimeEnvYAML",
    "shutdownAfterJobFinishes",
    "submissionMode",
    "submitterConfig",
    "submitterPodTemplate",
    "suspend",
    "ttlSecondsAfterFinished",
}
CLUSTER = {
    "autoscalerOptions",
    "enableInTreeAutoscaling",
    "gcsFaultToleranceOptions",
    "headGroupSpec",
    "headServiceAnnotations",
    "managedBy",
    "rayVersion",
    "suspend",
    "workerGroupSpecs",
}
HEAD = {"enableIngress", "headService", "rayStartParams", "serviceType", "template"}
WORKERS = {
    "groupName",
    "idleTimeoutSeconds",
    "maxReplicas",
    "minReplicas",
    "numOfHosts",
    "rayStartParams",
    "replicas",
    "scaleStrategy",
    "suspend",
    "template",
}


@pytest.fixture(scope="module")
def job():
    return yaml.safe_load((EXAMPLE / "kuberay.yaml").read_text(encoding="utf-8"))


def groups(job):
    cluster = job["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def container(group):
    (only,) = group["template"]["spec"]["containers"]
    return only


def cpus(group):
    return int(container(group)["resources"]["limits"]["cpu"])


def test_manifest_has_fields_of_kuberay_alone(job):
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert job["spec"].keys() <= JOB
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster.keys() <= CLUSTER
    assert cluster["headGroupSpec"].keys() <= HEAD
    for workers in cluster["workerGroupSpecs"]:
        assert workers.keys() <= WORKERS
        assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    head = container(cluster["headGroupSpec"])
    assert {each["name"]: each["containerPort"] for each in head["ports"]} == {
        "gcs-server": 6379,  # where docs/cluster.md joins a cluster
        "dashboard": 8265,
        "client": 10001,
    }
    assert len({container(each)["image"] for each in groups(job)}) == 1


def test_entrypoint_runs_the_example_with_its_plan(job, monkeypatch, capsys):
    python, program, *arguments = shlex.split(job["spec"]["entrypoint"])
    assert python == "python"
    where = EXAMPLE / PurePosixPath(program).relative_to(APP)
    spec = importlib.util.spec_from_file_location("kuberay_apex", where)
    apex = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(apex)
    # Its help names the options that it takes.
    monkeypatch.setattr("sys.argv", [program, "--help"])
    with pytest.raises(SystemExit) as ended:
        apex.main()
    assert ended.value.code == 0
    options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert arguments[0] == "--ray"
    assert options.keys() == {"--address", "--plan"}
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("--ray", *options))
    assert (EXAMPLE / PurePosixPath(options["--plan"]).relative_to(APP)).is_file()


def test_pods_import_the_plan_s_modules_and_share_its_storage(job):
    plan = Plan.from_toml(EXAMPLE / "plan.toml")
    for path in (plan.policy, plan.learner):
        assert (EXAMPLE / f"{path.partition(':')[0]}.py").is_file()
    storage = APP / Path(plan.storage).relative_to(EXAMPLE)
    for group in groups(job):
        assert {"name": "PYTHONPATH", "value": str(APP)} in container(group)["env"]
        (mount,) = container(group)["volumeMounts"]
        assert mount["mountPath"] == str(storage)
        (volume,) = group["template"]["spec"]["volumes"]
        assert volume["name"] == mount["name"]
        assert volume["persistentVolumeClaim"] == {"claimName": "runs"}


def test_cluster_has_room_for_the_plan(job):
    plan = Plan.from_toml(EXAMPLE / "plan.toml")
    head, *workers = groups(job)
    room = cpus(head) + sum(each["minReplicas"] * cpus(each) for each in workers)
    assert room >= 1 + plan.shards + plan.actors
