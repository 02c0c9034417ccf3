"""Fewer combinations, in which all pairs of values still meet."""

from __future__ import annotations

import itertools

import pytest

from tests import combinations


@pytest.mark.parametrize(
    "sizes", [(2, 2, 2), (4, 4, 2), (2, 4, 3), (3, 3, 3), (2, 2, 2, 2), (2, 3, 2, 4)]
)
def test_pairwise_holds_all_pairs_of_values_in_fewer_combinations(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combinations, "SOAK", False)
    axes = [[f"{axis}{at}" for at in range(size)] for axis, size in enumerate(sizes)]
    chosen = combinations.pairwise(*axes)
    whole = list(itertools.product(*axes))
    assert [combination for combination in whole if combination in chosen] == chosen
    assert len(chosen) < len(whole)
    for one, other in itertools.combinations(range(len(axes)), 2):
        met = {(combination[one], combination[other]) for combination in chosen}
        assert met == set(itertools.product(axes[one], axes[other]))


def test_pairwise_is_the_whole_product_in_the_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combinations, "SOAK", True)
    assert combinations.pairwise("ab", "cd", "ef") == list(itertools.product("ab", "cd", "ef"))
