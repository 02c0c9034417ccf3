//! The fields of a serialized protobuf message, in place; and integers as such messages have them.

use crate::error::{Error, Result};

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Of an integer, an enum or a flag.
    Varint(u64),
    /// Of 8 bytes.
    Fixed64(u64),
    /// Of 4 bytes.
    Fixed32(u32),
    /// Of a string, bytes, a message, or many numbers.
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message: number and value of each. An error is the last item.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// The error of bytes that are not what a peer of this process serialized.
pub fn malformed(got: &str) -> Error {
    Error::value("sample", "a serialized DatalogSample", got)
}

impl<'a> Fields<'a> {
    /// Begins with the first field of a message.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let cut = || malformed("a field that was cut short");
        let len = usize::try_from(len).map_err(|_| cut())?;
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(malformed("an integer that does not end"))
    }

    fn field(&mut self) -> Result<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(self.take(8)?);
                Value::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(self.take(4)?);
                Value::Fixed32(u32::from_le_bytes(bytes))
            }
            kind => return Err(malformed(&format!("a field of wire type {kind}"))),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Calls `each` with the integers of a repeated field, which come one by one or many together.
pub fn integers(value: Value<'_>, mut each: impl FnMut(u64)) -> Result<()> {
    match value {
        Value::Varint(one) => each(one),
        Value::Bytes(packed) => {
            let mut rest = Fields::new(packed);
            while !rest.rest.is_empty() {
                each(rest.varint()?);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Appends an integer in groups of seven bits, the lowest first.
pub fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The text of a string field.
pub fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| malformed("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{Fields, Value, integers, varint};

    #[test]
    fn varints_have_seven_bits_per_byte() {
        for (value, expected) in [(0, &[0][..]), (127, &[127]), (300, &[0xAC, 2])] {
            let mut bytes = vec![];
            varint(&mut bytes, value);
            assert_eq!(bytes, expected);
        }
        let mut bytes = vec![];
        varint(&mut bytes, u64::MAX);
        assert_eq!(bytes.len(), 10);
    }

    #[test]
    fn fields_of_all_wire_types_are_read_in_order() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x11, 1, 0, 0, 0, 0, 0, 0, 0x80, // 2: fixed64
            0x1A, 2, b'h', b'i', // 3: bytes
            0x25, 7, 0, 0, 0, // 4: fixed32
            0xC2, 0x3E, 0, // 1000: no bytes
        ];
        let fields: Vec<_> = Fields::new(&message).collect::<Result<_, _>>().unwrap();
        let expected = [
            (1, Value::Varint(150)),
            (2, Value::Fixed64(1 << 63 | 1)),
            (3, Value::Bytes(b"hi")),
            (4, Value::Fixed32(7)),
            (1000, Value::Bytes(b"")),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn message_that_was_cut_short_or_has_groups_ends_with_one_error() {
        for message in [&[0x08][..], &[0x1A, 5, 1], &[0x11, 0], &[0x80; 11], &[0x0B], &[0x25, 1]] {
            let fields: Vec<_> = Fields::new(message).collect();
            assert_eq!(fields.len(), 1);
            assert!(fields[0].is_err());
        }
    }

    #[test]
    fn repeated_integers_come_one_by_one_or_together() {
        let mut found = vec![];
        integers(Value::Varint(3), |each| found.push(each)).unwrap();
        integers(Value::Bytes(&[1, 0x80, 2, u8::MAX, 1]), |each| found.push(each)).unwrap();
        assert_eq!(found, [3, 1, 256, 255]);
        assert!(integers(Value::Bytes(&[0x80]), |_| {}).is_err());
    }
}
