//! The memory itself: episodes of entries in a ring of slots.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use rand_xoshiro::Xoshiro256PlusPlus;
use slab::Slab;

use crate::available_memory::available_memory;
use crate::error::{Error, Result};
use crate::replay::age_order::AgeOrder;
use crate::replay::anchors::Anchors;
use crate::replay::compression::Compression;
use crate::replay::entry_weight::EntryWeight;
use crate::replay::episode::{Ending, EntryRef, Episode, Totals};
use crate::replay::footprint::nbytes;
use crate::replay::free_slots::{FreeSlots, SlotRun};
use crate::replay::mapped_array::MappedArray;
use crate::replay::rate_limiter::Limited;
use crate::replay::recurrent::{RecurrentSpec, RecurrentStates};
use crate::replay::removal_order::RemovalOrder;
use crate::replay::sampling_index::SamplingIndex;
use crate::replay::settings::Settings;
use crate::replay::storage::Storage;
use crate::replay::storage_files::{check_storage, file_bytes};
use crate::replay::storage_folder::StorageFolder;
use crate::replay::view::View;
use crate::spec::EntrySpec;
pub use crate::spec::{EntryRows, WRITTEN};

/// Slots that a writer takes ahead of need, so that episodes written side by side stay in few pieces.
pub(super) const RESERVE: u32 = 64;

/// A ring of whole episodes. Its owner has a lock around it.
#[derive(Debug)]
pub struct Memory {
    pub(super) spec: EntrySpec,
    pub(super) settings: Arc<Settings>,
    pub(super) capacity: usize,
    pub(super) used: usize,
    pub(super) used_by_open: usize,
    pub(super) storage: Storage,
    /// The [`EntryRef`] of each slot.
    pub(super) entry_refs: MappedArray<u64>,
    pub(super) weights: MappedArray<EntryWeight>,
    /// The starts of the sequences that were last asked for.
    pub(super) anchors: Option<Box<Anchors>>,
    pub(super) recurrent: Option<Box<RecurrentStates>>,
    /// What draws choose from: free slots and those of open episodes cannot be drawn.
    pub(super) index: SamplingIndex,
    /// Made at the first draw that needs it.
    pub(super) age: Option<AgeOrder>,
    pub(super) free_slots: FreeSlots,
    pub(super) episodes: Slab<Episode>,
    pub(super) closed: VecDeque<u32>,
    /// Closed episodes without entries.
    pub(super) empty: usize,
    pub(super) open: Vec<u32>,
    /// Index of each serial number. Files choose these: the hash has random keys, so that they cannot be chosen to collide.
    pub(super) serials: HashMap<u64, u32>,
    pub(super) next_serial: u64,
    pub(super) totals: Totals,
    /// The largest weight ever given, as a multiple of its entry's initial weight; 1 at first.
    pub(super) largest: f64,
    /// The number of the next episode in the order of closing.
    next_number: u32,
    pub(super) views: Vec<View>,
    /// The key of the next view.
    pub(super) next_view: u64,
    /// Made at the first eviction by weight.
    pub(super) removal: Option<RemovalOrder>,
    /// Whether [`Memory::zero_weights_to_report`] has returned counts.
    pub(super) reported_zero_weights: bool,
    pub(super) step_bits: u32,
    pub(super) limited: Option<Limited>,
    /// Entries evicted for room since the limiter's `min_size` was last held.
    pub(super) evicted_too_early: u64,
    pub(super) rng: Xoshiro256PlusPlus,
}

impl Memory {
    /// Reserves memory for `max_step` entries. Fails with [`Error::Memory`] when that is more than is available (not
    /// checked with `overcommit`) or the system refuses, with [`Error::Value`] for more than 2^32 - 2 entries.
    pub fn new(
        spec: EntrySpec,
        max_step: usize,
        rng: Xoshiro256PlusPlus,
        overcommit: bool,
    ) -> Result<Self> {
        Self::with_parts(spec, Compression::default(), None, None, max_step, rng, overcommit)
    }

    /// A memory that compresses fields, stores recurrent states too, or has large fields in a folder. Fails as [`Self::new`]
    /// does, with [`Error::Value`] for a limit of compressed bytes that not even one entry fits into, or a folder that would
    /// hold nothing, and with [`Error::File`] for one that cannot be written or has too little room.
    pub fn with_parts(
        spec: EntrySpec,
        compression: Compression,
        recurrent: Option<RecurrentSpec>,
        folder: Option<&Arc<StorageFolder>>,
        max_step: usize,
        rng: Xoshiro256PlusPlus,
        overcommit: bool,
    ) -> Result<Self> {
        let fixed = nbytes(&spec, &compression, recurrent.as_ref(), max_step, folder.is_some());
        let values = u128::from(compression.max_bytes.unwrap_or(0));
        let needed = fixed + if folder.is_some() { 0 } else { values };
        let available = if overcommit { u64::MAX } else { available_memory() };
        if !overcommit && needed > u128::from(available) {
            return Err(Error::Memory(format!(
                "max_step: {max_step} entries take up to {needed} bytes, of which {available} are \
                 available; allow_overcommit=True reserves them all the same"
            )));
        }
        let Some(slots) = u32::try_from(max_step).ok().filter(|&slots| slots < u32::MAX) else {
            return Err(Error::value("max_step", "at most 4294967294", max_step));
        };
        // Without a limit, values that compress badly evict episodes rather than take more than there is.
        let most = u64::try_from(compression.largest(&spec, max_step)).unwrap_or(u64::MAX);
        let left = match folder {
            None => available.saturating_sub(u64::try_from(fixed).unwrap_or(u64::MAX)),
            Some(folder) => {
                check_storage(&spec, &compression)?;
                let plain = file_bytes(&spec, &compression) as u128 * max_step as u128;
                if !overcommit {
                    folder.check_room(plain + values, |needed, available| {
                        format!(
                            "entries take up to {needed} bytes there, of which {available} are available; \
                             allow_overcommit=True reserves them as they are needed"
                        )
                    })?;
                }
                folder.available()?.saturating_sub(u64::try_from(plain).unwrap_or(u64::MAX))
            }
        };
        let limit = most.min(compression.max_bytes.unwrap_or(left));
        let states = recurrent.map(|spec| RecurrentStates::new(spec, max_step)).transpose()?;
        Ok(Self {
            settings: Arc::new(Settings::new(spec.reward_dims())),
            capacity: max_step,
            used: 0,
            used_by_open: 0,
            storage: Storage::new(&spec, compression, max_step, limit, folder)?,
            entry_refs: MappedArray::new(max_step)?,
            weights: MappedArray::new(max_step)?,
            anchors: None,
            recurrent: states.map(Box::new),
            index: SamplingIndex::new(max_step)?,
            age: None,
            free_slots: FreeSlots::new(slots),
            episodes: Slab::new(),
            closed: VecDeque::new(),
            empty: 0,
            open: Vec::new(),
            serials: HashMap::default(),
            next_serial: 0,
            totals: Totals::default(),
            largest: 1.0,
            next_number: 0,
            views: Vec::new(),
            next_view: 0,
            removal: None,
            reported_zero_weights: false,
            step_bits: u32::BITS - slots.leading_zeros(),
            limited: None,
            evicted_too_early: 0,
            spec,
            rng,
        })
    }

    /// dtypes and shapes of an entry.
    pub fn spec(&self) -> &EntrySpec {
        &self.spec
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Puts settings in force for episodes closed from now on. `frame_stack`, `frame_padding`, `multi_step` and
    /// `max_times_sampled` decide at once which of all closed entries can be drawn. Changes nothing and fails with
    /// [`Error::Memory`] when the system refuses the memory for counts of draws.
    pub fn set_settings(&mut self, settings: Settings) -> Result<()> {
        let limit = settings.max_times_sampled;
        if limit != self.index.limit() {
            self.index.set_limit(limit)?;
        }
        let old = std::mem::replace(&mut self.settings, Arc::new(settings));
        if old.remover != self.settings.remover {
            self.removal = None;
        }
        if !old.has_borders_of(&self.settings) || old.max_times_sampled != limit {
            self.mask_borders();
            self.check_anchors();
        }
        self.recount_removed();
        self.evicted_too_early = 0;
        Ok(())
    }

    /// Entries held at most.
    pub fn max_step(&self) -> usize {
        self.capacity
    }

    /// Entries held, those of open episodes included.
    pub fn num_entry(&self) -> usize {
        self.used
    }

    /// Closed episodes held.
    pub fn num_episode(&self) -> usize {
        self.closed.len()
    }

    /// Counts of all episodes ever closed.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Sum of the weights of all entries that can be drawn.
    pub fn weight_sum(&self) -> f64 {
        self.index.weight_sum()
    }

    /// Entries that can be drawn whatever their weights are: those inside the borders whose initial weight is above 0.
    pub fn num_drawable(&self) -> usize {
        self.index.num_drawable()
    }

    /// Entries that can be drawn in proportion to their weights.
    pub fn num_sampleable(&self) -> usize {
        self.index.num_sampleable()
    }

    /// The smallest weight of an entry that can be drawn; 0 without such entries. Takes O(`max_step`).
    pub fn min_weight(&self) -> f32 {
        self.index.min_weight()
    }

    /// The closed episodes, oldest first.
    pub fn closed_episodes(&self) -> impl Iterator<Item = &Episode> {
        self.closed.iter().map(|&index| &self.episodes[index as usize])
    }

    /// The `index`-th oldest closed episode.
    pub fn episode(&self, index: usize) -> Option<&Episode> {
        self.closed.get(index).map(|&index| &self.episodes[index as usize])
    }

    /// The id of an entry.
    pub fn id(&self, serial: u64, step: u32) -> u64 {
        serial << self.step_bits | u64::from(step)
    }

    /// The episode's index and the step of an id; None when the entry is gone.
    pub(super) fn locate(&self, id: u64) -> Option<(u32, u32)> {
        let step = (id & ((1 << self.step_bits) - 1)) as u32;
        let index = *self.serials.get(&(id >> self.step_bits))?;
        ((step as usize) < self.episodes[index as usize].len()).then_some((index, step))
    }

    /// Opens an episode and returns its serial number.
    pub fn open(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        let index = self.episodes.insert(Episode::new(serial)) as u32;
        self.serials.insert(serial, index);
        self.open.push(index);
        serial
    }

    /// Whether this episode is open.
    pub fn is_open(&self, serial: u64) -> bool {
        self.open_index(serial).is_ok()
    }

    pub(super) fn open_index(&self, serial: u64) -> Result<u32> {
        match self.serials.get(&serial) {
            Some(&index) if self.episodes[index as usize].ending.is_none() => Ok(index),
            _ => Err(no_episode_open()),
        }
    }

    /// Drops an open episode with its entries. Fails with [`Error::State`] when it is not open.
    pub fn abort(&mut self, serial: u64) -> Result<()> {
        let index = self.open_index(serial)?;
        self.stop_drawing(index);
        let episode = self.forget(index);
        self.used_by_open -= episode.len();
        self.free_slots.put_back(episode.reserve);
        for extent in episode.extents().iter().rev() {
            self.free_slots.put_back(extent.run);
        }
        Ok(())
    }

    /// Drops all episodes, open ones too. Ids are not reused.
    pub fn clear(&mut self) {
        while self.evict(0) {}
        for index in std::mem::take(&mut self.open) {
            self.stop_drawing(index);
            self.forget(index);
        }
        self.used_by_open = 0;
        self.evicted_too_early = 0;
        self.free_slots = FreeSlots::new(self.capacity as u32);
    }

    /// The open episodes whose steps can be drawn.
    pub(super) fn growing(&self) -> impl Iterator<Item = u32> {
        self.open.iter().copied().filter(|&index| self.episodes[index as usize].growing)
    }

    /// Takes at most `count` adjacent slots for the next entries of an open episode; there is room.
    pub(super) fn take(&mut self, index: u32, count: usize) -> SlotRun {
        let count = count as u32;
        let mut episode = &mut self.episodes[index as usize];
        if episode.reserve.len == 0 {
            let run =
                self.free_slots.take(count.max(RESERVE)).unwrap_or_else(|| self.take_back(index));
            episode = &mut self.episodes[index as usize];
            episode.reserve = run;
        }
        let run = episode.reserve.split_front(count);
        let step = episode.len() as u64;
        episode.push(run);
        let refs = &mut self.entry_refs[run.start as usize..run.end() as usize];
        for (step, entry) in (step..).zip(refs) {
            *entry = EntryRef::new(index, step as u32).0;
        }
        self.used += run.len as usize;
        self.used_by_open += run.len as usize;
        run
    }

    /// Takes half of the largest reserve of another open episode.
    fn take_back(&mut self, index: u32) -> SlotRun {
        let others = self.open.iter().copied().filter(|&other| other != index);
        let richest = others.max_by_key(|&other| self.episodes[other as usize].reserve.len);
        richest.map_or(SlotRun::default(), |other| {
            self.episodes[other as usize].reserve.split_back_half()
        })
    }

    /// Makes an open episode a closed one.
    pub(super) fn finish(&mut self, index: u32) {
        let episode = &mut self.episodes[index as usize];
        let actions = episode.actions();
        self.totals.count(actions as u64);
        self.used_by_open -= episode.len();
        self.free_slots.put_back(std::mem::take(&mut episode.reserve));
        self.open.retain(|&open| open != index);
        if let Some(fields) = &mut self.storage.compressed {
            fields.close(index);
        }
        self.count_inserts(actions);
        self.enqueue(index);
        self.evict_past_limits();
        if self.has_min_size() {
            self.evicted_too_early = 0;
        }
    }

    fn enqueue(&mut self, index: u32) {
        if self.next_number == u32::MAX {
            self.renumber();
        }
        let episode = &mut self.episodes[index as usize];
        episode.number = self.next_number;
        self.next_number += 1;
        self.empty += usize::from(episode.is_empty());
        if let Some(age) = &mut self.age {
            for extent in episode.extents() {
                age.append(extent.run);
            }
        }
        self.index.insert_episode(episode.number, index);
        for view in &mut self.views {
            view.index.insert_episode(episode.number, index);
        }
        if let Some(order) = &mut self.removal {
            order.change(index);
        }
        self.closed.push_back(index);
        self.add_anchors(index);
    }

    /// Numbers the closed episodes from 0 on, in order.
    fn renumber(&mut self) {
        for (number, &index) in (0..).zip(&self.closed) {
            self.episodes[index as usize].number = number;
        }
        self.next_number = self.closed.len() as u32;
        self.index.forget_order();
        self.views.iter_mut().for_each(|view| view.index.forget_order());
        if let Some(anchors) = &mut self.anchors {
            anchors.index.forget_order();
        }
        self.removal = None;
    }

    /// Appends a closed episode with slots for `length` entries, whose bytes the caller writes, and returns its index;
    /// there is room.
    pub(super) fn restore(&mut self, serial: u64, length: usize, ending: Ending) -> u32 {
        self.next_serial = serial;
        self.open();
        let index = self.serials[&serial];
        while self.episodes[index as usize].len() < length {
            self.take(index, length - self.episodes[index as usize].len());
        }
        let episode = &mut self.episodes[index as usize];
        episode.ending = Some(ending);
        self.free_slots.put_back(std::mem::take(&mut episode.reserve));
        self.open.clear();
        self.used_by_open = 0;
        self.enqueue(index);
        index
    }

    /// Removes an episode from the tables; the caller returns its slots to the free ones.
    pub(super) fn forget(&mut self, index: u32) -> Episode {
        let episode = self.episodes.remove(index as usize);
        if let Some(states) = &mut self.recurrent {
            states.forget(index);
        }
        if let Some(fields) = &mut self.storage.compressed {
            fields.forget(index);
        }
        for slots in episode.pieces() {
            self.entry_refs[slots].fill(0);
        }
        self.serials.remove(&episode.serial);
        self.open.retain(|&open| open != index);
        self.used -= episode.len();
        episode
    }
}

/// The error of a call that needs an open episode.
pub fn no_episode_open() -> Error {
    Error::State("no episode is open: call new_episode() first".into())
}
