//! Structs in Thrift's compact protocol, as Parquet's headers are written.

use crate::store::wire::varint;

const I8: u8 = 3;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A struct that is being written: its fields come in the order of their ids.
#[derive(Debug, Default)]
pub struct Struct {
    /// What was written so far.
    pub bytes: Vec<u8>,
    last: u8,
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

impl Struct {
    fn field(&mut self, id: u8, kind: u8) {
        let delta = id - self.last;
        debug_assert!((1..16).contains(&delta), "fields ascend");
        self.bytes.push(delta << 4 | kind);
        self.last = id;
    }

    /// Writes a 32-bit integer, or an enum.
    pub fn i32(&mut self, id: u8, value: i32) {
        self.field(id, I32);
        varint(&mut self.bytes, zigzag(value.into()));
    }

    /// Writes a 64-bit integer.
    pub fn i64(&mut self, id: u8, value: i64) {
        self.field(id, I64);
        varint(&mut self.bytes, zigzag(value));
    }

    /// Writes an 8-bit integer.
    pub fn i8(&mut self, id: u8, value: u8) {
        self.field(id, I8);
        self.bytes.push(value);
    }

    /// Writes a flag.
    pub fn flag(&mut self, id: u8, value: bool) {
        self.field(id, if value { 1 } else { 2 });
    }

    /// Writes bytes, or a text.
    pub fn binary(&mut self, id: u8, value: &[u8]) {
        self.field(id, BINARY);
        self.item(value);
    }

    /// Writes a struct.
    pub fn part(&mut self, id: u8, write: impl FnOnce(&mut Self)) {
        self.field(id, STRUCT);
        self.struct_item(write);
    }

    /// Begins a list of structs, which follow by `struct_item`.
    pub fn structs(&mut self, id: u8, len: usize) {
        self.list(id, STRUCT, len);
    }

    /// Writes a list of texts.
    pub fn texts(&mut self, id: u8, texts: &[&str]) {
        self.list(id, BINARY, texts.len());
        for each in texts {
            self.item(each.as_bytes());
        }
    }

    /// Writes a list of enums.
    pub fn enums(&mut self, id: u8, values: &[i32]) {
        self.list(id, I32, values.len());
        for each in values {
            varint(&mut self.bytes, zigzag((*each).into()));
        }
    }

    /// Writes an item of a list of structs.
    pub fn struct_item(&mut self, write: impl FnOnce(&mut Self)) {
        let last = std::mem::take(&mut self.last);
        write(self);
        self.bytes.push(0);
        self.last = last;
    }

    fn list(&mut self, id: u8, kind: u8, len: usize) {
        self.field(id, LIST);
        if len < 15 {
            self.bytes.push((len as u8) << 4 | kind);
        } else {
            self.bytes.push(0xF0 | kind);
            varint(&mut self.bytes, len as u64);
        }
    }

    fn item(&mut self, value: &[u8]) {
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Ends it, and returns its bytes.
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Struct;

    #[test]
    fn fields_have_the_distance_to_the_one_before_and_a_type() {
        let mut made = Struct::default();
        made.i32(1, -1);
        made.i64(3, 64);
        made.part(4, |inner| inner.flag(2, false));
        made.binary(5, b"ab");
        made.enums(6, &[0, 3]);
        assert_eq!(
            made.end(),
            [0x15, 1, 0x26, 0x80, 1, 0x1C, 0x22, 0, 0x18, 2, b'a', b'b', 0x19, 0x25, 0, 6, 0]
        );
    }

    #[test]
    fn long_lists_have_their_length_behind_the_type() {
        let mut made = Struct::default();
        made.enums(1, &[1; 15]);
        assert_eq!(made.end()[..3], [0x19, 0xF5, 15]);
    }
}
