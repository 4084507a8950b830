//! A hash function with the same results in all processes and versions. It computes a NIC's address from the NIC's
//! name.

/// Start value of FNV-1a.
pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues FNV-1a from `hash` with more bytes.
pub(crate) fn fnv(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(fnv(START, *b""), START);
        assert_eq!(fnv(START, *b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(fnv(START, *b"foo"), *b"bar"), 0x8594_4171_f739_67e8);
    }
}
