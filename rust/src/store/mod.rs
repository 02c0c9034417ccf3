//! Samples of trials, as the columns of the file that a store keeps of each.
//!
//! | question | file |
//! |---|---|
//! | the fields of a serialized message | [`wire`] |
//! | a sample, read in place | [`sample`] |
//! | what an observation or an action is, and its data | [`payload`] |
//! | columns as Arrow lays them out in memory | [`arrow`] |
//! | a sample as rows, and what the index says of a trial | [`sample_columns`] |
//!
//! A store takes in a hundred thousand samples per second, which allows for no Python object per value.

pub mod arrow;
pub mod payload;
pub mod sample;
pub mod sample_columns;
pub mod wire;
