//! CRC-32C (Castagnoli), as iSCSI and SCTP have it: by the processor's own instructions where it has some.

/// A checksum of bytes that come in several pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crc(u32);

impl Crc {
    pub(crate) fn new() -> Crc {
        Crc(0)
    }

    /// More bytes.
    pub(crate) fn add(self, bytes: &[u8]) -> Crc {
        Crc(crc32c::crc32c_append(self.0, bytes))
    }

    pub(crate) fn value(self) -> u32 {
        self.0
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
