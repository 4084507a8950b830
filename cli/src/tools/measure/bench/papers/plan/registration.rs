//! Cost of preparing the bytes of a send, on this machine and with the papers' costs.

use super::{Effort, part};
use crate::measure::bench::papers::work::{Law, Part, Prepared, Scenario, Sender, Way, Work};
use crate::measure::bench::task::{Cpus, Wait};

/// Number of bytes that stay registered besides those of a send. The papers found that this number matters.
const HELD_BYTES: usize = 2 << 20;

/// Returns parts for the caller's cost before a send is posted, by size; figure 6 of the ICS paper.
pub(super) fn parts(effort: Effort) -> Vec<Part> {
    let step = if effort.quick { 4 } else { 2 };
    let sizes: Vec<usize> =
        [2].into_iter().chain((10..=22).step_by(step)).map(|bits| 1 << bits).collect();
    [
        (Prepared::Registered, "registered", 0),
        (Prepared::Registered, "registered, 2 MB held", HELD_BYTES),
        (Prepared::Pinned, "pinned (mlock, munlock)", 0),
        (Prepared::Pinned, "pinned (mlock, munlock), 2 MB held", HELD_BYTES),
        (Prepared::CopiedCached, "copied, cached", 0),
        (Prepared::CopiedUncached, "copied, uncached", 0),
    ]
    .into_iter()
    .map(|(prepared, series, held)| {
        let work = Work::Registering { prepared, sizes: sizes.clone(), held };
        let how = (Way::Local, Wait::Poll, Cpus::Apart);
        part(Scenario::Registration, how, series.to_owned(), work, effort)
    })
    .chain(simulated(effort))
    .collect()
}

/// Returns parts for registration at the papers' costs, in simulated time; section 4.1 of the ICS paper.
fn simulated(effort: Effort) -> Vec<Part> {
    let sizes: Vec<usize> = [2, 10, 12, 13, 14, 15].map(|bits| 1 << bits).to_vec();
    let senders = [
        (Sender::Alone, "alone", 0),
        (Sender::Alone, "alone, 2 MB held", HELD_BYTES),
        (Sender::CacheOff, "a stream, cache off", 0),
        (Sender::CacheOn, "a stream, cache on", 0),
        (Sender::CacheTold, "a stream, cache told", 0),
    ];
    let of = |(law, name)| {
        senders.map(|(sender, what, held)| {
            let work = Work::Simulated { law, sender, sizes: sizes.clone(), held };
            let how = (Way::Local, Wait::Poll, Cpus::Apart);
            let series = format!("simulated, {name}, {what}");
            part(Scenario::Registration, how, series, work, effort)
        })
    };
    [(Law::MVia, "M-VIA's law"), (Law::Clan, "cLAN's law")].into_iter().flat_map(of).collect()
}
