//! CRC-32C (Castagnoli), as in iSCSI and SCTP, with the processor's CRC instructions where they exist.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Bytes up to which copying the two pieces together is faster than a checksum in pieces.
const SHORT: usize = 256;

/// Returns the checksum of bytes.
pub(crate) fn crc_of(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// Returns the checksum of the concatenation of two pieces.
pub(crate) fn crc(first: &[u8], rest: &[u8]) -> u32 {
    let len = first.len() + rest.len();
    if len <= SHORT {
        let mut whole = [0; SHORT];
        whole[..first.len()].copy_from_slice(first);
        whole[first.len()..len].copy_from_slice(rest);
        return crc_of(&whole[..len]);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(rest);
    // No bits are lost: this checksum has 32 bits.
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> u32 {
        assert_eq!(crc(bytes, &[]), crc_of(bytes));
        crc_of(bytes)
    }

    /// Examples from RFC 3720, B.4.
    #[test]
    fn published_examples_match() {
        let up: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        assert_eq!(whole(&[0; 32]), 0x8A91_36AA);
        assert_eq!(whole(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(whole(&up), 0x46DD_794E);
        assert_eq!(whole(&down), 0x113F_DB5C);
        assert_eq!(whole(b"123456789"), 0xE306_9283);
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            bytes in prop::collection::vec(any::<u8>(), 0..1000),
            at: prop::sample::Index,
        ) {
            let (left, right) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(crc(left, right), whole(&bytes));
        }

        #[test]
        fn up_to_32_adjacent_changed_bits_are_found(
            mut bytes in prop::collection::vec(any::<u8>(), 4..200),
            at: prop::sample::Index,
            change in 1u32..,
        ) {
            let before = whole(&bytes);
            let at = at.index(bytes.len() - 3);
            for (byte, change) in bytes[at..].iter_mut().zip(change.to_be_bytes()) {
                *byte ^= change;
            }
            prop_assert_ne!(whole(&bytes), before);
        }
    }
}
