//! What of a connection belongs to the holder of its lock.

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

/// Bytes of the longest packet that a VI carries.
pub(crate) const PACKET_MAX: usize = MESSAGE_MAX;
/// Bytes of the longest packet that lies in the queue itself, and not in the pool.
pub(crate) const INLINE_MAX: usize = INLINE;
/// Receives that a VI has posted for its peer to see, while its last batch of them is unpublished.
pub(super) const RECEIVES: u32 = SLOTS - CREDIT_BATCH;

/// A message taken off the ring before the program wanted it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Held {
    /// [`sovia_proto::packet::Kind`] as a number.
    pub kind: u8,
    /// Whether the bytes are in the pool.
    pub pooled: bool,
    /// Length in bytes.
    pub len: u32,
    /// Offset in the pool.
    pub at: u32,
    /// Pool position to release once consumed.
    pub release: u64,
    /// The bytes, if not pooled.
    pub bytes: [u8; INLINE],
}

/// Ordered packets that can be held: a whole ring's worth, more than the window.
pub const HELD: usize = SLOTS as usize;

/// The one change of a receiver that has several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub enum Taking {
    /// None is under way.
    #[default]
    Nothing,
    /// The entry of that number from the ring; ordered packets consumed afterwards, and the bytes in them.
    FromRing(u32, u32, u32),
    /// The held packet of that number, likewise.
    FromHeld(u32, u32, u32),
    /// The entry of that number from the ring to the held packets; the number after the last of those
    /// before.
    ToHeld(u32, u32),
    /// The entry of that number from the ring, a packet without bytes: its kind, and ordered packets
    /// consumed afterwards.
    Control(u32, Kind, u32),
    /// The held packet of that number, likewise.
    HeldControl(u32, Kind, u32),
}

/// A [`Taking`] as it is noted: a process may be killed between any two stores, so the kind comes last.
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

/// What the holder of the lock may touch.
#[derive(Debug)]
#[repr(C)]
pub struct Body {
    /// Our end of the VI; valid once attached.
    endpoint: MaybeUninit<Endpoint>,
    /// Window and acknowledgements.
    pub flow: Flow,
    /// What else of the protocol is chosen.
    pub protocol: Protocol,
    /// Combined bytes of which the peer has not been notified.
    pub untold: u32,
    /// When the peer must be notified of them (nanoseconds of the monotonic clock).
    pub due: u64,
    /// FIN and FINACK.
    pub closing: Closing,
    /// Our gathered bytes.
    pub gatherer: Gatherer,
    /// The peer's gathered bytes.
    pub taker: Taker,
    /// What went over the VI and is not yet in the statistics.
    pub traffic: Traffic,
    /// What is in the statistics already.
    pub past: Traffic,
    /// Silence of this end's sending, and of its receiving.
    pub activity: [Activity; 2],
    /// A packet that is being taken off: what must be true once it is, should its taker die.
    pub taking: Note,
    /// Entries received whose arrival the flow knows of.
    pub arrivals: u32,
    /// Entries sent, and in the upper half the ordered packets among them: in one word, because a process
    /// may be killed between any two. `gatherer.packets` follows it.
    pub counted: u64,
    /// Bytes in the ordered packets sent; the gatherer counts the packets.
    pub bytes_sent: u32,
    /// Bytes in the ordered packets consumed; the taker counts the packets.
    pub bytes_taken: u32,
    /// Bytes that were unread on the VI and have gone to TCP (`stream::returned`).
    pub drained: u32,
    /// What had been written to TCP before them, as the kernel counts, plus one; 0 if that is not known.
    pub drained_from: u64,
    /// Bytes of the first unread packet that the program has had.
    pub front: u32,
    /// Number of the first held packet.
    pub held_first: u32,
    /// Number after the last held packet.
    pub held_end: u32,
    /// Whether the program reads in a place of the pool: it is not released meanwhile.
    pub borrowed: bool,
    /// Pool position to release when it has done so.
    pub owed: u64,
    /// Where the receiver stood when a sender last gave up waiting for a place.
    pub stalled: u64,
    /// Packets held back by [`crate::stream`] so that acknowledgements behind them could be seen.
    pub held: [Held; HELD],
    /// What this end has written in the segment, to compare.
    pub own: Own,
    /// When that was last compared.
    pub seen: Seen,
    /// The thread that handles messages, if one does.
    pub handler: Handler,
    /// How far it has gone over to TCP, where what carries its VI has died.
    pub failover: Failover,
    /// Changes to entries of epoll sets, for the copies that a fork makes.
    pub copies: Copies,
}

impl Body {
    /// Makes this the body of a connection that has just been given its VI, on which nothing has been sent.
    fn begin(&mut self, end: Endpoint, parameters: Parameters, chosen: Protocol) {
        // Every field by its name, so that none is forgotten.
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
            // What lies there is not looked at: no number names it.
            held: _,
            own,
            seen,
            handler,
            failover,
            copies,
        } = self;
        endpoint.write(end);
        *flow = Flow::new(parameters);
        // Until the peer says how large its window is, which it has done before the VI is entered.
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

    /// Notes what is about to be done in several steps, for the relative that must finish it should this
    /// process die in between; or that all of them are done.
    #[inline(always)]
    pub(crate) fn take(&mut self, taking: Taking) {
        // In this order in memory, whatever the compiler would like to leave out: a process is killed
        // between any two instructions.
        let (kind, values) = Note::parts(taking);
        compiler_fence(Ordering::SeqCst);
        if kind != 0 {
            self.taking.values = values;
        }
        compiler_fence(Ordering::SeqCst);
        self.taking.kind = kind;
        compiler_fence(Ordering::SeqCst);
    }

    /// What a thread was in the middle of that has died.
    pub(crate) fn taking(&self) -> Taking {
        self.taking.taking()
    }
}

impl<'a> Locked<'a> {
    /// Gives the connection its end of a VI, on which nothing has been sent.
    ///
    /// # Safety
    /// As for [`Endpoint::new`]: the segment stays mapped until this process has left the VI.
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

/// The endpoint of a connection that this process has on a VI. For [`crate::stream`] alone, which
/// `tests/layers.rs` sees to: other modules ask the stream.
pub(crate) trait HasEndpoint {
    /// Our end of the VI.
    fn endpoint(&mut self) -> &mut Endpoint;

    /// Our end of the VI, to look at.
    fn endpoint_ref(&self) -> &Endpoint;
}

impl HasEndpoint for Guard<'_> {
    #[inline]
    fn endpoint(&mut self) -> &mut Endpoint {
        // SAFETY: `attach` wrote the endpoint before there was a Guard, and the segment that it lies in is
        // mapped: see the type.
        unsafe { self.endpoint.assume_init_mut() }
    }

    #[inline]
    fn endpoint_ref(&self) -> &Endpoint {
        // SAFETY: as for `endpoint`.
        unsafe { self.endpoint.assume_init_ref() }
    }
}

impl Guard<'_> {
    /// Counts the entries sent so far, of which `ordered` more are ordered packets.
    #[inline]
    pub(crate) fn count_sent(&mut self, ordered: u32) {
        let packets = self.gatherer.packets.wrapping_add(ordered);
        compiler_fence(Ordering::SeqCst);
        self.counted = u64::from(self.endpoint_ref().tx.sent()) | u64::from(packets) << 32;
        compiler_fence(Ordering::SeqCst);
        self.gatherer.packets = packets;
    }
}
