//! VIs that their connections have left while slots of their pools are still lent to the program ([`crate::loan`]).

use super::{Pair, Used};
use crate::per_engine::per_engine;
use crate::table::Ref;
use sovia_sync::{RobustBox, rank};

/// A VI that its connection has left, with slots that are still lent. The pair keeps its index in the table until
/// the last slot is returned.
struct LentVi {
    /// The connection that has left the VI.
    at: Ref,
    pair: u32,
    vi: u32,
    loans: u32,
    how: LeaveKind,
}

per_engine! {
    static LENT_VIS: RobustBox<Vec<LentVi>, { rank::LENT }> = RobustBox::new(Vec::new());
}

/// Way in which a connection leaves its VI.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LeaveKind {
    /// The connection has ended. `used` says how much memory of its direction the connection has used.
    Ended { used: Used },
    /// This process has left the connection, and relatives may still have it.
    Vacated,
}

fn now_leave(pair: &Pair, vi: u32, how: LeaveKind) {
    match how {
        LeaveKind::Ended { used } => pair.leave(vi, used),
        LeaveKind::Vacated => pair.vacate(vi),
    }
}

/// Makes a connection leave its VI. If `loans` slots of the VI are lent to the program, the connection leaves when
/// the program has returned the last slot.
pub(crate) fn leave(pair: &Pair, index: u32, at: Ref, vi: u32, loans: u32, how: LeaveKind) {
    if loans == 0 {
        now_leave(pair, vi, how);
    } else {
        LENT_VIS.with(|lent| lent.push(LentVi { at, pair: index, vi, loans, how }));
    }
}

/// Records that the program has returned a slot of a VI that its connection has left. The last returned slot ends
/// the use of the VI.
pub(crate) fn came_back(at: Ref) {
    let last = LENT_VIS.with(|lent| {
        let i = lent.iter().position(|one| one.at.same(at))?;
        lent[i].loans -= 1;
        (lent[i].loans == 0).then(|| lent.swap_remove(i))
    });
    if let Some(one) = last
        && let Some(pair) = super::get(one.pair)
    {
        now_leave(&pair, one.vi, one.how);
    }
}

/// Forgets all loans, because every pair is taken out of the table. A slot that the program returns later has no
/// effect.
pub(super) fn forget() {
    LENT_VIS.with(Vec::clear);
}

/// Forgets the loans in a forked child, because the slots are lent to its parent.
pub(super) fn forked() {
    for one in LENT_VIS.with(core::mem::take) {
        if let Some(pair) = super::get(one.pair) {
            pair.vacate(one.vi);
        }
    }
}

/// Called before fork: locks the list of lent VIs.
pub(crate) fn hold() {
    LENT_VIS.hold();
}

/// Called after fork, in parent and child: unlocks the list of lent VIs.
pub(crate) fn release() {
    LENT_VIS.release();
}
