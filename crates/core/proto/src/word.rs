//! The words of a direction: what its two ends say to each other beside the messages.
//!
//! Each direction has three lines of eight words. Every word has one writer, but for [`SWITCH`] and
//! [`RETURNED`], which both ends change by compare-exchange ([`crate::path`]). Where the two ends share no memory, a NIC at each
//! end carries the words to the other, and the exchanges are decided where the sender is.

/// Writer's line: gathered bytes.
pub const TAIL: usize = 0;
/// Writer's line: ordered packets that go before what is gathered.
pub const AFTER: usize = 1;
/// Writer's line: gathered position that lies at the beginning of the area.
pub const START: usize = 2;
/// Writer's line: ordered packets sent and, in the upper half, the bytes in them; as they were
/// a while ago.
pub const LEDGER: usize = 3;
/// Writer's line: the window.
pub const WINDOW: usize = 4;
/// Writer's line: not 0 once the sender has ended its part: [`FIN_ON_VI`] or [`FIN_ON_TCP`].
pub const FIN: usize = 5;
/// Writer's line, of a NIC alone: what it answers to the receiver ([`CONFIRMED`], [`ACCEPTED`], [`REFUSED`]).
pub const ANSWER: usize = 6;
/// Writer's line, of a NIC alone: not 0 once all that the sender has published is here, and no more comes: because the
/// sender has left ([`ENDED`]) or died ([`DIED`]), or because the NICs have lost each other ([`BROKEN`], [`TIMED_OUT`]).
pub const GONE: usize = 7;

/// Reader's line: gathered bytes taken.
pub const HEAD: usize = 0;
/// Reader's line: bytes of the ordered packets that the program has read to their ends.
pub const TAKEN_BYTES: usize = 1;
/// Reader's line: messages that a receiver which has left the VI leaves unread and, in the upper half, how
/// many of them come before what is gathered.
pub const UNDELIVERED: usize = 2;
/// Reader's line: bytes of the first of them that the program has had.
pub const FRONT: usize = 3;
/// Reader's line: not 0 once a receiver whose segment is not the sender's has claimed the switch.
pub const CLAIM: usize = 4;

/// Reader's line: not 0 once the receiver's TCP has ended: its NIC is to find out whether the sender holds its socket, unless it is
/// [`ENDED_HERE`].
pub const ENDED_ON_TCP: usize = 5;
/// Reader's line, for this end's own NIC: for how many milliseconds what this end sends may stay unacknowledged
/// (TCP_USER_TIMEOUT); 0: for as long as TCP lets it by itself.
pub const USER_TIMEOUT: usize = 6;
/// Reader's line: bytes that the receiver's own buffer holds (SO_RCVBUF), where the program has said how many; else 0.
pub const HOLDS: usize = 7;

/// Path line: the sender's switch.
pub const SWITCH: usize = 0;
/// Path line: the receiver's grant.
pub const GRANT: usize = 1;
/// Path line: bytes that a receiver which revoked leaves on the VI, plus one.
pub const RETURNED: usize = 2;
/// Path line: not 0 once the sender has put those bytes on TCP.
pub const DRAINED: usize = 3;
/// Path line: not 0 once all bytes of a switch that was taken back are on TCP.
pub const TAKEN: usize = 4;
/// Path line: bytes that went over TCP before the switch.
pub const FROM: usize = 5;
/// Path line: not 0 when the sender wants the receiver to take the connection back to TCP.
pub const ASKED: usize = 6;
/// Path line: not 0 once the receiver has shut both halves. TCP resets a connection on which bytes
/// arrive then. Where a NIC is between the two ends the word says how much had arrived before.
pub const SHUT: usize = 7;

/// In the word of the grant: the receiver has closed.
pub const LEFT: u64 = 4;

/// In [`FIN`]: the sender ends its part on the VI, by a packet that follows.
pub const FIN_ON_VI: u64 = 1;
/// In [`FIN`]: the sender has ended its part on TCP.
pub const FIN_ON_TCP: u64 = 2;

/// In [`ANSWER`]: the revoke has been seen where the sender is. The switch that is here is what counts.
pub const CONFIRMED: u64 = 1;
/// In [`ANSWER`]: the sender has been told what the receiver returns, and will put it on TCP.
pub const ACCEPTED: u64 = 2;
/// In [`ANSWER`]: the sender had refused before.
pub const REFUSED: u64 = 4;

/// In [`GONE`]: the sender has left.
pub const ENDED: u64 = 1;
/// In [`GONE`]: the sender has died.
pub const DIED: u64 = 3;
/// In [`GONE`]: something may be missing that the sender had published.
pub const BROKEN: u64 = 2;
/// In [`GONE`]: likewise, because the other host has not acknowledged something for as long as the program waits.
pub const TIMED_OUT: u64 = 4;

/// In [`ENDED_ON_TCP`]: TCP has ended, and what it says of that may have overtaken what is on the VI.
pub const ENDED_THERE: u64 = 1;
/// In [`ENDED_ON_TCP`]: this host's own kernel has ended the connection, which is over with that.
pub const ENDED_HERE: u64 = 2;
