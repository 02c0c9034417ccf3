//! How frames become values again.

use std::io::Result as IoResult;

use crate::replay::compressed_column::{CompressedColumn, FrameHead, FrameRef};
use crate::replay::frame_encoder::{FrameKind, combine, combine_in_place};

/// The rows that values are read into, one part after the other.
#[derive(Debug)]
pub(super) struct TargetRows<'a> {
    pub size: usize,
    pub parts: [&'a mut [u8]; 2],
}

impl TargetRows<'_> {
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len() / self.size).sum()
    }

    #[inline]
    pub fn row(&mut self, at: usize) -> &mut [u8] {
        let [first, second] = &mut self.parts;
        let start = at * self.size;
        match start.checked_sub(first.len()) {
            None => &mut first[start..][..self.size],
            Some(start) => &mut second[start..][..self.size],
        }
    }

    /// A row that was written, and another that is to be.
    fn pair(&mut self, written: usize, next: usize) -> (&[u8], &mut [u8]) {
        let size = self.size;
        let [first, second] = &mut self.parts;
        let rows = first.len() / size;
        match (written.checked_sub(rows), next.checked_sub(rows)) {
            (None, None) => split(first, size, written, next),
            (Some(written), Some(next)) => split(second, size, written, next),
            (None, Some(next)) => {
                (&first[written * size..][..size], &mut second[next * size..][..size])
            }
            (Some(written), None) => {
                (&second[written * size..][..size], &mut first[next * size..][..size])
            }
        }
    }
}

/// Two rows of a part.
fn split(part: &mut [u8], size: usize, written: usize, next: usize) -> (&[u8], &mut [u8]) {
    let (low, high) = part.split_at_mut(written.max(next) * size);
    if written < next {
        (&low[written * size..][..size], &mut high[..size])
    } else {
        (&high[..size], &mut low[next * size..][..size])
    }
}

/// Reads values into rows. Those of a group are decoded once when they are read in order, each into its row: the one before
/// is still in the cache there.
#[derive(Debug)]
pub(super) struct FrameReader<'a> {
    column: &'a CompressedColumn,
    value: Vec<u8>,
    difference: Vec<u8>,
    /// The frame that was read last, and the row that has its value.
    at: Option<(FrameRef, usize)>,
}

impl<'a> FrameReader<'a> {
    pub fn new(column: &'a CompressedColumn) -> Self {
        Self { column, value: Vec::new(), difference: Vec::new(), at: None }
    }

    /// Reads the value whose frame lies at a [`CompressedColumn::place`] into a row. Rows that were read before are those of
    /// this call.
    pub fn read(&mut self, place: u64, rows: &mut TargetRows<'_>, row: usize) {
        let wanted = FrameRef(place);
        if let Some((_, written)) = self.at.filter(|(at, _)| *at == wanted) {
            let (value, out) = rows.pair(written, row);
            out.copy_from_slice(value);
            return;
        }
        let chunk = self.column.chunk(wanted.chunk());
        let head = FrameHead::at(chunk, wanted.offset());
        let resumed = self.at.filter(|(at, _)| {
            at.chunk() == wanted.chunk() && (head.key..wanted.offset()).contains(&at.offset())
        });
        // The row that has the value before the next frame; None where the buffer has it.
        let (mut next, mut before) = match resumed {
            Some((at, row)) => (FrameHead::at(chunk, at.offset()).end, Some(row)),
            None => (head.key, None),
        };
        while next != wanted.offset() {
            let found = FrameHead::at(chunk, next);
            let frame = &chunk[found.start..found.end];
            self.value.resize(rows.size, 0);
            if found.kind == FrameKind::Delta {
                checked(&self.decode_difference(frame));
                match before {
                    None => combine_in_place(&mut self.value, &self.difference),
                    Some(row) => combine(&mut self.value, rows.row(row), &self.difference),
                }
            } else {
                checked(&self.column.decode_whole(found.kind, frame, &mut self.value));
            }
            before = None;
            next = found.end;
        }
        let frame = &chunk[head.start..head.end];
        if head.kind == FrameKind::Delta {
            checked(&self.decode_difference(frame));
            match before {
                None => combine(rows.row(row), &self.value, &self.difference),
                Some(written) => {
                    let (value, out) = rows.pair(written, row);
                    combine(out, value, &self.difference);
                }
            }
        } else {
            checked(&self.column.decode_whole(head.kind, frame, rows.row(row)));
        }
        self.at = Some((wanted, row));
    }

    fn decode_difference(&mut self, frame: &[u8]) -> IoResult<()> {
        self.difference.resize(self.column.size, 0);
        self.column.codec.decompress(frame, &mut self.difference)
    }
}

fn checked(decoded: &IoResult<()>) {
    // Frames are made here, and those of files are decoded before they are stored.
    assert!(decoded.is_ok(), "a frame that was stored cannot be decoded");
}
