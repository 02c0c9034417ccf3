//! The entries of a memory with compressed fields: how they are appended, and how draws read them.
//!
//! A draw decodes each value once: it lists which value goes where, in the order in which frames lie.

use crate::error::Result;
use crate::replay::compressed_column::{ColumnUse, CompressedColumn};
use crate::replay::compression::{Compression, EncodedRows, FrameStates};
use crate::replay::footprint::nbytes;
use crate::replay::frame_reader::{FrameReader, TargetRows};
use crate::replay::memory::Memory;
use crate::replay::settings::FramePadding;
use crate::replay::transition::Draws;
use crate::spec::{EntryRows, FIELDS, Field};

/// Values that are listed together: a list of all could take more memory than small values do.
const TOGETHER: usize = 1 << 20;

/// One value among those of a draw: where its frame lies, and where it goes.
type WantedValue = (u64, usize);

/// Copies the values of a list, which is empty then. Each is decoded once.
fn give(
    column: &CompressedColumn,
    reads_ahead: bool,
    wanted: &mut Vec<WantedValue>,
    targets: &mut TargetRows<'_>,
) {
    wanted.sort_unstable();
    if reads_ahead {
        column.read_ahead(wanted.iter().map(|&(place, _)| place));
    }
    let mut reader = FrameReader::new(column);
    for (place, at) in wanted.drain(..) {
        reader.read(place, targets, at);
    }
}

impl Memory {
    /// Bytes in memory for entries, weights and bookkeeping if every episode has one step, and values compress as those held do.
    pub fn nbytes(&self) -> u64 {
        let recurrent = self.recurrent.as_ref().map(|states| &states.spec);
        let none = Compression::default();
        let compression = self.compression().unwrap_or(&none);
        let on_disk = self.storage.files.is_some();
        let fixed = nbytes(&self.spec, compression, recurrent, self.capacity, on_disk);
        let values = self.storage.compressed.as_ref();
        let values = values.map_or(0, |fields| {
            if on_disk { fields.bytes_in_memory() } else { fields.expected(self.capacity) }
        });
        u64::try_from(fixed + u128::from(values)).unwrap_or(u64::MAX)
    }

    /// Which fields are compressed; None where none is.
    pub fn compression(&self) -> Option<&Compression> {
        self.storage.compressed.as_ref().map(|fields| &fields.compression)
    }

    /// What the columns of the compressed fields hold.
    pub fn compressed_use(&self) -> Vec<(Field, ColumnUse)> {
        let columns = self.storage.compressed.iter().flat_map(|fields| fields.columns());
        columns.map(|(field, column)| (*field, column.held())).collect()
    }

    /// What the next entries of an open episode are encoded by. Fails with [`crate::error::Error::State`] when it is not open.
    pub fn frame_states(&self, serial: u64) -> Result<FrameStates> {
        let index = self.open_index(serial)?;
        let columns = self.storage.compressed.iter().flat_map(|fields| fields.columns());
        let states = columns.map(|(_, column)| column.state(index)).collect();
        let first = self.episodes[index as usize].len();
        Ok(FrameStates { serial: Some(serial), first, states })
    }

    /// The encoded rows of the next entries of an open episode: those given if they continue it, else new ones; None where no
    /// field is compressed.
    pub(super) fn encoded(
        &self,
        serial: u64,
        rows: EntryRows<'_>,
        given: Option<EncodedRows>,
    ) -> Result<Option<EncodedRows>> {
        let Some(fields) = &self.storage.compressed else { return Ok(None) };
        let entries = self.open_len(serial)?;
        let compression = &fields.compression;
        let given = given.filter(|given| given.continues(compression, serial, entries));
        if given.is_some() {
            return Ok(given);
        }
        Ok(Some(compression.encode(&self.spec, rows, self.frame_states(serial)?)))
    }

    /// Writes a field of the last entry of an episode, which has this slot. Of a compressed field it can be done once.
    pub(super) fn write_value(&mut self, index: u32, field: Field, slot: usize, value: &[u8]) {
        let compressed = self.storage.compressed.as_mut();
        match compressed.and_then(|fields| fields.column_mut(field)) {
            None => self.storage.field_mut(field, slot).copy_from_slice(value),
            Some(column) => {
                let frames = column.encode(index, value);
                column.append(index, std::iter::once(slot), frames);
            }
        }
    }

    /// Whether the field of an entry has these bytes.
    pub(super) fn holds(&self, field: Field, slot: usize, value: &[u8]) -> bool {
        let compressed = self.storage.compressed.as_ref();
        match compressed.and_then(|fields| fields.column(field)) {
            None => self.storage.field(field, slot) == value,
            Some(column) => {
                let mut held = vec![0; column.size];
                let mut rows = TargetRows { size: column.size, parts: [&mut held, &mut []] };
                FrameReader::new(column).read(column.place(slot as u32), &mut rows, 0);
                held == value
            }
        }
    }

    /// Copies a compressed field of the entries in slots into `parts`, one after the other; the state with the frames before
    /// it. Does nothing for other fields.
    pub(super) fn gather_compressed(
        &self,
        field: Field,
        slots: impl Iterator<Item = u32>,
        parts: [&mut [u8]; 2],
    ) {
        let column = self.storage.compressed.as_ref().and_then(|fields| fields.column(field));
        let Some(column) = column else { return };
        let reads_ahead = self.storage.files.as_ref().is_some_and(|files| files.reads_ahead);
        let stack = if field == Field::State { self.settings.frame_stack } else { 1 };
        let mut targets = TargetRows { size: column.size, parts };
        // The field is left out.
        if targets.len() == 0 {
            return;
        }
        let mut wanted: Vec<WantedValue> = Vec::with_capacity(targets.len().min(TOGETHER));
        let mut at = 0;
        for slot in slots {
            for frame in self.stack_slots(slot, stack) {
                match frame {
                    Some(slot) => wanted.push((column.place(slot), at)),
                    None => targets.row(at).fill(0),
                }
                at += 1;
            }
            if wanted.len() >= TOGETHER {
                give(column, reads_ahead, &mut wanted, &mut targets);
            }
        }
        give(column, reads_ahead, &mut wanted, &mut targets);
    }

    /// The slots of the frames of a stack, oldest first; None for a frame of zeros.
    fn stack_slots(&self, slot: u32, stack: usize) -> impl Iterator<Item = Option<u32>> {
        let last = slot as usize;
        let oldest = self.entry_refs[last].wrapping_sub(stack as u64 - 1);
        let together = |&first: &usize| self.are_consecutive(oldest, first, stack);
        let adjacent = (last + 1).checked_sub(stack).filter(together);
        let zero = self.settings.frame_padding == FramePadding::Zero;
        (0..stack).rev().map(move |back| {
            if adjacent.is_some() {
                return Some(slot - back as u32);
            }
            let (episode, step) = self.entry(slot);
            match step.checked_sub(back as u32) {
                Some(step) => Some(episode.slot_of(step) as u32),
                None if zero => None,
                None => Some(episode.slot_of(0) as u32),
            }
        })
    }

    /// Copies the compressed fields of a batch, prev's and then next's, as [`Memory::gather_all`] does.
    pub(super) fn gather_all_compressed(&self, draws: &Draws, parts: &mut [&mut [u8]]) {
        let Some(fields) = &self.storage.compressed else { return };
        let (of_prev, of_next) = parts.split_at_mut(FIELDS);
        for &(field, _) in fields.columns() {
            let at = field.index();
            let parts = [&mut *of_prev[at], of_next.get_mut(at).map_or(&mut [][..], |part| part)];
            let of = |part: &[u8], slots| if part.is_empty() { &[][..] } else { slots };
            let (prev, next): (&[u32], &[u32]) =
                (of(parts[0], &draws.prev), of(parts[1], &draws.next));
            self.gather_compressed(field, prev.iter().chain(next).copied(), parts);
        }
    }
}
