//! CRC-32C (Castagnoli), as iSCSI and SCTP have it: eight bytes a step, by tables.

/// Bit-reversed polynomial 0x1EDC6F41.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// `TABLES[n][byte]` is what a byte contributes that is followed by `n` more of its group of eight.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
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
    while step < 8 {
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
        let (groups, rest) = bytes.as_chunks::<8>();
        let at = |step: usize, byte: u8| TABLES[step][usize::from(byte)];
        for &[a, b, c, d, e, f, g, h] in groups {
            let [a, b, c, d] = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
            crc = at(7, a) ^ at(6, b) ^ at(5, c) ^ at(4, d);
            crc ^= at(3, e) ^ at(2, f) ^ at(1, g) ^ at(0, h);
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
