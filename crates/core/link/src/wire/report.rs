//! Reports of the items that a receiver has received.

use super::Malformed;
use super::bytes::{Out, Reader, put_u32};

/// One transmission of an item. A retransmitted item keeps its number and gets a new transmission number. So an echo of
/// both numbers tells which transmission has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sending {
    /// The item's number, modulo 2^32.
    pub number: u32,
    /// Number of the transmission among all transmissions of this end of the stream, modulo 2^32.
    pub transmission: u32,
}

/// The transmission that arrived last, and the time since its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The transmission.
    pub sending: Sending,
    /// Nanoseconds from its arrival to the report; `u32::MAX` for longer times.
    pub delay: u32,
}

/// A range of items that arrived out of order. After the end of the previous range, `skip` items are missing, then
/// `length` items have arrived. The first range counts from [`Report::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Number of missing items. Only the first range may have zero: the receiver has its items but has not taken them.
    pub skip: u32,
    /// Number of arrived items; at least one.
    pub length: u32,
}

/// An acknowledgement with everything that a sender needs to detect losses.
///
/// ```
/// use sovia_link::wire::{Held, Report};
///
/// // Items 10, 11 and 14 have arrived. Items 7, 8, 9, 12 and 13 are missing.
/// let mut report = Report::plain(7);
/// assert!(report.push(Held { skip: 3, length: 2 }) && report.push(Held { skip: 2, length: 1 }));
/// let numbers: Vec<_> = report.ranges().iter().map(|held| (held.skip, held.length)).collect();
/// assert_eq!(numbers, [(3, 2), (2, 1)]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The receiver has every item before this number, modulo 2^32.
    pub next: u32,
    /// Number of items from `next` on that the receiver accepts.
    pub room: u32,
    /// The transmission that arrived last.
    pub seen: Option<Seen>,
    /// Number of frames of the stream so far that arrived with a congestion mark (ECN CE), modulo 2^32. `None` if the
    /// receiver cannot see the mark.
    pub marked: Option<u32>,
    count: u8,
    held: [Held; Report::RANGES],
}

const HAS_SEEN: u8 = 1;
const HAS_MARKED: u8 = 2;

impl Report {
    /// Largest number of ranges in a report.
    pub const RANGES: usize = 16;
    /// Number of items that a report can cover: half the range of a 32-bit number.
    const SPAN: u32 = 1 << 31;
    /// Largest number of bytes of a report without ranges.
    pub(crate) const BYTES: usize = 12 + 12 + 4;
    /// Bytes of a range.
    pub(crate) const RANGE_BYTES: usize = 8;

    /// Returns a report with only the first number not yet received.
    pub const fn plain(next: u32) -> Report {
        let held = [Held { skip: 0, length: 0 }; Report::RANGES];
        Report { next, room: 0, seen: None, marked: None, count: 0, held }
    }

    /// Returns the ranges of items that arrived out of order, in ascending order.
    pub fn ranges(&self) -> &[Held] {
        &self.held[..usize::from(self.count)]
    }

    /// Appends a range. Returns false if there is no room or the range cannot follow the last one.
    pub fn push(&mut self, held: Held) -> bool {
        let ranges = self.ranges().iter().chain([&held]);
        let end = ranges.fold(0u64, |end, r| end + u64::from(r.skip) + u64::from(r.length));
        let follows = held.length > 0 && (held.skip > 0 || self.count == 0);
        let place = usize::from(self.count);
        if !follows || end >= Report::SPAN.into() || place == Report::RANGES {
            return false;
        }
        self.held[place] = held;
        self.count += 1;
        true
    }

    pub(super) fn emit(&self, out: &mut impl Out) {
        put_u32(out, self.next);
        put_u32(out, self.room);
        let flag = |bit, set| if set { bit } else { 0 };
        let flags = flag(HAS_SEEN, self.seen.is_some()) | flag(HAS_MARKED, self.marked.is_some());
        out.put(&[flags, self.count, 0, 0]);
        if let Some(Seen { sending, delay }) = self.seen {
            put_u32(out, sending.number);
            put_u32(out, sending.transmission);
            put_u32(out, delay);
        }
        if let Some(marked) = self.marked {
            put_u32(out, marked);
        }
        for held in self.ranges() {
            put_u32(out, held.skip);
            put_u32(out, held.length);
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Report, Malformed> {
        let mut report = Report { room: 0, ..Report::plain(reader.u32()?) };
        report.room = reader.u32()?;
        if report.room > Report::SPAN {
            return Err(Malformed::Value("room"));
        }
        let (flags, count) = (reader.u8()?, reader.u8()?);
        reader.zeros::<2>()?;
        if flags & !(HAS_SEEN | HAS_MARKED) != 0 {
            return Err(Malformed::Value("flags of the acknowledgement"));
        }
        if flags & HAS_SEEN != 0 {
            let sending = Sending { number: reader.u32()?, transmission: reader.u32()? };
            report.seen = Some(Seen { sending, delay: reader.u32()? });
        }
        if flags & HAS_MARKED != 0 {
            report.marked = Some(reader.u32()?);
        }
        for _ in 0..count {
            let held = Held { skip: reader.u32()?, length: reader.u32()? };
            if !report.push(held) {
                return Err(Malformed::Value("ranges"));
            }
        }
        Ok(report)
    }
}
