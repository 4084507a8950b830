//! Data of a connection that only the holder of its lock uses.

use super::{
    Activity, Copies, Failover, Guard, Handler, Locked, Own, Protocol, Seen, WINDOW_MAX, flag,
};
use core::mem::MaybeUninit;
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_control::Traffic;
use sovia_proto::close::Closing;
use sovia_proto::flow::{Flow, Parameters};
use sovia_proto::order::{Gatherer, Taker};
use sovia_proto::packet::{Immediate, Kind};
use via_shm::Endpoint;
use via_shm::endpoint::{CREDIT_BATCH, MESSAGE_MAX};
pub(crate) use via_shm::ready_list::Bell;
use via_shm::ring::{INLINE, SLOTS};

/// Length of the longest packet that a VI carries, in bytes.
pub(crate) const PACKET_MAX: usize = MESSAGE_MAX;
/// Length of the longest packet that lies in a ring entry rather than in the pool, in bytes.
pub(crate) const INLINE_MAX: usize = INLINE;
/// Number of posted receives that the peer sees even while the last batch of receives is unpublished.
pub(super) const RECEIVES: u32 = SLOTS - CREDIT_BATCH;

/// A message that was taken off the ring before the program asked for it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Held {
    /// A [`sovia_proto::packet::Kind`] as a number.
    pub kind: u8,
    /// True if the bytes lie in the pool.
    pub pooled: bool,
    /// Length in bytes.
    pub len: u32,
    /// Offset in the pool.
    pub at: u32,
    /// Pool position to release once the message is consumed.
    pub release: u64,
    /// The bytes, if they do not lie in the pool.
    pub bytes: [u8; INLINE],
}

/// Number of ordered packets that can be held: a whole ring, more than the window.
pub const HELD: usize = SLOTS as usize;

/// A receiver's change that takes several steps. Only one is under way at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub enum Taking {
    /// No change is under way.
    #[default]
    Nothing,
    /// Consumes a data packet in the ring. The values are the packet's number, then the counts of consumed ordered
    /// packets and their bytes after the change.
    FromRing(u32, u32, u32),
    /// Consumes a held data packet. The values are those of `FromRing`.
    FromHeld(u32, u32, u32),
    /// Moves a packet from the ring to the held packets. The values are the packet's number, and the number after the
    /// last held packet before the change.
    ToHeld(u32, u32),
    /// Consumes a packet without data in the ring. The values are the packet's number and kind, then the count of
    /// consumed ordered packets after the change.
    Control(u32, Kind, u32),
    /// Consumes a held packet without data. The values are those of `Control`.
    HeldControl(u32, Kind, u32),
}

/// A [`Taking`] in memory. The kind is written last, because a process may be killed between any two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Note {
    kind: u32,
    values: [u32; 3],
}

impl Note {
    #[inline(always)]
    fn parts(taking: Taking) -> (u32, [u32; 3]) {
        match taking {
            Taking::Nothing => (0, [0; 3]),
            Taking::FromRing(n, packets, bytes) => (1, [n, packets, bytes]),
            Taking::FromHeld(n, packets, bytes) => (2, [n, packets, bytes]),
            Taking::ToHeld(n, end) => (3, [n, end, 0]),
            Taking::Control(n, kind, packets) => (0x100 | kind as u32, [n, packets, 0]),
            Taking::HeldControl(n, kind, packets) => (0x200 | kind as u32, [n, packets, 0]),
        }
    }

    fn taking(self) -> Taking {
        let [n, m, bytes] = self.values;
        let kind = || Immediate::decode((self.kind & 0xff) << 24).ok().map(|packet| packet.kind);
        match self.kind {
            1 => Taking::FromRing(n, m, bytes),
            2 => Taking::FromHeld(n, m, bytes),
            3 => Taking::ToHeld(n, m),
            0x100..0x200 => kind().map_or(Taking::Nothing, |kind| Taking::Control(n, kind, m)),
            0x200..0x300 => kind().map_or(Taking::Nothing, |kind| Taking::HeldControl(n, kind, m)),
            _ => Taking::Nothing,
        }
    }
}

/// Data that only the holder of the lock may access.
#[derive(Debug)]
#[repr(C)]
pub struct Body {
    /// This end of the VI. Valid once attached.
    endpoint: MaybeUninit<Endpoint>,
    /// Window and acknowledgements.
    pub flow: Flow,
    /// Other settings of the protocol.
    pub protocol: Protocol,
    /// Number of combined bytes that the peer has not been notified of.
    pub untold: u32,
    /// Time by which the peer must be notified of these bytes (nanoseconds of the monotonic clock).
    pub due: u64,
    /// FIN and FINACK.
    pub closing: Closing,
    /// Coalesced bytes that this end sends.
    pub gatherer: Gatherer,
    /// Coalesced bytes that the peer sends.
    pub taker: Taker,
    /// Traffic on the VI that is not yet in the statistics.
    pub traffic: Traffic,
    /// Traffic on the VI that is already in the statistics.
    pub past: Traffic,
    /// Silence of the direction in which this end sends, and of the other direction.
    pub activity: [Activity; 2],
    /// Change of the receiver that is under way. If the thread dies, another thread completes the change.
    pub taking: Note,
    /// Number of received entries whose arrival `flow` has counted.
    pub arrivals: u32,
    /// Number of entries sent, and in the upper half the number of ordered packets among them. Both are in one word,
    /// because a process may be killed between two stores. `gatherer.packets` is updated after this word.
    pub counted: u64,
    /// Bytes in the ordered packets sent. `gatherer` counts the packets.
    pub bytes_sent: u32,
    /// Bytes in the ordered packets consumed. `taker` counts the packets.
    pub bytes_taken: u32,
    /// Number of bytes that were unread on the VI and are now on TCP (`stream::returned`).
    pub drained: u32,
    /// The kernel's count of bytes written to TCP before those bytes, plus one; 0 if it is not known.
    pub drained_from: u64,
    /// Number of bytes of the first unread packet that the program has read.
    pub front: u32,
    /// Number of the first held packet.
    pub held_first: u32,
    /// Number after the last held packet.
    pub held_end: u32,
    /// True while the program reads a borrowed slot of the pool. The slot is not released meanwhile.
    pub borrowed: bool,
    /// Pool position to release when the program has read the slot.
    pub owed: u64,
    /// The receiver's progress when a sender last gave up waiting for a slot.
    pub stalled: u64,
    /// Packets that [`crate::stream`] has taken off the ring to reach the acknowledgements behind them.
    pub held: [Held; HELD],
    /// Private copies of this end's words in the segment, for comparison.
    pub own: Own,
    /// State at the last comparison.
    pub seen: Seen,
    /// The handler thread, if there is one.
    pub handler: Handler,
    /// Progress of a failover to TCP.
    pub failover: Failover,
    /// Changes to entries of epoll sets, for the copies that a fork makes.
    pub copies: Copies,
}

impl Body {
    /// Initialises the body for a connection that has just got its VI. Nothing has been sent on the VI.
    fn begin(&mut self, end: Endpoint, parameters: Parameters, chosen: Protocol) {
        // Names every field, so that none is forgotten.
        let Body {
            endpoint,
            flow,
            protocol,
            untold,
            due,
            closing,
            gatherer,
            taker,
            traffic,
            past,
            activity,
            taking,
            arrivals,
            counted,
            bytes_sent,
            bytes_taken,
            drained,
            drained_from,
            front,
            held_first,
            held_end,
            borrowed,
            owed,
            stalled,
            // The counts show that no packet is held, so old contents are never read.
            held: _,
            own,
            seen,
            handler,
            failover,
            copies,
        } = self;
        endpoint.write(end);
        *flow = Flow::new(parameters);
        // Until the peer publishes its window, which it does before this end enters the VI.
        flow.face(WINDOW_MAX);
        *protocol = chosen;
        (*untold, *due) = (0, 0);
        *closing = Closing::default();
        (*gatherer, *taker) = (Gatherer::default(), Taker::default());
        (*traffic, *past) = (Traffic::default(), Traffic::default());
        *activity = Default::default();
        *taking = Note::default();
        (*arrivals, *counted) = (0, 0);
        (*bytes_sent, *bytes_taken) = (0, 0);
        (*drained, *drained_from) = (0, 0);
        *front = 0;
        (*held_first, *held_end) = (0, 0);
        (*borrowed, *owed) = (false, 0);
        *stalled = u64::MAX;
        *own = Own::default();
        *seen = Seen::default();
        *handler = Handler::default();
        *failover = Failover::default();
        copies.forget();
    }

    /// Notes a change that takes several steps, or that all steps are done. If this process dies in between, a forked
    /// relative completes the change.
    #[inline(always)]
    pub(crate) fn take(&mut self, taking: Taking) {
        // The fences keep this order in memory and keep each store, because a process may be killed between any two
        // instructions.
        let (kind, values) = Note::parts(taking);
        compiler_fence(Ordering::SeqCst);
        if kind != 0 {
            self.taking.values = values;
        }
        compiler_fence(Ordering::SeqCst);
        self.taking.kind = kind;
        compiler_fence(Ordering::SeqCst);
    }

    /// Returns the change that a dead thread had begun.
    pub(crate) fn taking(&self) -> Taking {
        self.taking.taking()
    }
}

impl<'a> Locked<'a> {
    /// Gives the connection its end of a VI. Nothing has been sent on the VI.
    ///
    /// # Safety
    /// The segment must stay mapped until this process has left the VI, as [`Endpoint::new`] requires.
    pub(crate) unsafe fn attach(
        mut self,
        endpoint: Endpoint,
        flow: Parameters,
        protocol: Protocol,
    ) -> Guard<'a> {
        self.conn.show_configuration(flow, &protocol);
        self.begin(endpoint, flow, protocol);
        self.conn.clear(flag::TORN);
        Guard(self)
    }
}

/// Access to the endpoint of a connection that this process has on a VI. Only [`crate::stream`] may use this trait;
/// other modules call `stream`. `tests/layers.rs` checks this.
pub(crate) trait HasEndpoint {
    /// Returns this end of the VI.
    fn endpoint(&mut self) -> &mut Endpoint;

    /// Returns this end of the VI, for reading.
    fn endpoint_ref(&self) -> &Endpoint;
}

impl HasEndpoint for Guard<'_> {
    #[inline]
    fn endpoint(&mut self) -> &mut Endpoint {
        // SAFETY: `attach` wrote the endpoint before the first Guard existed. The endpoint's segment stays mapped while
        // a Guard exists, because a process leaves the VI only under the lock.
        unsafe { self.endpoint.assume_init_mut() }
    }

    #[inline]
    fn endpoint_ref(&self) -> &Endpoint {
        // SAFETY: `attach` wrote the endpoint before the first Guard existed. The endpoint's segment stays mapped while
        // a Guard exists, because a process leaves the VI only under the lock.
        unsafe { self.endpoint.assume_init_ref() }
    }
}

impl Guard<'_> {
    /// Counts the entries sent so far, among them `ordered` more ordered packets.
    #[inline]
    pub(crate) fn count_sent(&mut self, ordered: u32) {
        let packets = self.gatherer.packets.wrapping_add(ordered);
        compiler_fence(Ordering::SeqCst);
        self.counted = u64::from(self.endpoint_ref().tx.sent()) | u64::from(packets) << 32;
        compiler_fence(Ordering::SeqCst);
        self.gatherer.packets = packets;
    }
}
