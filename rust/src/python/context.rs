//! `cogrs._core.CollectorContext`. Locks and threads are those of `collector::context`; every call that may wait
//! for games detaches from the interpreter first.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::available_memory::available_memory;
use crate::collector::context::{Context, FailureCounts, Options, Override, TakenBatch};
use crate::error::Error;
use crate::games::GameFactory;
use crate::python::description::{CollectorArg, CollectorTensors, GameArg, StepTensors, policy};
use crate::python::fork_guard::ForkGuard;
use crate::python::games::named;
use crate::python::tensor_spec::{TensorMemory, arrays};
use crate::python::wait::{deadline, interruptible};

#[doc = stub_doc!(CollectorContext)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct CollectorContext {
    /// None only while this is dropped.
    context: Option<Context>,
    tensors: Vec<CollectorTensors>,
    /// Arrays that env workers see; None for built-in games.
    pub(super) step_tensors: Option<StepTensors>,
    fork_guard: ForkGuard,
}

#[doc = stub_doc!(CollectorDelivery)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct CollectorDelivery {
    owner: Py<CollectorContext>,
    taken: TakenBatch,
}

#[pymethods]
impl CollectorDelivery {
    #[doc = stub_doc!(CollectorDelivery.gid)]
    #[getter]
    fn gid(&self) -> usize {
        self.taken.collector
    }

    #[doc = stub_doc!(CollectorDelivery.buffer)]
    #[getter]
    fn buffer(&self) -> usize {
        self.taken.buffer
    }

    #[doc = stub_doc!(CollectorDelivery.rows)]
    #[getter]
    fn rows(&self) -> usize {
        self.taken.rows
    }
}

impl CollectorDelivery {
    pub(super) fn new(owner: &Bound<'_, CollectorContext>, taken: TakenBatch) -> Self {
        Self { owner: owner.clone().unbind(), taken }
    }
}

impl Drop for CollectorDelivery {
    fn drop(&mut self) {
        if let Ok(context) = self.owner.get().context() {
            // An error says that it was answered.
            let _ = context.put_back(self.taken);
        }
    }
}

/// States, episodes, failures of games, restarts, games dropped; and for each collector batches, rows, short
/// batches and lost states.
type Summary = ([u64; 5], Vec<[u64; 4]>);

impl CollectorContext {
    pub(super) fn context(&self) -> PyResult<&Context> {
        self.fork_guard.check("GameContext")?;
        let gone = || Error::State("this context was deleted".into());
        Ok(self.context.as_ref().ok_or_else(gone)?)
    }

    /// `IndexError` when the collector does not exist.
    pub(super) fn check_gid(&self, gid: Option<usize>) -> PyResult<()> {
        match gid.filter(|&gid| gid >= self.tensors.len()) {
            None => Ok(()),
            Some(gid) => Err(Error::Index(format!("no collector {gid}")).into()),
        }
    }

    fn owned(&self, this: &Bound<'_, Self>, delivery: &CollectorDelivery) -> PyResult<&Context> {
        if delivery.owner.is(this) {
            return self.context();
        }
        Err(Error::State("this delivery belongs to another context".into()).into())
    }
}

#[pymethods]
impl CollectorContext {
    #[new]
    #[pyo3(signature = (game, collectors, *, max_episode_steps, game_options=None, num_games, num_threads, num_buffers, seed,
                        deterministic, on_error, max_restarts, restart_backoff, queries))]
    // The options of one constructor.
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        game: &Bound<'_, PyAny>,
        collectors: Vec<CollectorArg<'_>>,
        max_episode_steps: u64,
        game_options: Option<HashMap<String, f64>>,
        num_games: usize,
        num_threads: usize,
        num_buffers: Option<usize>,
        seed: u64,
        deterministic: bool,
        on_error: &str,
        max_restarts: u32,
        restart_backoff: f64,
        queries: usize,
    ) -> PyResult<Self> {
        let resolved: PyResult<Vec<_>> =
            collectors.into_iter().map(CollectorArg::resolve).collect();
        let (collectors, tensors) = resolved?.into_iter().unzip();
        let options = Options {
            games: num_games,
            threads: num_threads,
            buffers: num_buffers,
            memory: available_memory(),
            seed,
            deterministic,
            on_error: policy(on_error, max_restarts, restart_backoff)?,
            queries,
        };
        let (made, step_tensors) = if let Ok(name) = game.extract::<String>() {
            let game = GameFactory::new(&name, max_episode_steps, &named(game_options))?;
            let make = || {
                Context::of_game_batches(&game.spec(), collectors, options, |games| {
                    game.game_batch(games.len())
                })
            };
            (py.detach(make)?, None)
        } else {
            let (spec, files, step_tensors) = game.extract::<GameArg<'_>>()?.resolve()?;
            let make = || Context::with_env_workers(&spec, collectors, options, &files);
            (py.detach(make)?, Some(step_tensors))
        };
        Ok(Self { context: Some(made), tensors, step_tensors, fork_guard: ForkGuard::here() })
    }

    #[doc = stub_doc!(CollectorContext.start)]
    fn start(&self) -> PyResult<()> {
        Ok(self.context()?.start()?)
    }

    #[doc = stub_doc!(CollectorContext.wait)]
    #[pyo3(signature = (gid=None, timeout=None))]
    fn wait(
        slf: &Bound<'_, Self>,
        gid: Option<usize>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<CollectorDelivery>> {
        let context = slf.get().context()?;
        slf.get().check_gid(gid)?;
        let taken =
            interruptible(slf.py(), deadline(timeout)?, |end| context.wait(gid, Some(end)))?;
        Ok(taken.map(|taken| CollectorDelivery::new(slf, taken)))
    }

    #[doc = stub_doc!(CollectorContext.answer)]
    fn answer(slf: &Bound<'_, Self>, delivery: &CollectorDelivery) -> PyResult<()> {
        let context = slf.get().owned(slf, delivery)?;
        Ok(slf.py().detach(|| context.answer(delivery.taken))?)
    }

    #[doc = stub_doc!(CollectorContext.put_back)]
    fn put_back(slf: &Bound<'_, Self>, delivery: &CollectorDelivery) -> PyResult<()> {
        Ok(slf.get().owned(slf, delivery)?.put_back(delivery.taken)?)
    }

    #[doc = stub_doc!(CollectorContext.check_out)]
    fn check_out(slf: &Bound<'_, Self>, delivery: &CollectorDelivery) -> PyResult<()> {
        Ok(slf.get().owned(slf, delivery)?.check_out(delivery.taken)?)
    }

    #[doc = stub_doc!(CollectorContext.stop)]
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        // A forked child has none of the threads, and may be on its way out with an exception of its own.
        if !self.fork_guard.is_here() {
            return Ok(());
        }
        let context = self.context()?;
        py.detach(|| context.stop());
        Ok(())
    }

    #[doc = stub_doc!(CollectorContext.num_buffers)]
    fn num_buffers(&self) -> PyResult<Vec<usize>> {
        let context = self.context()?;
        Ok((0..self.tensors.len()).map(|gid| context.batches(gid).len()).collect())
    }

    #[doc = stub_doc!(CollectorContext.memory)]
    fn memory(&self, gid: usize) -> PyResult<(usize, usize)> {
        let context = self.context()?;
        self.check_gid(Some(gid))?;
        let batches = context.batches(gid);
        Ok((batches[0].start_of_all() as usize, batches.iter().map(|each| each.size()).sum()))
    }

    #[doc = stub_doc!(CollectorContext.batch)]
    fn batch<'py>(
        &self,
        py: Python<'py>,
        gid: usize,
        buffer: usize,
    ) -> PyResult<(Bound<'py, PyList>, Option<Bound<'py, PyList>>)> {
        let context = self.context()?;
        let missing = || Error::Index(format!("no batch {buffer} of collector {gid}"));
        let collector = context.collectors().nth(gid).ok_or_else(missing)?;
        let memory = context.batches(gid).get(buffer).ok_or_else(missing)?;
        let memory = TensorMemory::new(py, memory)?;
        let (inputs, replies) = (PyList::empty(py), PyList::empty(py));
        let tensors = &self.tensors[gid];
        for step in 0..collector.steps {
            inputs.append(arrays(&memory, collector.input_part(step, 0), &tensors.inputs)?)?;
            replies.append(arrays(&memory, collector.reply_part(step, 0), &tensors.replies)?)?;
        }
        Ok((inputs, collector.replying().then_some(replies)))
    }

    #[doc = stub_doc!(CollectorContext.summary)]
    fn summary(&self, py: Python<'_>) -> PyResult<Summary> {
        let context = self.context()?;
        let (counts, delivered) = py.detach(|| (context.counts(), context.delivered()));
        let states = counts.iter().map(|each| each.states).sum();
        let episodes = counts.iter().map(|each| each.episodes).sum();
        let FailureCounts { failures, restarts, dropped } = context.failures();
        let batches = delivered.iter().map(|each| [each.batches, each.rows, each.short, each.lost]);
        Ok(([states, episodes, failures, restarts, dropped], batches.collect()))
    }

    #[doc = stub_doc!(CollectorContext.stay)]
    fn stay(&self, game: usize) -> PyResult<()> {
        Ok(self.context()?.override_step(game, Override::Stay)?)
    }

    #[doc = stub_doc!(CollectorContext.stay_each)]
    fn stay_each(&self, games: Vec<usize>) -> PyResult<()> {
        let context = self.context()?;
        for game in games {
            context.override_step(game, Override::Stay)?;
        }
        Ok(())
    }

    #[doc = stub_doc!(CollectorContext.begin)]
    #[pyo3(signature = (game, seed=None))]
    fn begin(&self, game: usize, seed: Option<u64>) -> PyResult<()> {
        Ok(self.context()?.override_step(game, Override::Begin(seed))?)
    }

    #[doc = stub_doc!(CollectorContext.failed_game)]
    fn failed_game(&self) -> PyResult<Option<u32>> {
        Ok(self.context()?.failed_game())
    }
}

impl Drop for CollectorContext {
    fn drop(&mut self) {
        let Some(context) = self.context.take() else { return };
        if self.fork_guard.is_here() {
            // Threads are joined, which takes as long as the step of a game. While the interpreter shuts down
            // there is nothing to attach to, and no thread is kept waiting.
            let _ = Python::try_attach(|py| py.detach(|| drop(context)));
        } else {
            // Its threads are not in this process, and its locks may stay locked for ever.
            std::mem::forget(context);
        }
    }
}
