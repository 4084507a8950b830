//! VIs that their connections have left, and the program has not: it still has places in their pools
//! ([`crate::loan`]).

use super::{Pair, Used};
use crate::per_engine::per_engine;
use sovia_sync::{RobustBox, rank};

/// A VI that its connection has left.
struct Left {
    pair: u32,
    vi: u32,
    loans: u32,
    how: How,
}

per_engine! {
    static LEFT: RobustBox<Vec<Left>, { rank::LENT }> = RobustBox::new(Vec::new());
}

/// How a connection leaves its VI.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    /// It has ended; what its direction has used.
    Ended { used: Used },
    /// Only this process's part in it has.
    Vacated,
}

fn now_leave(pair: &Pair, vi: u32, how: How) {
    match how {
        How::Ended { used } => pair.leave(vi, used),
        How::Vacated => pair.vacate(vi),
    }
}

/// A connection leaves its VI, of which the program has so many places: at once if it has none, else
/// when the last of them comes back.
pub(crate) fn leave(pair: &Pair, index: u32, vi: u32, loans: u32, how: How) {
    if loans == 0 {
        now_leave(pair, vi, how);
    } else {
        LEFT.with(|left| left.push(Left { pair: index, vi, loans, how }));
    }
}

/// A place of a VI that has been left comes back.
pub(crate) fn came_back(pair: u32, vi: u32) {
    let last = LEFT.with(|left| {
        let i = left.iter().position(|one| one.pair == pair && one.vi == vi)?;
        left[i].loans -= 1;
        (left[i].loans == 0).then(|| left.swap_remove(i))
    });
    if let Some(one) = last
        && let Some(pair) = super::get(one.pair)
    {
        now_leave(&pair, one.vi, one.how);
    }
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    LEFT.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    LEFT.release();
}
