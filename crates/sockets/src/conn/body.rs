//! Data of a connection that only the holder of the connection's lock uses.

use super::{
    Activity, Copies, Failover, Guard, Handler, LastAudit, Locked, OwnWords, Protocol, WINDOW_MAX,
    flag,
};
use core::mem::MaybeUninit;
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_control::Traffic;
use sovia_proto::close::Closing;
use sovia_proto::flow::{Flow, Parameters};
use sovia_proto::order::{Coalescer, Taker};
use sovia_proto::packet::{Immediate, Kind};
use sovia_ring::Endpoint;
use sovia_ring::endpoint::{CREDIT_BATCH, MESSAGE_MAX};
pub(crate) use sovia_ring::ready_list::WakeWord;
use sovia_ring::ring::{INLINE, SLOTS};

/// Length of the longest packet that a VI carries, in bytes.
pub(crate) const PACKET_MAX: usize = MESSAGE_MAX;
/// Length of the longest packet that lies in a ring entry rather than in the pool, in bytes.
pub(crate) const INLINE_MAX: usize = INLINE;
/// Number of free ring entries that the peer always sees if the ring is empty. The receiver publishes free entries
/// in batches of [`CREDIT_BATCH`], so the last batch may be unpublished.
pub(super) const RECEIVES: u32 = SLOTS - CREDIT_BATCH;

/// A packet that was taken off the ring before the program received it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Held {
    /// The packet's kind, a [`sovia_proto::packet::Kind`] as a number.
    pub kind: u8,
    /// True if the packet's bytes lie in the pool.
    pub pooled: bool,
    /// The packet's length in bytes.
    pub len: u32,
    /// Offset of the packet's bytes in the pool.
    pub at: u32,
    /// Pool position to release once the packet is consumed.
    pub release: u64,
    /// The packet's bytes, if they do not lie in the pool.
    pub bytes: [u8; INLINE],
}

/// Number of packets that can be held: as many as the ring has entries, which is more than the window.
pub const HELD: usize = SLOTS as usize;

/// A change by a receiver that takes several steps. If the thread dies in the middle, another thread completes the
/// change. Only one change is under way at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub enum Taking {
    /// No change is under way.
    #[default]
    Nothing,
    /// Consumes a data packet in the ring. The values are the packet's number, the number of consumed ordered
    /// packets after the change, and the number of bytes in these packets.
    FromRing(u32, u32, u32),
    /// Consumes a held data packet. The values are the same as in `FromRing`.
    FromHeld(u32, u32, u32),
    /// Moves a packet from the ring to the held packets. The values are the packet's number in the ring, and the
    /// value of `held_end` before the change.
    ToHeld(u32, u32),
    /// Consumes a packet without data in the ring. The values are the packet's number, its kind, and the number of
    /// consumed ordered packets after the change.
    Control(u32, Kind, u32),
    /// Consumes a held packet without data. The values are the same as in `Control`.
    HeldControl(u32, Kind, u32),
}

/// A [`Taking`] as it is stored in the connection. `kind` is stored last, because a process may be killed between
/// any two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct StoredTaking {
    kind: u32,
    values: [u32; 3],
}

impl StoredTaking {
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

/// Data of a connection that only the holder of the connection's lock may access.
#[derive(Debug)]
#[repr(C)]
pub struct Body {
    /// This end of the VI. Initialised once the connection has its VI.
    endpoint: MaybeUninit<Endpoint>,
    /// State of the window and of acknowledgements.
    pub flow: Flow,
    /// Settings of the protocol for this connection.
    pub protocol: Protocol,
    /// Number of combined bytes that were sent without notifying the peer.
    pub unnotified: u32,
    /// Time by which the peer must be notified of the combined bytes (nanoseconds of the monotonic clock).
    pub due: u64,
    /// State of the exchange of FIN and FINACK.
    pub closing: Closing,
    /// State of the coalesced bytes that this end sends.
    pub coalescer: Coalescer,
    /// State of the coalesced bytes that the peer sends.
    pub taker: Taker,
    /// Traffic on the VI that is not yet in the statistics.
    pub traffic: Traffic,
    /// Traffic on the VI that is already in the statistics.
    pub past: Traffic,
    /// Activity of the sending direction, and then of the receiving direction.
    pub activity: [Activity; 2],
    /// The receiver's change that is under way, if there is one. If the thread dies, another thread completes the
    /// change.
    pub taking: StoredTaking,
    /// Number of arrived ring entries that `flow` has counted.
    pub arrivals: u32,
    /// Number of ring entries sent, and in the upper half the number of ordered packets among these entries. One
    /// word holds the two numbers, because a process may be killed between two stores. `coalescer.packets` is
    /// updated after this word.
    pub counted: u64,
    /// Number of bytes in all ordered packets that this end has sent. `coalescer.packets` is the number of these
    /// packets.
    pub bytes_sent: u32,
    /// Number of bytes in all ordered packets that this end has consumed. `taker.packets` is the number of these
    /// packets.
    pub bytes_taken: u32,
    /// Number of unread bytes of the VI that this end has put on TCP (`stream::returned`).
    pub drained: u32,
    /// The kernel's count of bytes written to TCP before the bytes in `drained`, plus one; 0 if this count is not
    /// known.
    pub drained_from: u64,
    /// Number of bytes of the first unread packet that the program has read.
    pub front: u32,
    /// Number of the first held packet. It lies at index `held_first % HELD` of `held`.
    pub held_first: u32,
    /// Number of the last held packet, plus one.
    pub held_end: u32,
    /// True while the program reads a borrowed slot of the pool, which must not be released.
    pub borrowed: bool,
    /// Pool position to release once the program has read the borrowed slot.
    pub owed: u64,
    /// Value of `stream::lend_progress` when a sender last gave up waiting for a slot of the pool.
    pub stalled: u64,
    /// Packets that were taken off the ring before the program received them. A sender takes them off to reach the
    /// acknowledgements behind them.
    pub held: [Held; HELD],
    /// Private copies of this end's words in the segment. `stream::audit` compares them with the segment.
    pub own: OwnWords,
    /// State at the last check by `stream::audit`.
    pub seen: LastAudit,
    /// The connection's handler thread, if there is one.
    pub handler: Handler,
    /// Progress of a failover to TCP.
    pub failover: Failover,
    /// Changes to the connection's entries in epoll sets since a fork copied these entries.
    pub copies: Copies,
}

impl Body {
    /// Initialises the body for a connection that has just got its VI. Requires that nothing has been sent on the
    /// VI.
    fn begin(&mut self, end: Endpoint, parameters: Parameters, chosen: Protocol) {
        // Names every field, so that the compiler reports a field that is not initialised here.
        let Body {
            endpoint,
            flow,
            protocol,
            unnotified,
            due,
            closing,
            coalescer,
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
            // `held_first` and `held_end` say that no packet is held, so old contents of `held` are never read.
            held: _,
            own,
            seen,
            handler,
            failover,
            copies,
        } = self;
        endpoint.write(end);
        *flow = Flow::new(parameters);
        // Assumes the largest window until this end enters the VI. The peer publishes its window before that.
        flow.face(WINDOW_MAX);
        *protocol = chosen;
        (*unnotified, *due) = (0, 0);
        *closing = Closing::default();
        (*coalescer, *taker) = (Coalescer::default(), Taker::default());
        (*traffic, *past) = (Traffic::default(), Traffic::default());
        *activity = Default::default();
        *taking = StoredTaking::default();
        (*arrivals, *counted) = (0, 0);
        (*bytes_sent, *bytes_taken) = (0, 0);
        (*drained, *drained_from) = (0, 0);
        *front = 0;
        (*held_first, *held_end) = (0, 0);
        (*borrowed, *owed) = (false, 0);
        *stalled = u64::MAX;
        *own = OwnWords::default();
        *seen = LastAudit::default();
        *handler = Handler::default();
        *failover = Failover::default();
        copies.forget();
    }

    /// Stores `taking` before the first step of a change, or [`Taking::Nothing`] after the last step. If this
    /// process dies in between, a forked relative completes the change.
    #[inline(always)]
    pub(crate) fn take(&mut self, taking: Taking) {
        // A process may be killed between any two instructions. The fences make the compiler keep each store and
        // their order.
        let (kind, values) = StoredTaking::parts(taking);
        compiler_fence(Ordering::SeqCst);
        if kind != 0 {
            self.taking.values = values;
        }
        compiler_fence(Ordering::SeqCst);
        self.taking.kind = kind;
        compiler_fence(Ordering::SeqCst);
    }

    /// Returns the receiver's change that is under way. After a thread's death, this is the change to complete.
    pub(crate) fn taking(&self) -> Taking {
        self.taking.taking()
    }
}

impl<'a> Locked<'a> {
    /// Gives the connection its endpoint of a VI. Requires that nothing has been sent on the VI.
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

/// Access to the endpoint of a connection that this process has on a VI. Only [`crate::stream`] may use this trait,
/// and `tests/layers.rs` checks this rule. Other modules call functions of `stream`.
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
    /// Counts sent ring entries. `ordered` is the number of ordered packets among the entries that were not counted
    /// yet.
    #[inline]
    pub(crate) fn count_sent(&mut self, ordered: u32) {
        let packets = self.coalescer.packets.wrapping_add(ordered);
        compiler_fence(Ordering::SeqCst);
        self.counted = u64::from(self.endpoint_ref().tx.sent()) | u64::from(packets) << 32;
        compiler_fence(Ordering::SeqCst);
        self.coalescer.packets = packets;
    }
}
