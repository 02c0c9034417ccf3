//! The starts of sequences that a memory has; `sequence_priorities` says with which weights.

use crate::replay::sampling_index::SamplingIndex;
use crate::replay::sequence_window::SequenceShape;

/// The anchors of all closed episodes for one shape of sequences.
#[derive(Debug)]
pub(super) struct Anchors {
    pub shape: SequenceShape,
    /// The first step whose anchor can be drawn. Those before have weights too, for another `frame_stack`.
    pub first: usize,
    /// Over the slots of the entries: those that hold an anchor's step can be drawn.
    pub index: SamplingIndex,
}
