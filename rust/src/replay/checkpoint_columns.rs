//! The files of a memory's folder in a checkpoint: regions behind everything else, as they lie in the folder.

use std::fs::File;
use std::io::{Seek, SeekFrom};

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

use crate::replay::compression::Compression;
use crate::replay::memory::Memory;
use crate::replay::storage::strides;
use crate::replay::storage_folder::{ALIGNMENT, ColumnFile, copy_bytes};
use crate::spec::EntrySpec;

/// What the header says of regions: those of columns, and then those of the compressed fields.
#[derive(Debug, Serialize, Deserialize)]
pub struct ColumnsRecord {
    /// The numbers of the columns.
    columns: Vec<u32>,
    /// Bytes of each region that are used.
    lengths: Vec<u64>,
    /// The slots of each closed episode, as starts and lengths.
    runs: Vec<Vec<(u32, u32)>>,
}

/// Where rows and frames lie in a file.
#[derive(Debug, Default)]
pub struct Regions {
    /// The number of each column, its bytes per row, and where it begins.
    pub columns: Vec<(usize, u64, u64)>,
    /// Of each compressed field, where its region begins and ends; empty where frames lie between the other numbers.
    pub heaps: Vec<(u64, u64)>,
    /// The slots of each closed episode.
    pub runs: Vec<Vec<(u32, u32)>>,
}

/// The files of a memory, and how many of their bytes are used.
fn files(memory: &Memory) -> Vec<(&ColumnFile, u64)> {
    let highest = u64::from(memory.free_slots.highest());
    let files = memory.storage.files.iter().flat_map(|files| &files.columns);
    let columns = files.map(|(_, stride, file)| (file, highest * *stride as u64));
    let fields = memory.storage.compressed.iter().flat_map(|fields| fields.columns());
    columns.chain(fields.filter_map(|(_, column)| Some(column.heap()?.used()))).collect()
}

/// The record of a memory; None of one without a folder.
pub fn columns_record(memory: &Memory) -> Option<ColumnsRecord> {
    let columns = memory.storage.files.as_ref()?.columns.iter();
    let runs = memory.closed_episodes().map(|episode| {
        episode.pieces().map(|slots| (slots.start as u32, slots.len() as u32)).collect()
    });
    Some(ColumnsRecord {
        columns: columns.map(|(column, ..)| *column as u32).collect(),
        lengths: files(memory).iter().map(|(_, used)| *used).collect(),
        runs: runs.collect(),
    })
}

/// The checksum of what closed episodes have in regions, in the order of loading. None of a memory whose files are larger than
/// memory could hold: all of them would be read from the disk.
pub fn regions_checksum(memory: &Memory) -> Option<u32> {
    memory.storage.files.as_ref().filter(|files| !files.reads_ahead)?;
    let mut checksum = Hasher::new();
    let fields = memory.storage.compressed.as_ref();
    for episode in memory.closed_episodes() {
        for column in (0..memory.storage.columns()).filter(|&at| memory.storage.is_in_file(at)) {
            for slots in episode.pieces() {
                checksum.update(memory.storage.rows(column, slots));
            }
        }
        let index = memory.serials[&episode.serial];
        for (_, column) in fields.into_iter().flat_map(|fields| fields.columns()) {
            let chunks = column.chunks_of(index).filter(|(_, at)| at.is_some());
            chunks.for_each(|(chunk, _)| checksum.update(chunk));
        }
    }
    Some(checksum.finalize())
}

/// Writes the regions behind what has been written to a file.
pub fn write_regions(memory: &Memory, file: &mut File) -> std::io::Result<()> {
    let mut at = file.seek(SeekFrom::End(0))?;
    for (column, used) in files(memory) {
        let len = used.next_multiple_of(ALIGNMENT);
        at = at.next_multiple_of(ALIGNMENT);
        // What is not reserved has never been written.
        let copied = copy_bytes(column.file(), file, at, len.min(column.reserved()));
        column.note_copied();
        copied?;
        at += len;
        file.set_len(at)?;
    }
    Ok(())
}

impl ColumnsRecord {
    /// Bytes per row of the columns that lie in regions; None where these are not columns.
    pub fn row(&self, spec: &EntrySpec, compression: &Compression) -> Option<usize> {
        let strides = strides(spec, compression);
        let rising = self.columns.is_sorted_by(|one, other| one < other);
        let sizes = self.columns.iter().map(|&column| strides.get(column as usize));
        sizes.sum::<Option<usize>>().filter(|_| rising && self.columns.first() != Some(&0))
    }

    /// The regions of a file of `end` bytes, of which they follow the first `start`; None where they do not fit.
    pub fn regions(
        self,
        spec: &EntrySpec,
        compression: &Compression,
        lengths: impl ExactSizeIterator<Item = u32>,
        start: u64,
        end: u64,
    ) -> Option<Regions> {
        let strides = strides(spec, compression);
        let heaps = compression.fields().count();
        if self.lengths.len() != self.columns.len() + heaps || self.runs.len() != lengths.len() {
            return None;
        }
        for (runs, length) in self.runs.iter().zip(lengths) {
            let sum: u64 = runs.iter().map(|&(_, len)| u64::from(len)).sum();
            if sum != u64::from(length) {
                return None;
            }
        }
        let mut at = start;
        let mut starts = Vec::new();
        for used in self.lengths {
            let begin = at.checked_next_multiple_of(ALIGNMENT)?;
            at = begin.checked_add(used.checked_next_multiple_of(ALIGNMENT)?)?;
            starts.push((begin, begin.checked_add(used)?));
        }
        let last =
            self.runs.iter().flatten().map(|&(start, len)| u64::from(start) + u64::from(len));
        let last = last.max().unwrap_or(0);
        let of_heaps = starts.split_off(self.columns.len());
        let mut columns = Vec::new();
        for (column, (begin, finish)) in self.columns.into_iter().zip(starts) {
            let stride = *strides.get(column as usize)? as u64;
            if last.checked_mul(stride)? > finish - begin {
                return None;
            }
            columns.push((column as usize, stride, begin));
        }
        (at == end).then_some(Regions { columns, heaps: of_heaps, runs: self.runs })
    }
}
