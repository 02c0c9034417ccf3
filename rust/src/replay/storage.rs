//! The bytes of entries: a column per large field, and one record with all small fields.
//!
//! A sample reads all fields of an entry: with one record for the small ones these are one or two cache lines instead of
//! seven. With a column of its own, the frames of a stack are adjacent and copied in one go; each frame is stored once.
//! With a folder, columns of states, actions and infos are files there.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::replay::compressed_fields::CompressedFields;
use crate::replay::compression::Compression;
use crate::replay::mapped_array::MappedArray;
use crate::replay::storage_files::{RECORD_FIELD, StorageFiles, is_stored_in_file};
use crate::replay::storage_folder::{ColumnFile, StorageFolder};
use crate::spec::{EntrySpec, FIELDS, Field};

/// Where a field lies: in `columns[column]`, `offset` bytes into rows of `stride` bytes.
#[derive(Debug, Clone, Copy)]
struct FieldLocation {
    column: usize,
    offset: usize,
    stride: usize,
    size: usize,
}

/// Where each field that is not compressed lies, and the bytes per row of each column.
fn layout(spec: &EntrySpec, compression: &Compression) -> ([FieldLocation; FIELDS], Vec<usize>) {
    let mut locations = [FieldLocation { column: 0, offset: 0, stride: 0, size: 0 }; FIELDS];
    let mut strides = vec![0];
    for field in Field::ALL.into_iter().filter(|&field| compression.codec(field).is_none()) {
        let size = spec[field].nbytes();
        let location = &mut locations[field.index()];
        location.size = size;
        if size <= RECORD_FIELD {
            location.offset = strides[0];
            strides[0] += size;
        } else {
            location.column = strides.len();
            strides.push(size);
        }
    }
    for location in &mut locations {
        location.stride = strides[location.column];
    }
    (locations, strides)
}

/// Bytes per row of each column of a memory.
pub(super) fn strides(spec: &EntrySpec, compression: &Compression) -> Vec<usize> {
    layout(spec, compression).1
}

/// Rows of entries, addressed by slot.
#[derive(Debug)]
pub struct Storage {
    locations: [FieldLocation; FIELDS],
    strides: Vec<usize>,
    columns: Vec<MappedArray<u8>>,
    /// Fields that lie in no column here, where their size is 0.
    pub(super) compressed: Option<Box<CompressedFields>>,
    /// With a folder, what lies there.
    pub(super) files: Option<Box<StorageFiles>>,
}

impl Storage {
    /// Reserves `slots` rows, of whose compressed fields the values take at most `limit` bytes. Fails with
    /// [`crate::error::Error::Memory`] when the system refuses, with [`crate::error::Error::Value`] for a limit that no entry
    /// fits into, with [`crate::error::Error::File`] for a folder that cannot be written.
    pub fn new(
        spec: &EntrySpec,
        compression: Compression,
        slots: usize,
        limit: u64,
        folder: Option<&Arc<StorageFolder>>,
    ) -> Result<Self> {
        let (locations, strides) = layout(spec, &compression);
        let is_in_file = |column: usize| {
            let of = |field: &Field| locations[field.index()].column == column;
            column > 0
                && Field::ALL
                    .iter()
                    .find(|field| of(field))
                    .is_some_and(|&field| is_stored_in_file(spec, field))
        };
        let mut files = folder.map(|folder| Box::new(StorageFiles::new(folder)));
        let mut columns = Vec::with_capacity(strides.len());
        for (column, &stride) in strides.iter().enumerate() {
            let size = stride.saturating_mul(slots);
            columns.push(match &mut files {
                Some(files) if is_in_file(column) => {
                    let file = ColumnFile::new(&files.folder, size)?;
                    let array = file.map(size)?;
                    files.columns.push((column, stride, file));
                    array
                }
                _ => MappedArray::new(size)?,
            });
        }
        let compressed = if compression.is_empty() {
            None
        } else {
            Some(Box::new(CompressedFields::new(compression, spec, slots, limit, folder)?))
        };
        Ok(Self { locations, strides, columns, compressed, files })
    }

    /// The number of columns: the record and one per large field.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Whether a column lies in a file.
    pub fn is_in_file(&self, column: usize) -> bool {
        let files = self.files.iter().flat_map(|files| &files.columns);
        files.into_iter().any(|&(number, ..)| number == column)
    }

    /// Has the system begin to read the rows of a field that lie in files, and may not be in memory: those of so many entries
    /// up to each slot.
    pub fn read_ahead(&self, field: Field, slots: &[u32], count: usize) {
        let FieldLocation { column, stride, .. } = self.locations[field.index()];
        if !self.files.as_ref().is_some_and(|files| files.reads_ahead) || !self.is_in_file(column) {
            return;
        }
        for end in slots.iter().map(|&slot| slot as usize + 1) {
            self.columns[column].read_ahead(end.saturating_sub(count) * stride..end * stride);
        }
    }

    pub fn rows(&self, column: usize, slots: Range<usize>) -> &[u8] {
        let stride = self.strides[column];
        &self.columns[column][slots.start * stride..slots.end * stride]
    }
    pub fn rows_mut(&mut self, column: usize, slots: Range<usize>) -> &mut [u8] {
        let stride = self.strides[column];
        &mut self.columns[column][slots.start * stride..slots.end * stride]
    }
    #[inline]
    pub fn field(&self, field: Field, slot: usize) -> &[u8] {
        let location = self.locations[field.index()];
        let start = slot * location.stride + location.offset;
        &self.columns[location.column][start..start + location.size]
    }
    #[inline]
    pub fn field_mut(&mut self, field: Field, slot: usize) -> &mut [u8] {
        let location = self.locations[field.index()];
        let start = slot * location.stride + location.offset;
        &mut self.columns[location.column][start..start + location.size]
    }

    /// Sets fields of an entry, and with `zero` all others to zeros.
    pub fn set(&mut self, slot: usize, values: &[(Field, &[u8])], zero: bool) {
        let mut columns = self.columns.iter_mut().zip(&self.strides);
        // Most fields are in the record: its place is computed once.
        if let Some((column, &stride)) = columns.next() {
            let record = &mut column[slot * stride..][..stride];
            if zero {
                record.fill(0);
            }
            for (field, value) in values {
                let location = self.locations[field.index()];
                if location.column == 0 {
                    copy(&mut record[location.offset..][..location.size], value);
                }
            }
        }
        for (number, (column, &stride)) in (1..).zip(columns) {
            let is_here =
                |(field, _): &&(Field, &[u8])| self.locations[field.index()].column == number;
            match values.iter().find(is_here) {
                Some((_, value)) => column[slot * stride..][..stride].copy_from_slice(value),
                None if zero => column[slot * stride..][..stride].fill(0),
                None => {}
            }
        }
    }

    pub fn read_run(&self, field: Field, slot: usize, count: usize, out: &mut [u8]) {
        let location = self.locations[field.index()];
        if location.size == 0 || count == 0 {
            return;
        }
        if location.stride == location.size {
            let column = &self.columns[location.column];
            out.copy_from_slice(&column[slot * location.size..][..count * location.size]);
            return;
        }
        match location.size {
            1 => self.read_run_sized::<1>(location, slot, out),
            2 => self.read_run_sized::<2>(location, slot, out),
            4 => self.read_run_sized::<4>(location, slot, out),
            8 => self.read_run_sized::<8>(location, slot, out),
            16 => self.read_run_sized::<16>(location, slot, out),
            32 => self.read_run_sized::<32>(location, slot, out),
            size => {
                let slots = slot as u32..(slot + count) as u32;
                for (slot, out) in slots.zip(out.chunks_exact_mut(size)) {
                    out.copy_from_slice(self.field(field, slot as usize));
                }
            }
        }
    }

    fn read_run_sized<const SIZE: usize>(
        &self,
        location: FieldLocation,
        slot: usize,
        out: &mut [u8],
    ) {
        let FieldLocation { column, offset, stride, .. } = location;
        let rows = self.columns[column][slot * stride..].chunks_exact(stride);
        for (row, value) in rows.zip(out.as_chunks_mut::<SIZE>().0) {
            value.copy_from_slice(&row[offset..][..SIZE]);
        }
    }

    pub fn write_run(&mut self, field: Field, slot: usize, values: &[u8]) {
        let location = self.locations[field.index()];
        if location.size == 0 {
            return;
        }
        if location.stride == location.size {
            self.columns[location.column][slot * location.size..][..values.len()]
                .copy_from_slice(values);
            return;
        }
        match location.size {
            4 => self.scatter_sized::<4>(location, slot, values),
            8 => self.scatter_sized::<8>(location, slot, values),
            16 => self.scatter_sized::<16>(location, slot, values),
            size => {
                for (row, value) in values.chunks_exact(size).enumerate() {
                    self.field_mut(field, slot + row).copy_from_slice(value);
                }
            }
        }
    }

    fn scatter_sized<const SIZE: usize>(
        &mut self,
        location: FieldLocation,
        slot: usize,
        values: &[u8],
    ) {
        let rows = self.columns[location.column][slot * location.stride..]
            .chunks_exact_mut(location.stride);
        for (row, value) in rows.zip(values.as_chunks::<SIZE>().0) {
            row[location.offset..][..SIZE].copy_from_slice(value);
        }
    }

    pub fn gather(&self, field: Field, slots: &[u32], out: &mut [u8]) {
        // A copy of constant size is one or two moves instead of a call; most fields have one of these sizes.
        match self.locations[field.index()].size {
            0 => {}
            1 => self.gather_sized::<1>(field, slots, out),
            4 => self.gather_sized::<4>(field, slots, out),
            8 => self.gather_sized::<8>(field, slots, out),
            16 => self.gather_sized::<16>(field, slots, out),
            size => {
                for (out, &slot) in out.chunks_exact_mut(size).zip(slots) {
                    out.copy_from_slice(self.field(field, slot as usize));
                }
            }
        }
    }

    fn gather_sized<const SIZE: usize>(&self, field: Field, slots: &[u32], out: &mut [u8]) {
        let location = self.locations[field.index()];
        let column: &[u8] = &self.columns[location.column];
        for (out, &slot) in out.as_chunks_mut::<SIZE>().0.iter_mut().zip(slots) {
            let start = slot as usize * location.stride + location.offset;
            out.copy_from_slice(&column[start..start + SIZE]);
        }
    }

    /// Reads both ends of the records in `slots`, as [`prefetch`](crate::replay::mapped_array::prefetch) does.
    pub fn prefetch(&self, slots: &[u32]) {
        let (record, stride) = (&self.columns[0], self.strides[0]);
        if stride > 0 {
            for start in slots.iter().map(|&slot| slot as usize * stride) {
                std::hint::black_box((record[start], record[start + stride - 1]));
            }
        }
    }

    /// Bytes that the compressed values of `count` entries take at most.
    pub fn largest(&self, count: usize) -> u64 {
        self.compressed.as_ref().map_or(0, |fields| fields.largest(count))
    }

    /// Whether compressed values would take more than their limit with so many bytes more.
    pub fn exceeds_limit(&self, bytes: u64) -> bool {
        let exceeds =
            |fields: &CompressedFields| fields.bytes().saturating_add(bytes) > fields.limit;
        self.compressed.as_deref().is_some_and(exceeds)
    }

    /// Whether a field lies in no column here.
    #[inline]
    pub fn is_compressed(&self, field: Field) -> bool {
        self.compressed.as_ref().is_some_and(|fields| fields.column(field).is_some())
    }
}

/// Copies a value: with a constant size that is one or two moves instead of a call.
#[inline]
fn copy(out: &mut [u8], value: &[u8]) {
    match value.len() {
        4 => out.copy_from_slice(&value[..4]),
        8 => out.copy_from_slice(&value[..8]),
        16 => out.copy_from_slice(&value[..16]),
        _ => out.copy_from_slice(value),
    }
}
