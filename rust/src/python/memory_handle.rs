//! A replay memory that Python objects share, with its lock.
//!
//! Threads: `memory` is the lock of all calls. A thread that waits for it, or copies more than [`DETACH_FROM`]
//! bytes with it, has detached from the interpreter, and no thread attaches while it holds it. `settings` is taken
//! within it, or alone and briefly. Counters are stored under the lock and read without it, so that properties
//! answer at once while other threads sample.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use pyo3::prelude::*;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result};
use crate::python::block::BlockPool;
use crate::python::cache_sequences::CacheSequences;
use crate::python::fork_guard::ForkGuard;
use crate::python::template::Template;
use crate::python::wait::{Wait, WaitTimes};
use crate::replay::checkpoint::CheckpointFile;
use crate::replay::compression::{Compression, EncodedRows, FrameStates};
use crate::replay::memory::{EntryRows, Memory};
use crate::replay::rate_limiter::{LimiterCounts, RateLimiter};
use crate::replay::restore::SettingsOf;
use crate::replay::sampler::Sampler;
use crate::replay::settings::Settings;
use crate::spec::{EntrySpec, FIELDS, Field};

/// Calls that copy more bytes than this let other Python threads run meanwhile.
pub const DETACH_FROM: usize = 64 << 10;

/// The size of calls that take long, or whose size shows only under the lock.
pub const LONG: usize = usize::MAX;

#[derive(Debug)]
pub struct MemoryHandle {
    memory: Mutex<Memory>,
    spec: EntrySpec,
    templates: [Template; FIELDS],
    /// The recurrent state's, in a memory that stores it.
    pub recurrent: Option<Template>,
    recurrent_period: usize,
    /// The sequences that caches hold; transitions where it is not set.
    pub cache_sequences: OnceLock<CacheSequences>,
    /// Where large fields lie that are on disk; it never changes.
    pub folder: Option<PathBuf>,
    /// Which fields are compressed; it never changes.
    pub compression: Option<Compression>,
    settings: Mutex<Arc<Settings>>,
    /// How often the settings have changed.
    settings_version: AtomicU64,
    pub counters: Counters,
    /// The rate limiter, which never changes.
    pub limiter: Option<RateLimiter>,
    /// Notified when the memory has changed and threads wait.
    pub(super) changed: Condvar,
    /// Threads that wait for a change; changed under the lock.
    pub(super) waiting: AtomicUsize,
    pub(super) waits: WaitTimes,
    fork_guard: ForkGuard,
    pub pool: Arc<BlockPool>,
}

impl MemoryHandle {
    pub fn new(memory: Memory, templates: [Template; FIELDS], recurrent: Option<Template>) -> Self {
        let recurrent_period = memory.recurrent_period();
        Self {
            settings: Mutex::new(Arc::clone(memory.settings())),
            settings_version: AtomicU64::new(0),
            counters: Counters::of(&memory),
            folder: memory.folder().map(|folder| folder.path().to_owned()),
            compression: memory.compression().cloned(),
            limiter: memory.limiter().copied(),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            waits: WaitTimes::default(),
            spec: memory.spec().clone(),
            memory: Mutex::new(memory),
            templates,
            recurrent,
            recurrent_period,
            cache_sequences: OnceLock::new(),
            fork_guard: ForkGuard::here(),
            pool: Arc::default(),
        }
    }

    pub fn template(&self, field: Field) -> &Template {
        &self.templates[field.index()]
    }

    /// Steps from one stored recurrent state to the next; 1 where none are stored.
    pub fn recurrent_period(&self) -> usize {
        self.recurrent_period
    }

    pub fn spec(&self) -> &EntrySpec {
        &self.spec
    }

    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number that changes with the settings.
    pub fn settings_version(&self) -> u64 {
        self.settings_version.load(Ordering::Acquire)
    }

    /// Runs `call` on the memory. Other Python threads run meanwhile when it copies many `bytes`, or has to wait.
    /// `RuntimeError` in a forked child.
    pub fn call<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        call: impl FnOnce(&mut Memory) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.fork_guard.check("ReplayMemory")?;
        if bytes <= DETACH_FROM {
            match self.memory.try_lock() {
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Poisoned(_)) => return Err(interrupted().into()),
                Ok(mut memory) => return Ok(self.run(&mut memory, call)?),
            }
        }
        // Not `lock_py_attached`: that attaches again while it holds the lock, and a thread that waits for the lock
        // while attached would then wait for ever.
        Ok(py.detach(|| {
            let mut memory = self.lock()?;
            self.run(&mut memory, call)
        })?)
    }

    /// Encodes the compressed fields of entries, before the lock of the memory is taken; None where no field is compressed.
    /// `serial` is that of the open episode that they continue; None for a new one. `RuntimeError` when it is not open.
    #[inline]
    pub fn encode(
        &self,
        py: Python<'_>,
        serial: Option<u64>,
        rows: EntryRows<'_>,
    ) -> PyResult<Option<EncodedRows>> {
        self.compression.as_ref().map(|by| self.encode_by(by, py, serial, rows)).transpose()
    }

    fn encode_by(
        &self,
        compression: &Compression,
        py: Python<'_>,
        serial: Option<u64>,
        rows: EntryRows<'_>,
    ) -> PyResult<EncodedRows> {
        let states = match serial.filter(|_| compression.has_deltas()) {
            Some(serial) => self.call(py, 0, |memory| memory.frame_states(serial))?,
            None => FrameStates::default(),
        };
        let encode = || compression.encode(&self.spec, rows, states);
        let bytes: usize = rows.iter().map(|row| row.len()).sum();
        check_allocatable(bytes)?;
        Ok(if bytes > DETACH_FROM { py.detach(encode) } else { encode() })
    }

    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Memory>> {
        self.memory.lock().map_err(|_| interrupted())
    }

    pub(super) fn run<T>(
        &self,
        memory: &mut Memory,
        call: impl FnOnce(&mut Memory) -> Result<T>,
    ) -> Result<T> {
        let before = (self.waiting.load(Ordering::Relaxed) > 0).then(|| contents(memory));
        let result = call(memory);
        self.counters.store(memory);
        if before.is_some_and(|before| before != contents(memory)) {
            self.changed.notify_all();
        }
        result
    }

    /// Changes settings: all of them, or nothing when `change` fails.
    pub fn change(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Settings) -> Result<()> + Send,
    ) -> PyResult<()> {
        // New borders of episodes rewrite all weights, which takes long in a large memory.
        self.call(py, LONG, |memory| {
            let mut settings = Settings::clone(memory.settings());
            change(&mut settings)?;
            settings.check()?;
            self.check_sequences(&settings)?;
            memory.set_settings(settings)?;
            self.show_settings(memory);
            self.changed.notify_all();
            Ok(())
        })
    }

    fn check_sequences(&self, settings: &Settings) -> Result<()> {
        self.cache_sequences.get().map_or(Ok(()), |sequences| sequences.check(settings))
    }

    /// Checks that the settings of a file, if these count, fit the sequences that caches hold.
    pub fn check_file(&self, file: &CheckpointFile, settings: SettingsOf) -> Result<()> {
        match settings {
            SettingsOf::File => self.check_sequences(file.settings()),
            SettingsOf::Neither | SettingsOf::Memory => Ok(()),
        }
    }

    /// Replaces the contents of the memory: all, or nothing when `replace` fails.
    pub fn replace(
        &self,
        py: Python<'_>,
        replace: impl FnOnce(&mut Memory) -> Result<()> + Send,
    ) -> PyResult<()> {
        self.call(py, LONG, |memory| {
            replace(memory)?;
            self.show_settings(memory);
            Ok(())
        })?;
        self.changed.notify_all();
        Ok(())
    }

    fn show_settings(&self, memory: &Memory) {
        let mut visible = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *visible = Arc::clone(memory.settings());
        self.settings_version.fetch_add(1, Ordering::Release);
    }

    /// Runs `call` for an object that is being dropped. Errors go nowhere, and nothing runs in a forked child.
    pub fn call_in_drop(&self, call: impl FnOnce(&mut Memory) -> Result<()> + Send) {
        if self.fork_guard.is_here() {
            // While the interpreter shuts down there is nothing to attach to, and nothing to release.
            drop(Python::try_attach(|py| self.call(py, 0, call)));
        }
    }

    /// How long a call waits by its argument `wait`: with a rate limiter None is for ever, without one not at all.
    pub fn patience(&self, wait: Option<&Bound<'_, PyAny>>) -> PyResult<Wait> {
        Wait::new(wait, if self.limiter.is_some() { Wait::ForEver } else { Wait::Never })
    }

    /// `RuntimeError` in a forked child.
    pub fn check_process(&self) -> PyResult<()> {
        self.fork_guard.check("ReplayMemory")
    }

    /// `RuntimeError` with the reason when no entry can be drawn, and in a forked child; waits only to say why.
    pub fn check_drawable(&self, py: Python<'_>, sampler: Option<Sampler>) -> PyResult<()> {
        // What can be drawn in proportion to weight can be drawn by all samplers.
        if self.counters.num_sampleable() > 0 {
            return Ok(());
        }
        let own = self.settings().sampler;
        self.call(py, 0, |memory| memory.check_drawable(sampler.unwrap_or(own)))
    }
}

/// What decides whether a call has to wait.
fn contents(memory: &Memory) -> (Option<LimiterCounts>, u64, usize, usize, usize) {
    (
        memory.limiter_counts(),
        memory.totals().episodes,
        memory.num_episode(),
        memory.num_drawable(),
        memory.num_sampleable(),
    )
}

/// Counters of a memory as the last call left them.
#[derive(Debug, Default)]
pub struct Counters {
    num_episode: AtomicUsize,
    num_entry: AtomicUsize,
    num_drawable: AtomicUsize,
    num_sampleable: AtomicUsize,
    weight_sum: AtomicU64,
    total_episodes: AtomicU64,
    total_steps: AtomicU64,
    nbytes: AtomicU64,
}

impl Counters {
    fn of(memory: &Memory) -> Self {
        let counters = Self::default();
        counters.nbytes.store(memory.nbytes(), Ordering::Relaxed);
        counters.store(memory);
        counters
    }

    fn store(&self, memory: &Memory) {
        self.num_episode.store(memory.num_episode(), Ordering::Relaxed);
        self.num_entry.store(memory.num_entry(), Ordering::Relaxed);
        self.num_drawable.store(memory.num_drawable(), Ordering::Relaxed);
        self.num_sampleable.store(memory.num_sampleable(), Ordering::Relaxed);
        self.weight_sum.store(memory.weight_sum().to_bits(), Ordering::Relaxed);
        self.total_episodes.store(memory.totals().episodes, Ordering::Relaxed);
        self.total_steps.store(memory.totals().steps, Ordering::Relaxed);
        if memory.compression().is_some() {
            self.nbytes.store(memory.nbytes(), Ordering::Relaxed);
        }
    }

    pub fn num_episode(&self) -> usize {
        self.num_episode.load(Ordering::Relaxed)
    }

    pub fn nbytes(&self) -> u64 {
        self.nbytes.load(Ordering::Relaxed)
    }

    pub fn num_entry(&self) -> usize {
        self.num_entry.load(Ordering::Relaxed)
    }

    pub fn num_drawable(&self) -> usize {
        self.num_drawable.load(Ordering::Relaxed)
    }

    pub fn num_sampleable(&self) -> usize {
        self.num_sampleable.load(Ordering::Relaxed)
    }

    pub fn num_drawable_by(&self, sampler: Sampler) -> usize {
        if sampler.is_weighted() { self.num_sampleable() } else { self.num_drawable() }
    }

    pub fn weight_sum(&self) -> f64 {
        f64::from_bits(self.weight_sum.load(Ordering::Relaxed))
    }

    pub fn total_episodes(&self) -> u64 {
        self.total_episodes.load(Ordering::Relaxed)
    }

    pub fn total_steps(&self) -> u64 {
        self.total_steps.load(Ordering::Relaxed)
    }
}

pub(super) fn interrupted() -> Error {
    Error::State(
        "an internal error interrupted an earlier call on this memory; its contents cannot be trusted"
            .into(),
    )
}
