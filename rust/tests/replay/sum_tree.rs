//! The sum tree against plain sums over a `Vec`.

use cogrs::replay::sum_tree::SumTree;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::fixtures::config;

/// Lengths at which a node, or a level, fills up or begins.
const EDGES: [usize; 10] = [1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097];

/// One change of weights.
#[derive(Debug, Clone)]
enum Edit {
    Run(Index, Vec<f32>),
    Many(Vec<(Index, f32)>),
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![select(&EDGES[..]), 1..=5000_usize]
}

/// Sums of these are exact in float64, in whatever order they are made.
fn whole() -> impl Strategy<Value = f32> + Clone {
    prop_oneof![2 => Just(0.0), 3 => (1..=1000_u16).prop_map(f32::from)]
}

/// Weights whose sums are rounded, far apart in size.
fn rough() -> impl Strategy<Value = f32> + Clone {
    let sizes = (-40..=40_i32, 1.0..2.0_f32).prop_map(|(power, part)| part * 2_f32.powi(power));
    prop_oneof![4 => Just(0.0), 4 => sizes, 1 => Just(f32::from_bits(1)), 1 => Just(f32::MAX)]
}

fn edits(weight: impl Strategy<Value = f32> + Clone) -> impl Strategy<Value = Vec<Edit>> {
    let run = (any::<Index>(), vec(weight.clone(), 0..400));
    let many = vec((any::<Index>(), weight), 0..150);
    let edit = prop_oneof![
        run.prop_map(|(first, weights)| Edit::Run(first, weights)),
        many.prop_map(Edit::Many),
    ];
    vec(edit, 1..8)
}

fn apply(tree: &mut SumTree, leaves: &mut [f32], edit: &Edit) {
    match edit {
        Edit::Run(first, weights) => {
            let first = first.index(leaves.len());
            let count = weights.len().min(leaves.len() - first);
            tree.set_run(first, weights[..count].iter().copied());
            leaves[first..first + count].copy_from_slice(&weights[..count]);
        }
        Edit::Many(weights) => {
            let weights: Vec<(usize, f32)> =
                weights.iter().map(|(leaf, weight)| (leaf.index(leaves.len()), *weight)).collect();
            let (changed, new): (Vec<u32>, Vec<f32>) =
                weights.iter().map(|&(leaf, weight)| (leaf as u32, weight)).unzip();
            tree.set_many(&changed, &new);
            for (leaf, weight) in weights {
                leaves[leaf] = weight;
            }
        }
    }
}

/// For each leaf the sum of the weights up to and with its own.
fn partial_sums(leaves: &[f32]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |&weight: &f32| {
        sum += f64::from(weight);
        sum
    };
    leaves.iter().map(add).collect()
}

/// Targets in the middle, at, and one rounding step around every partial sum, and beyond the total.
fn telling_targets(sums: &[f64], total: f64) -> Vec<f64> {
    let around = |&sum: &f64| [sum.next_down().max(0.0), sum, sum.next_up(), sum / 2.0];
    let mut targets: Vec<f64> = sums.iter().flat_map(around).collect();
    targets.extend([0.0, total.next_down(), total, total.next_up(), total * 2.0, f64::MAX]);
    targets
}

fn find(tree: &SumTree, targets: &[f64]) -> Vec<usize> {
    let mut found = Vec::new();
    tree.find(&mut targets.to_vec(), &mut found);
    found.into_iter().map(|leaf| leaf as usize).collect()
}

fn built(leaves: &[f32]) -> SumTree {
    let mut tree = SumTree::new(leaves.len()).unwrap();
    tree.set_run(0, leaves.iter().copied());
    tree
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn sums_counts_and_leaves_equal_those_of_a_vec(len in lengths(), edits in edits(whole())) {
        let mut tree = SumTree::new(len).unwrap();
        let mut leaves = vec![0.0; len];
        for edit in &edits {
            apply(&mut tree, &mut leaves, edit);
            let positive = leaves.iter().copied().filter(|&weight| weight > 0.0);
            let smallest = positive.clone().reduce(f32::min).unwrap_or(0.0);
            prop_assert_eq!(tree.total(), leaves.iter().map(|&weight| f64::from(weight)).sum::<f64>());
            prop_assert_eq!(tree.positive(), positive.count());
            prop_assert_eq!(tree.smallest(), smallest);
        }
        prop_assert!((0..len).all(|leaf| tree.get(leaf) == leaves[leaf]));
    }

    #[test]
    fn target_finds_the_leaf_whose_interval_holds_it(len in lengths(), edits in edits(whole())) {
        let mut tree = SumTree::new(len).unwrap();
        let mut leaves = vec![0.0; len];
        for edit in &edits {
            apply(&mut tree, &mut leaves, edit);
        }
        prop_assume!(tree.positive() > 0);
        let sums = partial_sums(&leaves);
        let last = leaves.iter().rposition(|&weight| weight > 0.0).unwrap();
        let targets = telling_targets(&sums, tree.total());
        for (target, leaf) in targets.iter().zip(find(&tree, &targets)) {
            let expected = sums.partition_point(|sum| sum <= target).min(last);
            prop_assert_eq!(leaf, expected, "target {}", target);
        }
    }

    #[test]
    fn rounding_never_finds_a_leaf_of_weight_zero(len in lengths(), edits in edits(rough())) {
        let mut tree = SumTree::new(len).unwrap();
        let mut leaves = vec![0.0; len];
        for edit in &edits {
            apply(&mut tree, &mut leaves, edit);
        }
        prop_assume!(tree.positive() > 0);
        let targets = telling_targets(&partial_sums(&leaves), tree.total());
        for (target, leaf) in targets.iter().zip(find(&tree, &targets)) {
            prop_assert!(leaves[leaf] > 0.0, "target {} found leaf {}", target, leaf);
        }
    }
}

#[test]
fn target_at_a_border_finds_the_leaf_after_it() {
    let mut tree = built(&[0.0; 40]);
    tree.set_many(&[3, 20, 39], &[1.0, 2.0, 4.0]);
    let found = find(&tree, &[0.0, 0.999, 1.0, 2.999, 3.0, 6.999, 7.0, 1e9]);
    assert_eq!(found, [3, 3, 20, 20, 39, 39, 39, 39]);
}

#[test]
fn first_and_last_leaf_are_reachable_at_every_length() {
    for len in 1..=5000 {
        let mut tree = SumTree::new(len).unwrap();
        tree.set_many(&[0, len as u32 - 1], &[1.0, 1.0]);
        let total = tree.total();
        let ends = [0.0, total.next_down(), total, f64::MAX];
        assert_eq!(find(&tree, &ends), [0, len - 1, len - 1, len - 1], "length {len}");
    }
}

#[test]
fn target_at_or_past_the_total_finds_the_last_positive_leaf() {
    let mut leaves = [0.0; 1000];
    (leaves[0], leaves[1]) = (1.0, 1.0);
    for len in [2, 16, 17, 256, 257, 1000] {
        let targets = [2.0_f64.next_down(), 2.0, 2.0_f64.next_up(), 4.0, f64::MAX];
        assert_eq!(find(&built(&leaves[..len]), &targets), [1; 5], "length {len}");
    }
}

#[test]
fn last_weight_of_a_leaf_given_twice_counts() {
    let mut tree = built(&[0.0; 40]);
    tree.set_many(&[7, 30, 7, 8, 8, 7], &[5.0, 1.0, 0.0, 0.0, 2.0, 0.0]);
    assert_eq!((tree.get(7), tree.get(8), tree.get(30)), (0.0, 2.0, 1.0));
    assert_eq!((tree.total(), tree.positive(), tree.smallest()), (3.0, 2, 1.0));
}

#[test]
fn empty_run_changes_nothing() {
    for first in 0..=33 {
        let mut tree = built(&[1.0; 33]);
        tree.set_run(first, std::iter::empty());
        assert_eq!((tree.total(), tree.positive()), (33.0, 33));
    }
}

#[test]
fn no_targets_find_no_leaves() {
    let mut found = vec![3, 4];
    built(&[1.0]).find(&mut [], &mut found);
    assert!(found.is_empty());
}

#[test]
fn tree_without_leaves_sums_to_zero() {
    let tree = SumTree::new(0).unwrap();
    assert_eq!((tree.total(), tree.positive(), tree.smallest()), (0.0, 0, 0.0));
}

#[test]
#[should_panic(expected = "nothing can be drawn from weights that are all 0")]
fn find_panics_when_all_weights_are_zero() {
    let mut tree = built(&[1.0; 20]);
    tree.set_run(0, [0.0; 20].into_iter());
    find(&tree, &[0.0]);
}

/// Log-uniform from 1e-6 to 1e6, and 0 half of the time.
fn far_apart(rng: &mut impl Rng) -> f32 {
    if rng.random() { 0.0 } else { 10_f32.powf(rng.random_range(-6.0..6.0)) }
}

#[test]
fn rounding_finds_at_most_a_neighbouring_leaf() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for _ in 0..800 {
        let len = rng.random_range(1..300);
        let mut leaves: Vec<f32> = (0..len).map(|_| far_apart(&mut rng)).collect();
        leaves[0] += 1.0;
        let tree = built(&leaves);
        let (sums, total) = (partial_sums(&leaves), tree.total());
        let targets = telling_targets(&sums, total);
        for (target, leaf) in targets.iter().zip(find(&tree, &targets)) {
            let inside = target.min(total);
            let beyond = (inside - sums[leaf]).max(sums[leaf] - f64::from(leaves[leaf]) - inside);
            assert!(beyond <= total * 1e-13, "target {target} of {total} found leaf {leaf}");
        }
    }
}

fn stays_exact_over(changes: usize) {
    const LEAVES: usize = 1000;
    const ROUND: usize = 1000;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20);
    let mut tree = SumTree::new(LEAVES).unwrap();
    let mut found = Vec::new();
    for _ in 0..changes / ROUND {
        let mut left = ROUND;
        while left > 0 {
            let batch = rng.random_range(1..=64).min(left);
            let change = |_| (rng.random_range(0..LEAVES as u32), far_apart(&mut rng));
            let (leaves, weights): (Vec<u32>, Vec<f32>) = (0..batch).map(change).unzip();
            tree.set_many(&leaves, &weights);
            left -= batch;
        }
        let sum: f64 = (0..LEAVES).map(|leaf| f64::from(tree.get(leaf))).sum();
        let total = tree.total();
        assert!((total - sum).abs() / sum <= 1e-9, "{total} against {sum}");
        let mut targets: Vec<f64> = (0..ROUND).map(|_| rng.random::<f64>() * total).collect();
        targets[..3].copy_from_slice(&[0.0, total.next_down(), total]);
        tree.find(&mut targets, &mut found);
        assert!(found.iter().all(|&leaf| tree.get(leaf as usize) > 0.0));
    }
}

#[test]
fn total_stays_exact_and_zero_leaves_unfound_over_a_million_changes() {
    stays_exact_over(1_000_000);
}

#[test]
#[ignore = "long form of the test above"]
fn total_stays_exact_and_zero_leaves_unfound_over_ten_million_changes() {
    stays_exact_over(10_000_000);
}

#[test]
fn leaves_are_drawn_in_proportion_to_their_weights() {
    const DRAWS: usize = 200_000;
    /// Chi-square with 99 degrees of freedom is above this once in a million seeds.
    const LIMIT: f64 = 180.79;
    let leaves: Vec<f32> = (0..120_u8).map(|leaf| f32::from(leaf % 6)).collect();
    let tree = built(&leaves);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let targets: Vec<f64> = (0..DRAWS).map(|_| rng.random::<f64>() * tree.total()).collect();
    let mut counts = vec![0.0; leaves.len()];
    for leaf in find(&tree, &targets) {
        counts[leaf] += 1.0;
    }
    let mut statistic = 0.0;
    for (&weight, count) in leaves.iter().zip(counts) {
        let expected = f64::from(weight) / tree.total() * DRAWS as f64;
        if expected == 0.0 {
            assert_eq!(count, 0.0);
        } else {
            statistic += (count - expected).powi(2) / expected;
        }
    }
    assert!(statistic < LIMIT, "chi-square is {statistic}");
}
