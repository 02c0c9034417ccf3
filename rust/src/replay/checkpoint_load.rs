//! Memories read from their files.
//!
//! Episodes are read into the slots of the memory, or, when it compresses other fields than the file does, one by one into
//! a storage of the file's form, and from there into the memory's.

use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crc32fast::Hasher;

use crate::error::{Error, Result};
use crate::replay::checkpoint::{CHECKSUM, CheckpointFile};
use crate::replay::checkpoint_entries::{check_limit, read_chunks, read_frames, transfer};
use crate::replay::compression::Compression;
use crate::replay::episode::{Bootstrap, Ending};
use crate::replay::footprint::EMPTY_EPISODES;
use crate::replay::memory::Memory;
use crate::replay::sampling_index::SamplingIndex;
use crate::replay::settings::Settings;
use crate::replay::storage::Storage;
use crate::replay::storage_folder::StorageFolder;
use crate::replay::sum_tree::leaf;
use crate::spec::EntrySpec;

/// How a memory that is loaded keeps its entries.
#[derive(Debug, Default)]
pub struct LoadOptions {
    /// Which fields it compresses; None for those of the file.
    pub compression: Option<Compression>,
    /// Where it has its large fields; None for in memory.
    pub folder: Option<Arc<StorageFolder>>,
    /// Whether to reserve more than is available.
    pub overcommit: bool,
}

/// Where the entries of an episode go.
struct Target<'a> {
    storage: &'a mut Storage,
    /// Their slots.
    runs: &'a [Range<usize>],
    /// The index of the episode.
    index: u32,
    /// Its place among those of the file.
    number: usize,
}

impl CheckpointFile {
    /// Reads the memory. Fails as [`Self::open`] and [`Memory::with_parts`] do.
    pub fn load(mut self, options: LoadOptions) -> Result<Memory> {
        let spec = EntrySpec::new(self.memory.fields.clone())?;
        let max_step = self.memory.max_step as usize;
        let (rng, recurrent) = (self.memory.rng.clone(), self.sequences.recurrent.clone());
        let own = self.compression.0.clone();
        let compression = options.compression.unwrap_or_else(|| own.clone());
        // Other limits alone change nothing of how values lie.
        let is_same = own.fields().eq(compression.fields());
        let mut staging = None;
        if !is_same {
            let longest = self.episodes.iter().map(|record| record.length).max().unwrap_or(0);
            staging = Some(Storage::new(&spec, own, longest as usize, u64::MAX, None)?);
        }
        let mut memory = Memory::with_parts(
            spec,
            compression,
            recurrent,
            options.folder.as_ref(),
            max_step,
            rng,
            options.overcommit,
        )?;
        let settings: Vec<Arc<Settings>> = self.settings.drain(..).map(Arc::new).collect();
        memory.set_settings(Settings::clone(&settings[0]))?;
        for (view, largest) in &self.views {
            let key = memory.add_view(view.clone())?;
            let at = memory.position_of_view(key)?;
            memory.views[at].largest = *largest;
        }
        let mut checksum = Hasher::new();
        for (number, record) in std::mem::take(&mut self.episodes).into_iter().enumerate() {
            // A memory of an earlier version may have held more episodes without entries.
            if record.length == 0 && memory.empty == EMPTY_EPISODES {
                continue;
            }
            let ending = Ending {
                settings: Arc::clone(&settings[record.settings as usize]),
                values: record.values,
                weights: record.weights,
                bootstrap: record.bootstrap.as_deref().map(Bootstrap::from_slice),
                final_state: record.final_state,
            };
            memory.reserve_on_disk(record.length as usize, 0)?;
            let index = memory.restore(record.serial, record.length as usize, ending);
            self.read(&mut memory, staging.as_mut(), index, number, &mut checksum)?;
            if self.is_v3 {
                memory.weigh_borders(index);
            }
        }
        let mut expected = [0; CHECKSUM];
        self.fill(&mut expected)?;
        let in_columns = std::mem::take(&mut self.in_columns).finalize();
        if checksum.finalize().to_le_bytes() != expected
            || self.columns_checksum.is_some_and(|expected| expected != in_columns)
        {
            return Err(self.refused("a file with damaged entries"));
        }
        memory.next_serial = self.memory.next_serial;
        memory.totals = self.memory.totals;
        memory.largest = self.largest;
        // The same object, which episodes share.
        memory.settings = Arc::clone(&settings[0]);
        memory.mask_borders();
        memory.limited = self.limited;
        memory.recount_removed();
        if !std::mem::take(&mut self.sequences).restore(&mut memory)? {
            return Err(self.refused("a file with anchors that are not those of its episodes"));
        }
        Ok(memory)
    }

    fn read(
        &mut self,
        memory: &mut Memory,
        staging: Option<&mut Storage>,
        index: u32,
        number: usize,
        checksum: &mut Hasher,
    ) -> Result<()> {
        let pieces: Vec<_> = memory.episodes[index as usize].pieces().collect();
        for slots in pieces.iter().cloned() {
            let weights: &mut [f32] = bytemuck::cast_slice_mut(&mut memory.weights[slots]);
            self.fill(bytemuck::cast_slice_mut(weights))?;
            checksum.update(bytemuck::cast_slice(weights));
            if weights.iter().any(|&value| !(value.is_finite() && value >= 0.0)) {
                return Err(self.refused("a file with a weight that is not a finite number >= 0"));
            }
        }
        let all: Vec<usize> = pieces.iter().cloned().flatten().collect();
        if memory.index.limit() > 0 {
            self.read_counts(&mut memory.index, &all, checksum)?;
        }
        for view in &mut memory.views {
            for &slot in &all {
                let weight = f32::from_ne_bytes(self.number(checksum)?);
                if !(weight.is_finite() && weight >= 0.0) {
                    let why = "a file with a weight that is not a finite number >= 0";
                    return Err(self.refused(why));
                }
                view.index.set_run(slot, std::iter::once(leaf(weight, false)));
            }
            if view.index.limit() > 0 {
                self.read_counts(&mut view.index, &all, checksum)?;
            }
        }
        if let Some(storage) = staging {
            let own = 0..all.len();
            let target = Target { storage, runs: std::slice::from_ref(&own), index: 0, number };
            self.read_fields(target, checksum)?;
            transfer(storage, &mut memory.storage, &memory.spec, &pieces, index)?;
            if let Some(fields) = &mut storage.compressed {
                fields.forget(0);
            }
        } else {
            let storage = &mut memory.storage;
            self.read_fields(Target { storage, runs: &pieces, index, number }, checksum)?;
        }
        if let Some(fields) = &memory.storage.compressed {
            check_limit(fields)?;
        }
        memory.restore_states(index, |bytes| {
            self.fill(bytes)?;
            checksum.update(bytes);
            Ok(())
        })
    }

    /// Reads all fields of an episode.
    fn read_fields(&mut self, to: Target<'_>, checksum: &mut Hasher) -> Result<()> {
        let Target { storage, runs, index, number } = to;
        for column in 0..storage.columns() {
            if let Some(&region) = self.regions.columns.iter().find(|region| region.0 == column) {
                self.read_region(storage, runs, region, number)?;
                continue;
            }
            for slots in runs.iter().cloned() {
                let rows = storage.rows_mut(column, slots);
                self.fill(rows)?;
                checksum.update(rows);
            }
        }
        let slots: Vec<usize> = runs.iter().cloned().flatten().collect();
        let Some(fields) = &mut storage.compressed else { return Ok(()) };
        let failed = |error| Error::file(Path::new(&self.path), &error);
        let (payload, left) = (&mut self.payload, &mut self.compression.1);
        let regions = &self.regions.heaps;
        let in_columns = &mut self.in_columns;
        let mut read = Ok(());
        for (at, (_, column)) in fields.columns_mut().enumerate() {
            let (payload, in_columns) = (&mut *payload, &mut *in_columns);
            let mut fill = |bytes: &mut [u8], at: Option<u64>| {
                if let Some(at) = at {
                    payload.get_ref().read_exact_at(bytes, at).map_err(failed)?;
                    in_columns.update(bytes);
                    return Ok(());
                }
                payload.read_exact(bytes).map_err(failed)?;
                checksum.update(bytes);
                Ok(())
            };
            read = match regions.get(at) {
                None => read_frames(column, index, &slots, left, |bytes| fill(bytes, None)),
                Some(&region) => read_chunks(column, index, &slots, left, region, fill),
            };
            if read.is_err() {
                break;
            }
            column.close(index);
        }
        read.map_err(|error| match error {
            Error::State(why) => self.refused(&why),
            other => other,
        })
    }

    /// Reads the rows of a column that was a file.
    fn read_region(
        &mut self,
        storage: &mut Storage,
        runs: &[Range<usize>],
        (column, stride, begin): (usize, u64, u64),
        number: usize,
    ) -> Result<()> {
        let sources = self.regions.runs.get(number).into_iter().flatten();
        let mut sources = sources.flat_map(|&(start, len)| start..start + len).peekable();
        for slots in runs {
            let mut slot = slots.start;
            while slot < slots.end {
                let Some(start) = sources.next() else { return Ok(()) };
                let mut count = 1;
                while slot + count < slots.end
                    && sources.next_if_eq(&(start + count as u32)).is_some()
                {
                    count += 1;
                }
                let rows = storage.rows_mut(column, slot..slot + count);
                let at = begin + u64::from(start) * stride;
                let read = self.payload.get_ref().read_exact_at(rows, at);
                read.map_err(|error| Error::file(Path::new(&self.path), &error))?;
                self.in_columns.update(rows);
                slot += count;
            }
        }
        Ok(())
    }

    fn read_counts(
        &mut self,
        index: &mut SamplingIndex,
        slots: &[usize],
        checksum: &mut Hasher,
    ) -> Result<()> {
        for &slot in slots {
            let count = u32::from_ne_bytes(self.number(checksum)?);
            if count > index.limit() {
                return Err(self.refused("a file with an entry drawn more often than allowed"));
            }
            index.set_times_sampled(slot, count);
        }
        Ok(())
    }

    fn number(&mut self, checksum: &mut Hasher) -> Result<[u8; 4]> {
        let mut number = [0; 4];
        self.fill(&mut number)?;
        checksum.update(&number);
        Ok(number)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.payload.read_exact(bytes).map_err(|error| Error::file(Path::new(&self.path), &error))
    }
}
