//! Samples of trials, as the file that a store keeps of each.
//!
//! | question | file |
//! |---|---|
//! | the fields of a serialized message | [`wire`] |
//! | a sample, read in place | [`sample`] |
//! | what an observation or an action is, and its data | [`payload`] |
//! | columns that grow with the rows of a trial; those of lists | [`columns`]; [`list_columns`] |
//! | the Parquet file that has them | [`parquet`] |
//! | the frames of journals, which hold samples of trials that have not ended | [`journal_frames`] |
//! | a sample as rows of a file, and what the index says of a trial | [`sample_columns`] |
//!
//! A store takes in a hundred thousand samples per second, which allows for no Python object per value.

pub mod columns;
pub mod journal_frames;
pub mod list_columns;
pub mod parquet;
pub mod payload;
pub mod sample;
pub mod sample_columns;
pub mod wire;
