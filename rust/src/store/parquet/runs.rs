//! Small integers in runs and in groups of eight, Parquet's "RLE/bit-packing hybrid".

use crate::store::wire::varint;

/// Returns the bits that numbers up to this one take.
pub fn bits_for(max: u32) -> u32 {
    32 - max.leading_zeros()
}

/// Appends numbers of so many bits (1 to 32), of which neighbours are often equal.
pub fn write(out: &mut Vec<u8>, bits: u32, values: &[u32]) {
    // Numbers that are not in a run yet; a whole number of eights whenever a run begins.
    let mut apart: Vec<u32> = vec![];
    for run in values.chunk_by(|one, next| one == next) {
        let missing = (8 - apart.len() % 8) % 8;
        let taken = missing.min(run.len());
        let (filling, rest) = run.split_at(taken);
        apart.extend_from_slice(filling);
        if rest.len() < 8 {
            apart.extend_from_slice(rest);
            continue;
        }
        pack(out, bits, &mut apart);
        varint(out, (rest.len() as u64) << 1);
        out.extend_from_slice(&run[0].to_le_bytes()[..bits.div_ceil(8) as usize]);
    }
    pack(out, bits, &mut apart);
}

/// Appends numbers in groups of eight, and forgets them. The last group is filled with zeros.
fn pack(out: &mut Vec<u8>, bits: u32, apart: &mut Vec<u32>) {
    if apart.is_empty() {
        return;
    }
    let groups = apart.len().div_ceil(8);
    apart.resize(groups * 8, 0);
    varint(out, (groups as u64) << 1 | 1);
    let (mut pending, mut used) = (0_u64, 0);
    for value in apart.drain(..) {
        pending |= u64::from(value) << used;
        used += bits;
        while used >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            used -= 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{bits_for, write};

    /// Reads numbers as the format's description says.
    fn read(bytes: &[u8], bits: u32, len: usize) -> Vec<u32> {
        let (mut at, mut values) = (0, vec![]);
        while values.len() < len {
            let (mut head, mut shift) = (0_usize, 0);
            loop {
                head |= usize::from(bytes[at] & 0x7F) << shift;
                shift += 7;
                at += 1;
                if bytes[at - 1] < 0x80 {
                    break;
                }
            }
            if head & 1 == 1 {
                for index in 0..(head >> 1) * 8 {
                    let bit = |of: u32| {
                        let place = index * bits as usize + of as usize;
                        u32::from(bytes[at + place / 8] >> (place % 8) & 1) << of
                    };
                    values.push((0..bits).map(bit).sum());
                }
                at += (head >> 1) * bits as usize;
            } else {
                let width = bits.div_ceil(8) as usize;
                let mut value = [0; 4];
                value[..width].copy_from_slice(&bytes[at..at + width]);
                at += width;
                values.extend(std::iter::repeat_n(u32::from_le_bytes(value), head >> 1));
            }
        }
        assert_eq!(at, bytes.len());
        values.truncate(len);
        values
    }

    #[test]
    fn equal_numbers_are_one_run() {
        let mut bytes = vec![];
        write(&mut bytes, 1, &[1; 100]);
        assert_eq!(bytes, [200, 1, 1]);
    }

    #[test]
    fn bits_are_those_of_the_largest_number() {
        assert_eq!([0, 1, 2, 7, 8, u32::MAX].map(bits_for), [0, 1, 2, 3, 4, 32]);
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            runs in prop::collection::vec((0..1_u32 << 20, 1..20_usize), 0..20), bits in 20..=32_u32
        ) {
            let repeat = |(value, len)| std::iter::repeat_n(value, len);
            let values: Vec<u32> = runs.into_iter().flat_map(repeat).collect();
            let mut bytes = vec![];
            write(&mut bytes, bits, &values);
            prop_assert_eq!(read(&bytes, bits, values.len()), values);
        }

        #[test]
        fn levels_come_back(values in prop::collection::vec(0..4_u32, 0..60)) {
            let mut bytes = vec![];
            write(&mut bytes, 2, &values);
            prop_assert_eq!(read(&bytes, 2, values.len()), values);
        }
    }
}
