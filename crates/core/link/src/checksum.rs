//! CRC-32C (Castagnoli), as iSCSI and SCTP have it. By tables, 16 bytes a step: 6 GB/s where 8 bytes a step give
//! 2.4 GB/s, because more loads are under way at once.

/// Bit-reversed polynomial 0x1EDC6F41.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Bytes of a step.
const GROUP: usize = 16;

/// `TABLES[n][byte]` is what a byte contributes that is followed by `n` more of its group.
static TABLES: [[u32; 256]; GROUP] = tables();

const fn tables() -> [[u32; 256]; GROUP] {
    let mut tables = [[0; 256]; GROUP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut step = 1;
    while step < GROUP {
        byte = 0;
        while byte < 256 {
            let before = tables[step - 1][byte];
            tables[step][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        step += 1;
    }
    tables
}

/// A checksum of bytes that come in several pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crc(u32);

impl Crc {
    pub(crate) fn new() -> Crc {
        Crc(u32::MAX)
    }

    /// More bytes.
    pub(crate) fn add(self, bytes: &[u8]) -> Crc {
        let mut crc = self.0;
        let at = |step: usize, byte: u8| TABLES[step][usize::from(byte)];
        let (groups, rest) = bytes.as_chunks::<GROUP>();
        for group in groups {
            let [a, b, c, d, later @ ..] = group;
            let [a, b, c, d] = (crc ^ u32::from_le_bytes([*a, *b, *c, *d])).to_le_bytes();
            let later =
                later.iter().enumerate().fold(0, |sum, (i, &byte)| sum ^ at(GROUP - 5 - i, byte));
            crc = at(15, a) ^ at(14, b) ^ at(13, c) ^ at(12, d) ^ later;
        }
        for &byte in rest {
            crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
        }
        Crc(crc)
    }

    pub(crate) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn crc(bytes: &[u8]) -> u32 {
        Crc::new().add(bytes).value()
    }

    /// RFC 3720, B.4.
    #[test]
    fn published_examples_match() {
        let up: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc(&up), 0x46DD_794E);
        assert_eq!(crc(&down), 0x113F_DB5C);
        assert_eq!(crc(b"123456789"), 0xE306_9283);
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(bytes: Vec<u8>, at: prop::sample::Index) {
            let (left, right) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(Crc::new().add(left).add(right).value(), crc(&bytes));
        }

        #[test]
        fn up_to_32_adjacent_changed_bits_are_found(
            mut bytes in prop::collection::vec(any::<u8>(), 4..200),
            at: prop::sample::Index,
            change in 1u32..,
        ) {
            let before = crc(&bytes);
            let at = at.index(bytes.len() - 3);
            for (byte, change) in bytes[at..].iter_mut().zip(change.to_be_bytes()) {
                *byte ^= change;
            }
            prop_assert_ne!(crc(&bytes), before);
        }
    }
}
