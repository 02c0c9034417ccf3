//! Columns that grow, in the layout that Arrow's specification gives their buffers in memory.

use bytemuck::NoUninit;

use crate::error::{Error, Result};

/// The buffers of columns, depth first: of each a validity bitmap (`None` if nothing is missing), then
/// flags or numbers, or offsets and bytes of texts, or offsets of lists and the buffers of their values,
/// or the buffers of each field of structs.
pub type Buffers = Vec<Option<Vec<u8>>>;

fn bytes_of<T: NoUninit>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

/// A column whose buffers can be taken out.
pub trait Column {
    /// Appends the buffers, and begins anew without rows.
    fn take(&mut self, buffers: &mut Buffers);
}

/// A bit per row.
#[derive(Debug, Default)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
    ones: usize,
}

impl Bits {
    /// Appends a bit.
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        self.bytes[self.len / 8] |= u8::from(bit) << (self.len % 8);
        self.len += 1;
        self.ones += usize::from(bit);
    }

    fn take_validity(&mut self, buffers: &mut Buffers) {
        let taken = std::mem::take(self);
        buffers.push((taken.ones < taken.len).then_some(taken.bytes));
    }
}

impl Column for Bits {
    fn take(&mut self, buffers: &mut Buffers) {
        buffers.extend([None, Some(std::mem::take(self).bytes)]);
    }
}

/// A number per row, which may be missing.
#[derive(Debug)]
pub struct Numbers<T> {
    there: Bits,
    values: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { there: Bits::default(), values: Vec::new() }
    }
}

impl<T: NoUninit + Default> Numbers<T> {
    /// Appends a number.
    pub fn push(&mut self, value: Option<T>) {
        self.there.push(value.is_some());
        self.values.push(value.unwrap_or_default());
    }
}

impl<T: NoUninit> Column for Numbers<T> {
    fn take(&mut self, buffers: &mut Buffers) {
        self.there.take_validity(buffers);
        buffers.push(Some(bytes_of(&std::mem::take(&mut self.values))));
    }
}

/// Where the items of lists end, or the bytes of texts.
#[derive(Debug)]
pub struct Offsets(Vec<i32>);

impl Default for Offsets {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Offsets {
    /// Ends a list, behind which there are so many items in all.
    pub fn push(&mut self, end: usize) -> Result<()> {
        let end = i32::try_from(end).map_err(|_| {
            Error::value("sample", "less than 2 GiB of values in a table", format!("{end} bytes"))
        })?;
        self.0.push(end);
        Ok(())
    }
}

impl Column for Offsets {
    fn take(&mut self, buffers: &mut Buffers) {
        buffers.extend([None, Some(bytes_of(&std::mem::take(self).0))]);
    }
}

/// A text, or bytes, per row.
#[derive(Debug, Default)]
pub struct Texts {
    ends: Offsets,
    bytes: Vec<u8>,
}

impl Texts {
    /// Appends a text.
    pub fn push(&mut self, text: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len())
    }
}

impl Column for Texts {
    fn take(&mut self, buffers: &mut Buffers) {
        self.ends.take(buffers);
        buffers.push(Some(std::mem::take(&mut self.bytes)));
    }
}

/// Structs of arrays: which rows are there, and the observations or actions of these.
#[derive(Debug, Default)]
pub struct Payloads {
    there: Bits,
    kind: Texts,
    dims: Offsets,
    shape: Vec<u64>,
    data: Texts,
}

impl Payloads {
    /// Appends an array: its kind, shape and data.
    pub fn push(&mut self, array: Option<(&str, &[u64], &[u8])>) -> Result<()> {
        self.there.push(array.is_some());
        let (kind, shape, data) = array.unwrap_or_default();
        self.kind.push(kind.as_bytes())?;
        self.shape.extend_from_slice(shape);
        self.dims.push(self.shape.len())?;
        self.data.push(data)
    }
}

impl Column for Payloads {
    fn take(&mut self, buffers: &mut Buffers) {
        self.there.take_validity(buffers);
        self.kind.take(buffers);
        self.dims.take(buffers);
        buffers.extend([None, Some(bytes_of(&std::mem::take(&mut self.shape)))]);
        self.data.take(buffers);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Buffers, Column, Numbers, Payloads, Texts};

    fn taken(mut column: impl Column) -> Buffers {
        let mut buffers = vec![];
        column.take(&mut buffers);
        let mut again = vec![];
        column.take(&mut again);
        let empty = |each: &Option<Vec<u8>>| each.as_ref().is_none_or(|bytes| bytes.len() <= 4);
        assert!(again.iter().all(empty));
        buffers
    }

    #[test]
    fn bits_are_packed_from_the_lowest() {
        let mut bits = Bits::default();
        (0..10).for_each(|row| bits.push(row % 3 == 0));
        assert_eq!(taken(bits), [None, Some(vec![0b0100_1001, 0b10])]);
    }

    #[test]
    fn numbers_have_validity_only_if_one_is_missing() {
        let mut numbers = Numbers::<u16>::default();
        numbers.push(Some(258));
        numbers.push(None);
        assert_eq!(taken(numbers), [Some(vec![1]), Some(vec![2, 1, 0, 0])]);
        let mut numbers = Numbers::<u16>::default();
        numbers.push(Some(1));
        assert_eq!(taken(numbers), [None, Some(vec![1, 0])]);
    }

    #[test]
    fn texts_have_offsets_that_begin_with_zero() {
        let mut texts = Texts::default();
        texts.push(b"ab").unwrap();
        texts.push(b"").unwrap();
        let offsets = [[0, 0, 0, 0], [2, 0, 0, 0], [2, 0, 0, 0]].concat();
        assert_eq!(taken(texts), [None, Some(offsets), Some(b"ab".to_vec())]);
    }

    #[test]
    fn missing_arrays_have_empty_parts() {
        let mut payloads = Payloads::default();
        payloads.push(None).unwrap();
        payloads.push(Some(("<f4", &[2], b"12345678"))).unwrap();
        let buffers = taken(payloads);
        assert_eq!(buffers.len(), 1 + 3 + 2 + 2 + 3);
        assert_eq!(buffers[0], Some(vec![0b10]));
        assert_eq!(buffers[3], Some(b"<f4".to_vec()));
        assert_eq!(buffers[7], Some(2_u64.to_ne_bytes().to_vec()));
        assert_eq!(buffers[10], Some(b"12345678".to_vec()));
    }
}
