//! The columns of a memory's compressed fields, and the bytes that they may take together.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::replay::compressed_column::{ColumnUse, CompressedColumn};
use crate::replay::compression::{Compression, EncodedRows};
use crate::replay::free_slots::SlotRun;
use crate::replay::storage_folder::StorageFolder;
use crate::replay::value_heap::ValueHeap;
use crate::spec::{EntrySpec, Field};

/// The columns of the compressed fields.
#[derive(Debug)]
pub(super) struct CompressedFields {
    pub compression: Compression,
    columns: Vec<(Field, CompressedColumn)>,
    /// Bytes that values may take.
    pub limit: u64,
    /// Bytes that the values of one entry take at most.
    largest: u64,
}

impl CompressedFields {
    /// Columns for `slots` entries, whose values take at most `limit` bytes. Fails with [`Error::Memory`] when the system
    /// refuses, with [`Error::Value`] when not even one entry fits.
    pub fn new(
        compression: Compression,
        spec: &EntrySpec,
        slots: usize,
        limit: u64,
        folder: Option<&Arc<StorageFolder>>,
    ) -> Result<Self> {
        let largest = compression.largest(spec, 1) as u64;
        if let Some(given) = compression.max_bytes.filter(|&given| given < largest) {
            let expected = format!("at least {largest}, which an entry may take");
            return Err(Error::value("max_bytes", expected, given));
        }
        let columns = compression.fields().map(|(field, codec)| {
            let heap = folder.map(|folder| ValueHeap::new(folder, limit)).transpose()?;
            Ok((field, CompressedColumn::new(codec, spec[field].nbytes(), slots, heap)?))
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { compression, columns, limit, largest })
    }

    pub fn column(&self, field: Field) -> Option<&CompressedColumn> {
        self.columns.iter().find(|(of, _)| *of == field).map(|(_, column)| column)
    }

    pub fn columns(&self) -> impl Iterator<Item = &(Field, CompressedColumn)> {
        self.columns.iter()
    }

    pub fn columns_mut(&mut self) -> impl Iterator<Item = &mut (Field, CompressedColumn)> {
        self.columns.iter_mut()
    }

    pub fn column_mut(&mut self, field: Field) -> Option<&mut CompressedColumn> {
        self.columns.iter_mut().find(|(of, _)| *of == field).map(|(_, column)| column)
    }

    /// Bytes that values take.
    pub fn bytes(&self) -> u64 {
        self.columns.iter().map(|(_, column)| column.held().bytes).sum()
    }

    /// Bytes that the values of open episodes take.
    pub fn open_bytes(&self) -> u64 {
        self.columns.iter().map(|(_, column)| column.open_bytes()).sum()
    }

    /// Bytes that the values of `count` entries take at most.
    pub fn largest(&self, count: usize) -> u64 {
        self.largest.saturating_mul(count as u64)
    }

    /// Bytes that the values take of a memory that is full, if they compress as those held do.
    pub fn expected(&self, slots: usize) -> u64 {
        let of = |(_, column): &(Field, CompressedColumn)| {
            let ColumnUse { values, bytes, .. } = column.held();
            let largest = u128::from(column.largest()) * slots as u128;
            (u128::from(bytes) * slots as u128).checked_div(u128::from(values)).unwrap_or(largest)
        };
        let sum: u128 = self.columns.iter().map(of).sum();
        u64::try_from(sum).unwrap_or(u64::MAX).min(self.limit)
    }

    /// Reserves room in the files for `count` further entries, whose values take so many bytes, and returns the bytes that all
    /// files have. Fails with [`Error::File`].
    pub fn reserve(&mut self, bytes: u64, count: usize) -> Result<u64> {
        for (_, column) in &mut self.columns {
            column.reserve(bytes, count as u64)?;
        }
        Ok(self.reserved())
    }

    /// Bytes that the files have on the disk.
    pub fn reserved(&self) -> u64 {
        let heaps = self.columns.iter().filter_map(|(_, column)| column.heap());
        heaps.map(|heap| heap.used().0.reserved()).sum()
    }

    /// Bytes of values that lie in memory.
    pub fn bytes_in_memory(&self) -> u64 {
        let filed = |column: &CompressedColumn| column.heap().map_or(0, |heap| heap.held);
        self.columns.iter().map(|(_, column)| column.held().bytes - filed(column)).sum()
    }

    pub fn close(&mut self, index: u32) {
        self.columns.iter_mut().for_each(|(_, column)| column.close(index));
    }

    pub fn forget(&mut self, index: u32) {
        self.columns.iter_mut().for_each(|(_, column)| column.forget(index));
    }

    pub fn append(&mut self, index: u32, runs: &[SlotRun], encoded: EncodedRows) {
        for ((_, column), frames) in self.columns.iter_mut().zip(encoded.frames) {
            let slots = runs.iter().flat_map(|run| run.start as usize..run.end() as usize);
            column.append(index, slots, frames);
        }
    }
}
