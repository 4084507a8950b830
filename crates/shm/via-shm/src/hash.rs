//! A hash that is the same in every process, and in every version: names are made of it.

/// Where FNV-1a begins.
pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of more bytes, after those that came to `hash`.
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
