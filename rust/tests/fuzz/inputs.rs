//! Numbers and fields that others choose.

use cogrs::spec::{FIELDS, FieldSpec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Small numbers, and those at which arithmetic goes wrong.
pub fn number() -> impl Strategy<Value = u64> {
    let edges = [31, 32, 33, 40, 61, 62, 63].map(|bits| 1_u64 << bits);
    let edges = edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]);
    let edges: Vec<u64> = edges.chain([u64::MAX]).collect();
    prop_oneof![6 => 0..5_u64, 2 => 0..300_u64, 1 => select(edges)]
}

pub fn size() -> impl Strategy<Value = usize> {
    number().prop_map(|number| number as usize)
}

pub fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => select(&[0.0, 0.5, 1.0, 2.0][..]),
        1 => any::<f64>(),
        1 => select(&[f64::NAN, f64::INFINITY, -1.0, 1e300, 1e-300][..]),
    ]
}

pub fn field() -> impl Strategy<Value = FieldSpec> {
    let dtype = select(&["<f4", "|u1", "<i8", "|S2000000000", "bfloat16", "", "[(", "\u{e9}"][..]);
    let itemsize = prop_oneof![4 => select(&[1, 4, 8][..]), 1 => size()];
    (dtype, itemsize, vec(size(), 0..4))
        .prop_map(|(dtype, itemsize, shape)| FieldSpec::new(dtype, itemsize, &shape))
}

/// Mostly fields that fit each other, so that the checks after them run too.
pub fn fields() -> impl Strategy<Value = [FieldSpec; FIELDS]> {
    let float = |shape: &[usize]| FieldSpec::new("<f4", 4, shape);
    let sound = (select(&[0_usize, 1, 3][..]), 0..9_usize).prop_map(move |(dims, bytes)| {
        let shape: &[usize] = if dims == 1 { &[] } else { &[dims] };
        let state = FieldSpec::new("|u1", 1, &[bytes]);
        let info = FieldSpec { shape: vec![0], ..state.clone() };
        let reward = float(shape);
        [state, info.clone(), reward.clone(), float(&[]), reward.clone(), reward, info]
    });
    let one = (sound.clone(), any::<Index>(), field()).prop_map(|(mut fields, at, field)| {
        *at.get_mut(&mut fields) = field;
        fields
    });
    prop_oneof![6 => sound, 1 => one]
}

pub fn small() -> [FieldSpec; FIELDS] {
    let float = || FieldSpec::new("<f4", 4, &[]);
    let bytes = |count| FieldSpec::new("|u1", 1, &[count]);
    let empty = || bytes(0);
    [bytes(3), empty(), float(), float(), float(), float(), empty()]
}
