//! Copies bytes to and from the 64-bit words of an entry: eight bytes in each word, and the rest in the last word.
//! The functions named `_checked` access the program's memory, where an access may fault. The other functions
//! access this crate's memory.

use crate::sync::{AtomicU64, Ordering};
use sovia_signal::access;
use sovia_sys::UserSlice;

/// Stores `bytes` as words. Drops bytes that do not fit.
#[inline]
pub(super) fn store(words: &[AtomicU64], bytes: &[u8]) {
    let mut words = words.iter();
    let mut chunks = bytes.chunks_exact(8);
    for (chunk, word) in (&mut chunks).zip(&mut words) {
        let mut buf = [0; 8];
        buf.copy_from_slice(chunk);
        word.store(u64::from_le_bytes(buf), Ordering::Relaxed);
    }
    let rest = chunks.remainder();
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        word.store(pack(rest), Ordering::Relaxed);
    }
}

/// Packs up to 7 bytes into a word. Uses two overlapping loads. A loop over bytes would write the bytes to memory, and
/// the load of the whole word would then wait for these stores.
#[inline]
fn pack(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(low), Some(high)) => {
            let high = u64::from(u32::from_le_bytes(*high));
            u64::from(u32::from_le_bytes(*low)) | high << (8 * (len & 7) - 32)
        }
        _ => {
            let at = |i: usize| bytes.get(i).map_or(0, |&b| u64::from(b) << (8 * i));
            at(0) | at(1) | at(2)
        }
    }
}

/// Unpacks the low bytes of a word, up to 7; the inverse of [`pack`].
#[inline]
pub(super) fn unpack(word: u64, bytes: &mut [u8]) {
    let len = bytes.len();
    if let Some(low) = bytes.first_chunk_mut::<4>() {
        *low = (word as u32).to_le_bytes();
        if let Some(high) = bytes.last_chunk_mut::<4>() {
            *high = ((word >> (8 * (len & 7) - 32)) as u32).to_le_bytes();
        }
        return;
    }
    for (i, byte) in bytes.iter_mut().take(3).enumerate() {
        *byte = (word >> (8 * i)) as u8;
    }
}

/// Like [`store`], but reads from the program's memory.
#[inline]
pub(super) fn store_checked(words: &[AtomicU64], bytes: UserSlice<'_>, fault: &mut access::Fault) {
    let mut at = 0;
    let mut words = words.iter();
    let from = bytes.as_ptr();
    while bytes.len() - at >= 8 {
        let Some(word) = words.next() else { return };
        // SAFETY: at least 8 bytes are left at `at`, so the word is within the program's slice `bytes`. `access` turns
        // a fault into an error.
        let value: u64 = unsafe { access::load_word(from.wrapping_add(at).cast(), fault) };
        word.store(value.to_le(), Ordering::Relaxed);
        at += 8;
    }
    if let (true, Some(word)) = (at < bytes.len(), words.next()) {
        // SAFETY: the loop has left 1 to 7 bytes at `at`, and they are within the program's slice `bytes`.
        let value = unsafe { pack_checked(from.wrapping_add(at), bytes.len() - at, fault) };
        word.store(value, Ordering::Relaxed);
    }
}

/// Like [`pack`], but reads from the program's memory.
///
/// # Safety
/// The `len` bytes at `from` belong to the program's buffer. `len` is 1 to 7.
#[inline]
unsafe fn pack_checked(from: *const u8, len: usize, fault: &mut access::Fault) -> u64 {
    // SAFETY: each access is within the `len` bytes at `from`, which the caller guarantees to belong to the program's
    // buffer.
    unsafe {
        if len >= 4 {
            let low: u32 = access::load_word(from.cast(), fault);
            let high: u32 = access::load_word(from.wrapping_add(len - 4).cast(), fault);
            u64::from(u32::from_le(low)) | u64::from(u32::from_le(high)) << (8 * len - 32)
        } else {
            let mut at = |i: usize| -> u64 {
                if i >= len {
                    return 0;
                }
                let byte: u8 = access::load_word(from.wrapping_add(i), fault);
                u64::from(byte) << (8 * i)
            };
            at(0) | at(1) | at(2)
        }
    }
}

/// Like [`unpack`], but writes to the program's memory.
///
/// # Safety
/// The `len` bytes at `to` belong to the program's buffer. `len` is 1 to 7.
#[inline]
pub(super) unsafe fn unpack_checked(word: u64, to: *mut u8, len: usize, fault: &mut access::Fault) {
    // SAFETY: each access is within the `len` bytes at `to`, which the caller guarantees to belong to the program's
    // buffer.
    unsafe {
        if len >= 4 {
            access::store_word(to.cast(), (word as u32).to_le(), fault);
            let high = (word >> (8 * len - 32)) as u32;
            access::store_word(to.wrapping_add(len - 4).cast(), high.to_le(), fault);
        } else {
            for i in 0..len.min(3) {
                access::store_word(to.wrapping_add(i), (word >> (8 * i)) as u8, fault);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_a_word() {
        for len in 0..8 {
            let bytes: Vec<u8> = (1..=len).collect();
            let word = pack(&bytes);
            assert_eq!(word.to_le_bytes()[..bytes.len()], bytes);
            let mut out = vec![0; bytes.len()];
            unpack(word | u64::MAX.checked_shl(8 * u32::from(len)).unwrap_or(0), &mut out);
            assert_eq!(out, bytes);
        }
    }
}
