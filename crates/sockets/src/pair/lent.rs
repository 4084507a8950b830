//! VIs that their connections have left, and the program has not: it still has places in their pools
//! ([`crate::loan`]).

use super::{Pair, Used};
use crate::per_engine::per_engine;
use crate::table::Ref;
use sovia_sync::{RobustBox, rank};

/// A VI that its connection has left. The pair keeps its number in the table meanwhile.
struct Left {
    /// The connection.
    at: Ref,
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
pub(crate) fn leave(pair: &Pair, index: u32, at: Ref, vi: u32, loans: u32, how: How) {
    if loans == 0 {
        now_leave(pair, vi, how);
    } else {
        LEFT.with(|left| left.push(Left { at, pair: index, vi, loans, how }));
    }
}

/// A place comes back of the VI that a connection has left.
pub(crate) fn came_back(at: Ref) {
    let last = LEFT.with(|left| {
        let i = left.iter().position(|one| one.at.same(at))?;
        left[i].loans -= 1;
        (left[i].loans == 0).then(|| left.swap_remove(i))
    });
    if let Some(one) = last
        && let Some(pair) = super::get(one.pair)
    {
        now_leave(&pair, one.vi, one.how);
    }
}

/// Every pair is taken out of the table: places that come back mean nothing any more.
pub(super) fn forget() {
    LEFT.with(Vec::clear);
}

/// In a forked child: the places are its parent's.
pub(super) fn forked() {
    for one in LEFT.with(core::mem::take) {
        if let Some(pair) = super::get(one.pair) {
            pair.vacate(one.vi);
        }
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
