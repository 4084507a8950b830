//! What a receiver tells of the items that have come to it.

use super::Malformed;
use super::bytes::{Out, Reader, put_u32};

/// One sending of an item. An item that is sent again keeps its number and gets another transmission number, so that
/// an echo of the two tells which of its sendings has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sending {
    /// The item's number, modulo 2^32.
    pub number: u32,
    /// The number of the sending among all those of this stream's end, modulo 2^32.
    pub transmission: u32,
}

/// The sending that came last, and how long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The sending.
    pub sending: Sending,
    /// Nanoseconds from its arrival to the report; `u32::MAX` for that long or longer.
    pub delay: u32,
}

/// Items that have come out of their turn: after the end of the range before (after the first missing item's
/// predecessor, for the first one) `skip` items are missing, and then `length` are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Items that are missing. Zero is possible in the first range only: its items are there and not yet taken.
    pub skip: u32,
    /// Items that are there; at least one.
    pub length: u32,
}

/// An acknowledgement with all that a sender needs to find out what was lost.
///
/// ```
/// use sovia_link::wire::{Held, Report};
///
/// // 10, 11 and 14 are there and 7, 8, 9, 12 and 13 missing.
/// let mut report = Report::plain(7);
/// assert!(report.push(Held { skip: 3, length: 2 }) && report.push(Held { skip: 2, length: 1 }));
/// let numbers: Vec<_> = report.ranges().iter().map(|held| (held.skip, held.length)).collect();
/// assert_eq!(numbers, [(3, 2), (2, 1)]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Every item before this number has been received, modulo 2^32.
    pub next: u32,
    /// How many items from `next` on the receiver keeps if they come.
    pub room: u32,
    /// The sending that came last.
    pub seen: Option<Seen>,
    /// Frames of the stream that came with a mark of congestion (ECN CE) so far, modulo 2^32, where the receiver can
    /// tell.
    pub marked: Option<u32>,
    count: u8,
    held: [Held; Report::RANGES],
}

const HAS_SEEN: u8 = 1;
const HAS_MARKED: u8 = 2;

impl Report {
    /// The most ranges that a report has.
    pub const RANGES: usize = 16;
    /// Items that a report can speak of: half of the numbers that 32 bits tell apart.
    const SPAN: u32 = 1 << 31;
    /// Bytes of a report without ranges, at most.
    pub(crate) const BYTES: usize = 12 + 12 + 4;
    /// Bytes of a range.
    pub(crate) const RANGE_BYTES: usize = 8;

    /// An acknowledgement that tells nothing but the first number not yet received.
    pub const fn plain(next: u32) -> Report {
        let held = [Held { skip: 0, length: 0 }; Report::RANGES];
        Report { next, room: 0, seen: None, marked: None, count: 0, held }
    }

    /// What has come out of its turn, nearest to `next` first.
    pub fn ranges(&self) -> &[Held] {
        &self.held[..usize::from(self.count)]
    }

    /// Appends a range; false if there is no room for it, or if it cannot follow.
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
