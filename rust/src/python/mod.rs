//! The bindings: the only code here that knows `pyo3` and NumPy. Private to the package.
//!
//! | question | file |
//! |---|---|
//! | `ReplayMemory`: construction, corrections, draws; its files | `memory`; `memory_files` |
//! | its read-only properties; its settings, and how their values are read | `memory_properties`; `settings`, `setting_value` |
//! | its constructors for spaces of Gymnasium | `spaces` |
//! | its lock, and the counters that are read without it; waits for a change | `memory_handle`; `memory_wait` |
//! | `ReplayWriter`: the calls that write; `ReplayView` | `writer`; `view` |
//! | `TransitionWriter`, for buffers of other libraries | `transition_writer` |
//! | the arguments that are fields of entries; those that close an episode | `entry_args`; `close_args` |
//! | which columns and which class a kind of batch has | `batch_kind` |
//! | where the arrays of a batch lie; the memory that they lie in | `batch_plan`; `block` |
//! | how batches and episodes are filled and made | `batch` |
//! | which arrays `out=` may have | `out_arrays` |
//! | `RateLimiter` | `rate_limiter` |
//! | samples of sequences: their arrays; how they are drawn, and their priorities set | `sequence_plan`; `sequences` |
//! | caches as messages: drawn, kept by a server, mixed by a sampler | `cache`, `cache_store`, `mixer` |
//! | what the rows of caches are; the sequences among them; columns that travel compressed; those on disk | `cache_plan`; `cache_sequences`; `cache_compression`; `cache_bytes` |
//! | the frames of a message | `message_frame` |
//! | `importance_weights` | `importance` |
//! | `CollectorContext`; the calls of its env workers | `context`; `env_worker` |
//! | descriptions of collectors and games that Python gives | `description` |
//! | `RequestBatcher` | `request_batcher` |
//! | arrays of a collector's or a request batcher's batches | `tensor_spec` |
//! | samples of trials as files; the frames of their journals | `sample_columns`; `journal_frames` |
//! | built-in games | `games` |
//! | plain arguments: integers, flags, texts, paths, seeds | `args` |
//! | arguments of one number or id, or of many | `numbers` |
//! | dtype and shape of a field (`cogrs.replay.convert.template` checks them); its values as bytes | `template`; `value_bytes`, `scalar` |
//! | NumPy's C interface | `array` |
//! | exceptions | `error` |
//! | waits, Ctrl-C | `wait` |
//! | calls of Python code, and the end of the interpreter | `exit` |
//! | forked children | `fork_guard` |
//!
//! Arguments are read in place when they are arrays of the right dtype and shape, or Python numbers; everything else
//! goes through `cogrs.replay.convert`, which converts by NumPy's 'same_kind' rule or refuses by name. No thread
//! attaches to the interpreter while it holds a lock; where a lock may be held for long, threads detach before they
//! wait for it. The docstrings are those of `_core.pyi`, which is the contract.

// The stub's docstrings have Google's form, not rustdoc's.
#![allow(clippy::doc_markdown, clippy::doc_lazy_continuation)]

/// The docstring that `_core.pyi` has of a class, a function, or a member of a class, for `#[doc = ...]`.
///
/// `build.rs` cuts it out; one that the stub lacks is a file that is not found.
macro_rules! stub_doc {
    ($name:ident $(. $member:ident)?) => {
        include_str!(concat!(
            env!("OUT_DIR"), "/stub/", stringify!($name), $(".", stringify!($member),)? ".txt"
        ))
    };
}

mod args;
mod array;
mod batch;
mod batch_kind;
mod batch_plan;
mod block;
mod cache;
mod cache_bytes;
mod cache_compression;
mod cache_plan;
mod cache_sequences;
mod cache_store;
mod close_args;
mod compression;
mod context;
mod description;
mod entry_args;
mod env_worker;
mod error;
mod exit;
mod fork_guard;
mod games;
mod importance;
mod journal_frames;
mod memory;
mod memory_files;
mod memory_handle;
mod memory_properties;
mod memory_wait;
mod message_frame;
mod mixer;
mod numbers;
mod out_arrays;
mod prefetch;
mod rate_limiter;
mod request_batcher;
mod sample_columns;
mod scalar;
mod sequence_plan;
mod sequences;
mod setting_value;
mod settings;
mod spaces;
mod template;
mod tensor_spec;
mod transition_writer;
mod value_bytes;
mod view;
mod wait;
mod writer;

use pyo3::prelude::*;

#[doc = stub_doc!(_core)]
#[pymodule(name = "_core")]
mod core_module {
    #[pymodule_export]
    use super::cache::{cache_layout, cache_sequences, draw_cache, set_cache_sequences, start_ids};
    #[pymodule_export]
    use super::cache_bytes::CacheFrames;
    #[pymodule_export]
    use super::cache_compression::compress_cache;
    #[pymodule_export]
    use super::cache_store::CacheStore;
    #[pymodule_export]
    use super::context::{CollectorContext, CollectorDelivery};
    #[pymodule_export]
    use super::description::builtin_columns;
    #[pymodule_export]
    use super::games::{game_spec, physics_step};
    #[pymodule_export]
    use super::importance::importance_weights;
    #[pymodule_export]
    use super::journal_frames::{frames_of_samples, samples_of_frames};
    #[pymodule_export]
    use super::memory::{ReplayMemory, publish_through};
    #[pymodule_export]
    use super::mixer::SampleMixer;
    #[pymodule_export]
    use super::prefetch::settings_version;
    #[pymodule_export]
    use super::rate_limiter::RateLimiter;
    #[pymodule_export]
    use super::request_batcher::{RequestBatcher, RequestDelivery};
    #[pymodule_export]
    use super::sample_columns::SampleColumns;
    #[pymodule_export]
    use super::transition_writer::TransitionWriter;
    #[pymodule_export]
    use super::view::ReplayView;
    #[pymodule_export]
    use super::writer::{ReplayWriter, unlimited_writer, wait_to_insert};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__debug_build__", cfg!(debug_assertions))?;
        // Classes say by `module =` where they are public; a function can only be told here.
        module.getattr("importance_weights")?.setattr("__module__", "cogrs")?;
        super::exit::register(module.py())?;
        super::fork_guard::register(module.py())?;
        // At its first use the binding imports NumPy, and panics if that fails, as it does by a Ctrl-C.
        // Here a failure is an error, and later uses find everything.
        numpy::get_array_module(module.py())?;
        numpy::npyffi::is_numpy_2(module.py());
        Ok(())
    }
}
