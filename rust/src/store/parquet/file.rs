//! A Parquet file that is written from its front to its end.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::store::parquet::runs;
use crate::store::parquet::schema::{Leaf, SCHEMA};
use crate::store::parquet::thrift::Struct;

const MAGIC: &[u8] = b"PAR1";
const VERSION: i32 = 2;
const CREATOR: &str = concat!("cogrs version ", env!("CARGO_PKG_VERSION"));
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const UNCOMPRESSED: i32 = 0;
const SNAPPY: i32 = 1;
/// Pages with fewer bytes are not worth an attempt.
const COMPRESSED_FROM: usize = 64;

/// Where the values of a column are, by Parquet's definition and repetition levels.
#[derive(Debug, Default, Clone)]
pub struct Levels {
    /// How much of the path to a value is there, per value or gap.
    pub definition: Vec<u32>,
    /// In which list an item goes on, likewise; empty for columns outside of lists.
    pub repetition: Vec<u32>,
}

/// The values of a column that are there.
#[derive(Debug)]
pub enum Values<'a> {
    /// As their type lays them out.
    Plain(Vec<u8>),
    /// Texts of which many are equal.
    Shared(Vec<&'a [u8]>),
}

/// Returns texts or bytes as plain values, each behind its length.
pub fn plain_texts<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut plain = vec![];
    for text in texts {
        push_text(&mut plain, text);
    }
    plain
}

fn push_text(plain: &mut Vec<u8>, text: &[u8]) {
    plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
    plain.extend_from_slice(text);
}

/// What the footer says of a column in a row group.
#[derive(Debug)]
struct Chunk {
    encodings: &'static [i32],
    codec: i32,
    values: usize,
    uncompressed: usize,
    compressed: usize,
    data_at: usize,
    dictionary_at: Option<usize>,
}

#[derive(Debug)]
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

struct Page {
    kind: i32,
    values: usize,
    encoding: i32,
    bytes: Vec<u8>,
}

/// The file, whose bytes are taken out while it grows.
#[derive(Debug)]
pub struct ParquetFile {
    pending: Vec<u8>,
    /// Bytes that were taken out.
    taken: usize,
    groups: Vec<Group>,
    chunks: Vec<Chunk>,
    snappy: snap::raw::Encoder,
}

impl Default for ParquetFile {
    fn default() -> Self {
        Self {
            pending: MAGIC.to_vec(),
            taken: 0,
            groups: vec![],
            chunks: vec![],
            snappy: snap::raw::Encoder::new(),
        }
    }
}

impl ParquetFile {
    /// Appends the next column of the row group, in the schema's order.
    pub fn column(&mut self, levels: &Levels, values: &Values<'_>) -> Result<()> {
        let leaf = &SCHEMA.leaves[self.chunks.len()];
        let count = levels.definition.len();
        let mut body = vec![];
        for (max, each) in
            [(leaf.repetition, &levels.repetition), (leaf.definition, &levels.definition)]
        {
            if max > 0 {
                let begin = body.len();
                body.extend_from_slice(&[0; 4]);
                runs::write(&mut body, runs::bits_for(max), each);
                let len = (body.len() - begin - 4) as u32;
                body[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
            }
        }
        let mut pages = vec![];
        let encoding = match values {
            Values::Plain(plain) => {
                body.extend_from_slice(plain);
                PLAIN
            }
            Values::Shared(texts) => {
                pages.push(dictionary(texts, &mut body));
                RLE_DICTIONARY
            }
        };
        pages.push(Page { kind: DATA_PAGE, values: count, encoding, bytes: body });
        let chunk = self.pages(leaf, count, pages)?;
        self.chunks.push(chunk);
        Ok(())
    }

    fn pages(&mut self, leaf: &Leaf, values: usize, pages: Vec<Page>) -> Result<Chunk> {
        let plain: usize = pages.iter().map(|page| page.bytes.len()).sum();
        if i32::try_from(plain).is_err() {
            let name = leaf.path.join(".");
            return Err(Error::value(name, "less than 2 GiB in a row group", plain));
        }
        let packed = if plain < COMPRESSED_FROM { None } else { self.compressed(&pages, plain)? };
        let codec = if packed.is_some() { SNAPPY } else { UNCOMPRESSED };
        let mut chunk = Chunk {
            encodings: if pages.len() > 1 { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] },
            codec,
            values,
            uncompressed: 0,
            compressed: 0,
            data_at: 0,
            dictionary_at: None,
        };
        for (index, page) in pages.into_iter().enumerate() {
            let bytes = packed.as_ref().map_or(&page.bytes, |packed| &packed[index]);
            let header = header(&page, bytes.len());
            let at = self.taken + self.pending.len();
            if page.kind == DICTIONARY_PAGE {
                chunk.dictionary_at = Some(at);
            } else {
                chunk.data_at = at;
            }
            chunk.uncompressed += header.len() + page.bytes.len();
            chunk.compressed += header.len() + bytes.len();
            self.pending.extend_from_slice(&header);
            self.pending.extend_from_slice(bytes);
        }
        Ok(chunk)
    }

    /// Returns the pages compressed, if that makes them smaller.
    fn compressed(&mut self, pages: &[Page], plain: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let mut packed = vec![];
        for page in pages {
            let made = self.snappy.compress_vec(&page.bytes);
            packed.push(made.map_err(|error| Error::State(error.to_string()))?);
        }
        let size: usize = packed.iter().map(Vec::len).sum();
        Ok((size < plain).then_some(packed))
    }

    /// Ends a row group that has all columns.
    pub fn end_group(&mut self, rows: usize) {
        debug_assert_eq!(self.chunks.len(), SCHEMA.leaves.len());
        self.groups.push(Group { rows, chunks: std::mem::take(&mut self.chunks) });
    }

    /// Takes out the bytes that are complete.
    pub fn take(&mut self) -> Vec<u8> {
        self.taken += self.pending.len();
        std::mem::take(&mut self.pending)
    }

    /// Ends the file, with pairs of a key and a value beside its columns; returns its last bytes.
    pub fn finish(&mut self, metadata: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut footer = Struct::default();
        footer.i32(1, VERSION);
        footer.structs(2, SCHEMA.elements.len());
        for element in &SCHEMA.elements {
            footer.bytes.extend_from_slice(element);
        }
        footer.i64(3, self.groups.iter().map(|group| group.rows as i64).sum());
        footer.structs(4, self.groups.len());
        for group in &self.groups {
            footer.struct_item(|told| group.describe(told));
        }
        footer.structs(5, metadata.len());
        for (key, value) in metadata {
            footer.struct_item(|told| {
                told.binary(1, key);
                told.binary(2, value);
            });
        }
        footer.binary(6, CREATOR.as_bytes());
        let footer = footer.end();
        self.pending.extend_from_slice(&footer);
        self.pending.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        self.pending.extend_from_slice(MAGIC);
        self.take()
    }
}

impl Group {
    fn describe(&self, told: &mut Struct) {
        let sum = |size: fn(&Chunk) -> usize| self.chunks.iter().map(size).sum::<usize>() as i64;
        told.structs(1, self.chunks.len());
        for (leaf, chunk) in SCHEMA.leaves.iter().zip(&self.chunks) {
            told.struct_item(|told| {
                // The offset of the column's metadata, if they were beside its pages.
                told.i64(2, 0);
                told.part(3, |told| chunk.describe(leaf, told));
            });
        }
        told.i64(2, sum(|chunk| chunk.uncompressed));
        told.i64(3, self.rows as i64);
        if let Some(first) = self.chunks.first() {
            told.i64(5, first.dictionary_at.unwrap_or(first.data_at) as i64);
        }
        told.i64(6, sum(|chunk| chunk.compressed));
    }
}

impl Chunk {
    fn describe(&self, leaf: &Leaf, told: &mut Struct) {
        told.i32(1, leaf.kind.physical());
        told.enums(2, self.encodings);
        told.texts(3, &leaf.path);
        told.i32(4, self.codec);
        told.i64(5, self.values as i64);
        told.i64(6, self.uncompressed as i64);
        told.i64(7, self.compressed as i64);
        told.i64(9, self.data_at as i64);
        if let Some(at) = self.dictionary_at {
            told.i64(11, at as i64);
        }
    }
}

fn header(page: &Page, size: usize) -> Vec<u8> {
    let mut header = Struct::default();
    header.i32(1, page.kind);
    header.i32(2, page.bytes.len() as i32);
    header.i32(3, size as i32);
    if page.kind == DICTIONARY_PAGE {
        header.part(7, |told| {
            told.i32(1, page.values as i32);
            told.i32(2, page.encoding);
        });
    } else {
        header.part(5, |told| {
            told.i32(1, page.values as i32);
            told.i32(2, page.encoding);
            told.i32(3, RLE);
            told.i32(4, RLE);
        });
    }
    header.end()
}

/// Returns the page of the different texts, and appends which one each value is.
fn dictionary(texts: &[&[u8]], body: &mut Vec<u8>) -> Page {
    let mut numbers: HashMap<&[u8], u32, foldhash::fast::RandomState> = HashMap::default();
    let (mut plain, mut indices) = (vec![], Vec::with_capacity(texts.len()));
    let mut last: Option<(&[u8], u32)> = None;
    for text in texts.iter().copied() {
        let number = match last {
            Some((same, number)) if same == text => number,
            _ => {
                let next = numbers.len() as u32;
                *numbers.entry(text).or_insert_with(|| {
                    push_text(&mut plain, text);
                    next
                })
            }
        };
        last = Some((text, number));
        indices.push(number);
    }
    let bits = runs::bits_for((numbers.len() as u32).saturating_sub(1)).max(1);
    body.push(bits as u8);
    runs::write(body, bits, &indices);
    Page { kind: DICTIONARY_PAGE, values: numbers.len(), encoding: PLAIN, bytes: plain }
}
