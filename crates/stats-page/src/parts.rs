//! Shares work on many items among a few threads.

use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread;

/// Maximum number of threads.
const THREADS_MAX: usize = 4;

/// Calls `work` for each part of the items, and returns the results in the items' order. Each part has `size`
/// items, except for the last one. A thread takes the next part when it has finished one. If no more threads can be
/// started, the calling thread handles all parts.
///
/// ```
/// use sovia_stats_page::in_parts;
///
/// assert_eq!(in_parts(&[1, 2, 3, 4, 5], 2, |part| part.iter().sum::<u32>()), [3, 7, 5]);
/// ```
///
/// # Panics
/// If `size` is 0, or if `work` panics.
pub fn in_parts<'a, S: Sync, R: Send + Sync>(
    items: &'a [S],
    size: usize,
    work: impl Fn(&'a [S]) -> R + Sync,
) -> Vec<R> {
    let parts: Vec<&[S]> = items.chunks(size).collect();
    let made: Vec<OnceLock<R>> = parts.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let share = || {
        while let Some(at) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < parts.len())
        {
            made[at].get_or_init(|| work(parts[at]));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    thread::scope(|scope| {
        for _ in 1..threads.min(parts.len()) {
            let _ = thread::Builder::new().spawn_scoped(scope, share);
        }
        share();
    });
    // Each part has been taken once, and every thread has ended.
    made.into_iter().filter_map(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_one_part_in_its_place() {
        for count in [0, 1, 2, 7, 1000] {
            let items: Vec<usize> = (0..count).collect();
            for size in [1, 2, 999, 2000] {
                let parts = in_parts(&items, size, |part| part.to_vec());
                assert_eq!(parts.len(), count.div_ceil(size));
                assert_eq!(parts.concat(), items);
            }
        }
    }
}
