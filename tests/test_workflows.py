import re
from pathlib import Path

import pytest
import yaml

WORKFLOWS = Path(__file__).parents[1] / ".github" / "workflows"
PATHS = sorted(WORKFLOWS.glob("*.yml"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow, action):
    return [
        step.get("with", {})
        for job in workflow["jobs"].values()
        for step in job["steps"]
        if step.get("uses", "").startswith(action + "@")
    ]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_rights_are_to_read(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    uses = [
        step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert uses
    for each in uses:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", each), each


def test_published_artifacts_are_the_tested_artifacts():
    release = read(WORKFLOWS / "release.yml")
    publish = release["jobs"].pop("publish")
    rows = {
        job: release["jobs"][job]["strategy"]["matrix"]["include"] for job in ("linux", "others")
    }
    made = {"sdist"}
    made |= {f"wheel-linux-{row['machine']}" for row in rows["linux"]}
    made |= {f"wheel-{row['machine']}" for row in rows["others"]}
    taken = steps({"jobs": {"publish": publish}}, "actions/download-artifact")
    assert sorted(each["name"] for each in taken) == sorted(made)
    tested = {
        f"wheel-{each}" for each in release["jobs"]["pythons"]["strategy"]["matrix"]["machine"]
    }
    assert tested == made - {"sdist"}
    assert f"-eq {len(made)}" in str(publish["steps"])


def test_tools_that_build_a_release_are_pinned_by_hash():
    pinned = (WORKFLOWS.parents[1] / "scripts/build/requirements.txt").read_text(encoding="utf-8")
    for line in re.findall(r"^[a-z][^\n]*", pinned, re.MULTILINE):
        assert re.match(r"[a-z0-9-]+==[0-9.]+ ?.*\\$", line), line
    assert pinned.count("--hash=sha256:") >= 6
    installs = re.findall(
        r"pip install (.*)", (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    )
    assert installs
    assert all(each.startswith("--require-hashes") for each in installs)
