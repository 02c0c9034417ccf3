"""Which parts have no room, as text; needs Ray's module alone."""

import pytest

pytest.importorskip("ray", reason="tests of cogrs.ray need: pip install 'cogrs[ray]'")

from cogrs.ray.part import folder_of
from cogrs.ray.placement import no_room

ONE = {"CPU": 1.0}


def test_bundle_that_fits_no_node_is_named_with_the_nodes():
    bundles = [("learner 0", ONE), ("shard 0", ONE), ("shard 1", {"CPU": 3.0})]
    text = no_room(bundles, {"10.0.0.1": {"CPU": 2.0}, "10.0.0.2": {"CPU": 2.0}}, 30)
    assert text == (
        "no room within 30 s: shard 1 needs 3 CPU; 10.0.0.1 has 2 CPU and 0 GPU; "
        "10.0.0.2 has 2 CPU and 0 GPU"
    )


def test_cluster_that_others_use_is_told_apart():
    text = no_room([("learner 0", ONE)], {"10.0.0.1": {"CPU": 2.0}}, 30)
    assert text.startswith("no room within 30 s, for others use the nodes: ")


def test_plan_of_another_launch_makes_a_node_forget_the_one_before(tmp_path):
    files = {"plan.json": b'{"path": [], "generation": 1}', "keys/a.key": b"1"}
    folder = folder_of(str(tmp_path / "run"), files)
    folder.write("state.json", {"state": "ended", "error": ""})
    assert folder_of(str(tmp_path / "run"), files).has("state.json")
    files["plan.json"] = b'{"path": [], "generation": 2}'
    assert not folder_of(str(tmp_path / "run"), files).has("state.json")
