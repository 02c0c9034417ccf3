//! Parquet files with the columns of data logs, written without a library that knows all of Parquet.
//!
//! | question | file |
//! |---|---|
//! | the columns, and how deep their values lie | [`schema`] |
//! | levels and numbers in runs | [`runs`] |
//! | headers, in Thrift's compact protocol | [`thrift`] |
//! | a file: pages, row groups, footer | [`mod@file`] |
//!
//! A trial is a small file of 26 columns. The general writer of pyarrow takes a millisecond to set up and
//! describe them; the `parquet` crate (60.1) writes such a file in 135 us where this takes 42, and brings
//! twenty crates. The format is that of
//! <https://parquet.apache.org/docs/file-format/>, version 1 of its data pages; pages are plain or of a
//! dictionary, compressed by Snappy where that makes a column smaller, and have no statistics.

pub mod file;
pub mod runs;
pub mod schema;
pub mod thrift;
