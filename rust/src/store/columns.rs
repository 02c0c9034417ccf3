//! Columns that grow with the rows of a trial, and are then written to its file.

use bytemuck::NoUninit;

use crate::error::{Error, Result};
use crate::store::parquet::file::{Levels, ParquetFile, Values, plain_texts};

/// A column, or one with parts.
pub trait Column {
    /// Writes its rows, and begins anew without rows.
    fn write(&mut self, file: &mut ParquetFile) -> Result<()>;
}

/// A bit per row.
#[derive(Debug, Default, PartialEq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// Appends a bit.
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        self.bytes[self.len / 8] |= u8::from(bit) << (self.len % 8);
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.len).map(|row| self.bytes[row / 8] >> (row % 8) & 1 == 1)
    }

    /// Levels of a column whose values are there where a bit is set.
    fn levels(&self, there: u32) -> Levels {
        let definition = self.iter().map(|bit| if bit { there } else { 0 }).collect();
        Levels { definition, repetition: vec![] }
    }
}

impl Column for Bits {
    fn write(&mut self, file: &mut ParquetFile) -> Result<()> {
        let taken = std::mem::take(self);
        file.column(&all_there(taken.len), &Values::Plain(taken.bytes))
    }
}

/// Levels of a column outside of lists whose values are all there.
fn all_there(rows: usize) -> Levels {
    Levels { definition: vec![1; rows], repetition: vec![] }
}

/// A number per row, which may be missing.
#[derive(Debug, PartialEq)]
pub struct Numbers<T> {
    there: Bits,
    values: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { there: Bits::default(), values: Vec::new() }
    }
}

impl<T: NoUninit> Numbers<T> {
    /// Appends a number.
    pub fn push(&mut self, value: Option<T>) {
        self.there.push(value.is_some());
        self.values.extend(value);
    }
}

impl<T: NoUninit> Column for Numbers<T> {
    fn write(&mut self, file: &mut ParquetFile) -> Result<()> {
        let taken = std::mem::take(self);
        file.column(&taken.there.levels(1), &plain(&taken.values))
    }
}

/// The bytes of numbers.
pub fn plain<T: NoUninit>(values: &[T]) -> Values<'static> {
    Values::Plain(bytemuck::cast_slice(values).to_vec())
}

/// Where the items of lists end, or the bytes of texts.
#[derive(Debug, Default)]
pub struct Ends(Vec<u32>);

impl Ends {
    /// Ends a list, behind which there are so many items in all.
    pub fn push(&mut self, end: usize) -> Result<()> {
        let end = u32::try_from(end).map_err(|_| {
            Error::value("sample", "less than 4 GiB of values in a table", format!("{end} bytes"))
        })?;
        self.0.push(end);
        Ok(())
    }

    /// Iterates over the places of items, list by list.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let begins = std::iter::once(&0).chain(&self.0);
        begins.zip(&self.0).map(|(begin, end)| *begin as usize..*end as usize)
    }
}

/// Texts, or bytes.
#[derive(Debug, Default)]
pub struct Texts {
    ends: Ends,
    bytes: Vec<u8>,
}

impl Texts {
    /// Appends a text.
    pub fn push(&mut self, text: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len())
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.ranges().map(|range| &self.bytes[range])
    }

    /// As values of which many are equal.
    pub fn shared(&self) -> Values<'_> {
        Values::Shared(self.iter().collect())
    }

    /// As values that differ.
    pub fn apart(&self) -> Values<'static> {
        Values::Plain(plain_texts(self.iter()))
    }
}

impl Column for Texts {
    fn write(&mut self, file: &mut ParquetFile) -> Result<()> {
        let taken = std::mem::take(self);
        file.column(&all_there(taken.ends.0.len()), &taken.shared())
    }
}

/// Levels of lists, one per row, whose items are at these places: `empty` is that of a list without items.
pub fn levels_of_lists(rows: impl Iterator<Item = usize>, empty: u32, item: u32) -> Levels {
    let mut levels = Levels::default();
    for len in rows {
        levels.definition.extend(std::iter::repeat_n(item, len));
        levels.repetition.extend((0..len).map(|place| u32::from(place > 0)));
        if len == 0 {
            levels.definition.push(empty);
            levels.repetition.push(0);
        }
    }
    levels
}

/// Observations or actions: which rows have one, and the arrays of these.
#[derive(Debug, Default)]
pub struct Payloads {
    there: Bits,
    kind: Texts,
    dims: Ends,
    shape: Vec<u64>,
    data: Texts,
}

impl Payloads {
    /// Appends an array: its kind, shape and data.
    pub fn push(&mut self, array: Option<(&str, &[u64], &[u8])>) -> Result<()> {
        self.there.push(array.is_some());
        let Some((kind, shape, data)) = array else {
            return Ok(());
        };
        self.kind.push(kind.as_bytes())?;
        self.shape.extend_from_slice(shape);
        self.dims.push(self.shape.len())?;
        self.data.push(data)
    }

    fn shape_levels(&self) -> Levels {
        let mut levels = Levels::default();
        let mut dims = self.dims.ranges();
        for there in self.there.iter() {
            let len = if there { dims.next().map_or(0, |range| range.len()) } else { 0 };
            if len == 0 {
                levels.definition.push(if there { 2 } else { 0 });
                levels.repetition.push(0);
            }
            levels.definition.extend(std::iter::repeat_n(4, len));
            levels.repetition.extend((0..len).map(|place| u32::from(place > 0)));
        }
        levels
    }
}

impl Column for Payloads {
    fn write(&mut self, file: &mut ParquetFile) -> Result<()> {
        let taken = std::mem::take(self);
        let levels = taken.there.levels(2);
        file.column(&levels, &taken.kind.shared())?;
        file.column(&taken.shape_levels(), &plain(&taken.shape))?;
        file.column(&levels, &taken.data.apart())
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::NoUninit;

    use super::{Bits, Ends, Numbers, Payloads, Texts, levels_of_lists};
    use crate::store::parquet::file::Values;

    impl<T: NoUninit> Numbers<T> {
        /// A column with these rows.
        pub fn of(rows: impl IntoIterator<Item = Option<T>>) -> Self {
            let mut made = Self::default();
            for row in rows {
                made.push(row);
            }
            made
        }
    }

    #[test]
    fn bits_are_packed_from_the_lowest() {
        let mut bits = Bits::default();
        for row in 0..10 {
            bits.push(row % 3 == 0);
        }
        assert_eq!(bits.bytes, [0b0100_1001, 0b10]);
        assert!(bits.iter().eq((0..10).map(|row| row % 3 == 0)));
    }

    #[test]
    fn missing_numbers_have_a_level_and_no_value() {
        let mut numbers = Numbers::<u16>::default();
        numbers.push(Some(258));
        numbers.push(None);
        assert_eq!(numbers.there.levels(1).definition, [1, 0]);
        assert_eq!(numbers.values, [258]);
    }

    #[test]
    fn texts_come_back_and_have_their_length_before_them() {
        let mut texts = Texts::default();
        texts.push(b"ab").unwrap();
        texts.push(b"").unwrap();
        assert!(texts.iter().eq([&b"ab"[..], b""]));
        let Values::Plain(plain) = texts.apart() else { panic!("expected plain values") };
        assert_eq!(plain, b"\x02\0\0\0ab\0\0\0\0");
    }

    #[test]
    fn lists_begin_with_repetition_zero_and_empty_ones_have_a_level() {
        let mut ends = Ends::default();
        for end in [2, 2, 3] {
            ends.push(end).unwrap();
        }
        let levels = levels_of_lists(ends.ranges().map(|range| range.len()), 1, 4);
        assert_eq!(levels.definition, [4, 4, 1, 4]);
        assert_eq!(levels.repetition, [0, 1, 0, 0]);
    }

    #[test]
    fn shapes_tell_missing_arrays_from_arrays_without_dimensions() {
        let mut payloads = Payloads::default();
        payloads.push(None).unwrap();
        payloads.push(Some(("<f4", &[], b"1234"))).unwrap();
        payloads.push(Some(("<f4", &[2, 1], b"12345678"))).unwrap();
        let levels = payloads.shape_levels();
        assert_eq!(levels.definition, [0, 2, 4, 4]);
        assert_eq!(levels.repetition, [0, 0, 0, 1]);
        assert_eq!(payloads.shape, [2, 1]);
    }
}
