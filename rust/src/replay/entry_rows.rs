//! The rows of entries: how they are checked, appended to an open episode, and read.

use smallvec::SmallVec;

use crate::error::{Error, Result, short};
use crate::replay::compression::EncodedRows;
use crate::replay::entry_weight::EntryWeight;
use crate::replay::episode::Episode;
use crate::replay::finite::check_finite;
use crate::replay::frame_reader::{FrameReader, TargetRows};
use crate::replay::memory::{EntryRows, Memory, WRITTEN};
use crate::replay::recurrent::RecurrentSpec;
use crate::spec::Field;

impl Memory {
    /// Appends `init_w.len()` entries to an open episode, all or nothing, and returns the id of the first. Fails with
    /// [`Error::State`] when the episode is not open or the entries do not fit beside the open episodes, with
    /// [`Error::Value`] for a reward that is not finite, or a weight that is not finite and >= 0.
    pub fn add(&mut self, serial: u64, rows: EntryRows<'_>, init_w: &[f64]) -> Result<u64> {
        self.add_with(serial, rows, None, init_w)
    }

    /// Appends entries and the recurrent states before them, in a memory that stores those. Fails as [`Self::add`] does, and
    /// with [`Error::Value`] when a state that is to be stored is missing.
    pub fn add_with(
        &mut self,
        serial: u64,
        rows: EntryRows<'_>,
        recurrent: Option<&[u8]>,
        init_w: &[f64],
    ) -> Result<u64> {
        self.add_encoded(serial, rows, None, recurrent, init_w)
    }

    /// Appends entries whose compressed fields may have been encoded already. Fails as [`Self::add_with`] does.
    pub fn add_encoded(
        &mut self,
        serial: u64,
        rows: EntryRows<'_>,
        encoded: Option<EncodedRows>,
        recurrent: Option<&[u8]>,
        init_w: &[f64],
    ) -> Result<u64> {
        let index = self.open_index(serial)?;
        let first = self.episodes[index as usize].len();
        self.check_rows(rows, init_w, first)?;
        self.check_recurrent(recurrent, first, init_w.len())?;
        let encoded = self.encoded(serial, rows, encoded)?;
        self.make_room_for(init_w.len(), encoded.as_ref().map_or(0, EncodedRows::nbytes))?;
        if let (Some(states), Some(bytes)) = (&mut self.recurrent, recurrent) {
            states.write(index, bytes, first, init_w.len());
        }
        let mut runs = SmallVec::<[_; 2]>::new();
        let mut done = 0;
        while done < init_w.len() {
            let run = self.take(index, init_w.len() - done);
            let (slot, count) = (run.start as usize, run.len as usize);
            for (field, bytes) in WRITTEN.into_iter().zip(rows) {
                let size = self.spec[field].nbytes();
                // Does nothing for a compressed one.
                self.storage.write_run(field, slot, &bytes[done * size..(done + count) * size]);
            }
            let weights = &mut self.weights[slot..slot + count];
            for (entry, &weight) in weights.iter_mut().zip(&init_w[done..]) {
                *entry = EntryWeight { base: weight as f32, weight: 0.0 };
            }
            done += count;
            runs.push(run);
        }
        if let (Some(fields), Some(encoded)) = (&mut self.storage.compressed, encoded) {
            fields.append(index, &runs, encoded);
        }
        Ok(self.id(serial, first as u32))
    }

    /// Checks rewards and initial weights of entries from step `first` on. Fails with [`Error::Value`] that names the step.
    pub(super) fn check_rows(
        &self,
        rows: EntryRows<'_>,
        init_w: &[f64],
        first: usize,
    ) -> Result<()> {
        for (row, &weight) in init_w.iter().enumerate() {
            if !((weight as f32).is_finite() && weight >= 0.0) {
                let got = format!("{} at step {}", short(weight), first + row);
                return Err(Error::value("init_w", "a finite float32 number >= 0", got));
            }
        }
        let words = rows[Field::Reward.index()].as_chunks::<4>().0;
        if words.iter().all(|word| f32::from_ne_bytes(*word).is_finite()) {
            return Ok(());
        }
        let rewards: Vec<f32> = words.iter().map(|word| f32::from_ne_bytes(*word)).collect();
        check_finite("reward", "finite numbers", &rewards, self.spec.reward_dims(), first)
    }

    /// Steps from one stored recurrent state to the next; 1 where none are stored.
    pub fn recurrent_period(&self) -> usize {
        self.recurrent.as_ref().map_or(1, |states| states.spec.period)
    }

    /// The recurrent state that is stored; None in a memory without.
    pub fn recurrent_spec(&self) -> Option<&RecurrentSpec> {
        self.recurrent.as_ref().map(|states| &states.spec)
    }

    /// Checks the recurrent states that come with `count` entries from step `first` on.
    pub(super) fn check_recurrent(
        &self,
        states: Option<&[u8]>,
        first: usize,
        count: usize,
    ) -> Result<()> {
        self.recurrent.as_ref().map_or(Ok(()), |stored| stored.check(states, first, count))
    }

    /// Copies one field of an episode's entries into `out`.
    pub fn read(&self, episode: &Episode, field: Field, out: &mut [u8]) {
        let size = self.spec[field].nbytes();
        let compressed = self.storage.compressed.as_ref();
        if let Some(column) = compressed.and_then(|fields| fields.column(field)) {
            let mut reader = FrameReader::new(column);
            let mut rows = TargetRows { size, parts: [out, &mut []] };
            for (row, slot) in episode.slots().enumerate() {
                reader.read(column.place(slot as u32), &mut rows, row);
            }
            return;
        }
        for extent in episode.extents() {
            let (start, count) = (extent.run.start as usize, extent.run.len as usize);
            let out = &mut out[extent.first as usize * size..][..count * size];
            self.storage.read_run(field, start, count, out);
        }
    }
}
