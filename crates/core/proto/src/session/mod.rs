//! One end of a stream: the whole protocol over a VI, without I/O.
//!
//! The caller reports events to a [`Session`], and the session answers with lengths and packets to send. The caller
//! owns the memory, descriptors, clocks and threads. Events come from three sources:
//!
//! - **The program** calls [`Session::write`] to offer bytes, and [`Session::reading`] when it wants bytes. It
//!   calls [`Session::consumed`] after it has read a packet. To end, it calls [`Session::shutdown`],
//!   [`Session::shutdown_reading`] or [`Session::abort`].
//! - **The VI** reports [`Session::connected`], [`Session::lost`], and [`Session::arrived`] for a finished receive
//!   with its immediate data.
//! - **The clock** reports [`Session::timer`] for the chunk that [`Session::batch`] names.
//!
//! After every event the caller calls [`Session::outgoing`] until the function returns `None`, and posts each
//! returned packet. A returned packet counts as sent. So the caller must have a free send descriptor before each
//! call of [`Session::outgoing`].
//!
//! The caller posts the receive of a data packet again before it calls [`Session::consumed`] for this packet. It
//! posts the receive of any other packet again before the next [`Session::outgoing`]. Then the receive queue is
//! never empty when a packet arrives. This is the pre-posting constraint (CLUSTER section 3.1). `tests/session`
//! runs two connected sessions under random schedules.

mod arriving;
mod exchange;
mod leave;
mod output;

pub use leave::{Leave, Request, Target};
pub use output::{Arrival, Body, NotWritable, Offer, Outgoing};

use crate::combining::{Combiner, Fate};
use crate::configuration::{Combine, Configuration, Handshake, Transfer};
use crate::flow::Flow;
use crate::packet::{Immediate, Kind};
use crate::state::{Event, IllegalTransition, State};
use crate::wakeup::Terms;
use exchange::Exchange;

/// Length in bytes of the longest body of a packet that is not data.
pub const BODY_MAX: usize = 16;

/// One end of a stream.
///
/// ```
/// use sovia_proto::configuration::Configuration;
/// use sovia_proto::session::{Arrival, Body, Offer, Session};
///
/// /// Passes all outgoing packets of one end to the other end.
/// fn pass(from: &mut Session, to: &mut Session) {
///     while let Some(packet) = from.outgoing() {
///         let body = match packet.body {
///             Body::Terms(terms) => terms.encode().to_vec(),
///             _ => Vec::new(),
///         };
///         to.arrived(Some(packet.immediate.encode()), body.len() as u32, &body).unwrap();
///     }
/// }
///
/// let configuration: Configuration = "SOVIA_DACKS,copy".parse()?;
/// let mut ends = [Session::new(&configuration), Session::new(&configuration)];
/// for end in &mut ends {
///     end.connecting().unwrap();
///     end.connected().unwrap();
/// }
/// let [a, b] = &mut ends;
/// pass(a, b);
/// pass(b, a);
///
/// let Ok(Offer::Copy { len, immediate, .. }) = a.write(100, None, true) else { panic!("the window is open") };
/// assert_eq!(b.arrived(Some(immediate.encode()), len, &[]), Ok(Arrival::Data));
/// b.consumed();
/// assert_eq!((a.sent(), b.received()), (100, 100));
/// # Ok::<(), sovia_proto::configuration::text::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    state: State,
    configuration: Configuration,
    /// Limits that both ends keep to, once the peer's WAKEUP has arrived.
    agreed: Option<Terms>,
    flow: Flow,
    combiner: Combiner,
    exchange: Exchange,
    /// Set if the program has closed its sending half before the peer's WAKEUP has arrived.
    shut_early: bool,
    /// Set once the program has closed its receiving half. The session then drops data that arrives.
    deaf: bool,
    /// Set once the program has closed the stream ([`Session::forsake`]).
    forsaken: bool,
    wakeup_due: bool,
    ack_due: bool,
    finack_due: bool,
    sent: u64,
    received: u64,
}

impl Session {
    /// Returns an end that has not begun to connect. The configuration must be valid ([`Configuration::check`]).
    pub fn new(configuration: &Configuration) -> Session {
        Session {
            state: State::Closed,
            configuration: *configuration,
            agreed: None,
            flow: Flow::new(configuration.flow),
            combiner: Combiner::new(configuration.combine, configuration.chunk),
            exchange: Exchange::default(),
            shut_early: false,
            deaf: false,
            forsaken: false,
            wakeup_due: false,
            ack_due: false,
            finack_due: false,
            sent: 0,
            received: 0,
        }
    }

    /// Returns the stream's state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    fn step(&mut self, event: Event) -> Result<(), IllegalTransition> {
        self.state = self.state.after(event)?;
        Ok(())
    }

    /// Records that the caller has begun to connect the VI.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless the stream is new.
    pub fn connecting(&mut self) -> Result<(), IllegalTransition> {
        self.step(Event::Connect)
    }

    /// Records that the VIs are connected and all receives are posted.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless a connection was being made.
    pub fn connected(&mut self) -> Result<(), IllegalTransition> {
        self.step(Event::Connected)?;
        self.wakeup_due = true;
        Ok(())
    }

    /// Returns the limits that both ends keep to. Returns `None` until the peer's WAKEUP has arrived.
    pub fn agreed(&self) -> Option<Terms> {
        self.agreed
    }

    /// Offers `bytes` bytes of the program, at least 1. Returns what the caller must do with these bytes. `way`
    /// replaces the configured [`Transfer`] for this message. `stays` is true if the program's call lasts until
    /// these bytes are written or can no longer be written.
    ///
    /// # Errors
    /// [`NotWritable`].
    #[inline]
    pub fn write(
        &mut self,
        bytes: usize,
        way: Option<Transfer>,
        stays: bool,
    ) -> Result<Offer, NotWritable> {
        if !self.state.may_write() || self.shut_early {
            let lost = matches!(self.state, State::Reset | State::Closed | State::Connecting);
            return Err(if lost { NotWritable::Lost } else { NotWritable::Shut });
        }
        let Some(terms) = self.agreed else { return Ok(Offer::Wait) };
        let mut len = u32::try_from(bytes).unwrap_or(u32::MAX).min(terms.chunk);
        // A message that is sent from the program's own buffer does not join the combining buffer. The combined
        // bytes must be sent before this message.
        if way == Some(Transfer::Reg) {
            self.combiner.flush();
            if self.combiner.is_due() {
                return Ok(Offer::Wait);
            }
        } else {
            match self.combiner.offer(len) {
                Fate::Join(at) => return Ok(Offer::Join { at, len }),
                Fate::After => return Ok(Offer::Wait),
                Fate::Alone => {}
            }
        }
        // The peer's permission also acknowledges the previous message. So the window has room once the permission
        // has arrived.
        let mut to = None;
        if terms.handshake.asks() {
            let Some((granted, target)) = self.exchange.leave_for(len, stays) else {
                return Ok(Offer::Wait);
            };
            len = granted;
            to = (terms.handshake == Handshake::Rdma).then_some(target);
        }
        if !self.flow.can_send() {
            return Ok(Offer::Wait);
        }
        let immediate = self.send_data(len);
        let configuration = Configuration {
            transfer: way.unwrap_or(self.configuration.transfer),
            ..self.configuration
        };
        Ok(match configuration.copies(len) {
            true => Offer::Copy { len, immediate, to },
            false => Offer::Register { len, immediate, to },
        })
    }

    fn send_data(&mut self, len: u32) -> Immediate {
        self.sent += u64::from(len);
        self.ack_due = false;
        self.flow.send(Kind::Data)
    }

    /// Returns true if [`Session::write`] would now accept one byte.
    pub fn is_writable(&self) -> bool {
        let terms = self.agreed.filter(|_| self.state.may_write() && !self.shut_early);
        let Some(terms) = terms else { return false };
        let joins = self.combiner.is_on() && !self.combiner.is_due();
        let room = self.combiner.waiting() < terms.chunk;
        let granted = !terms.handshake.asks() || self.exchange.is_granted();
        if joins { room } else { self.flow.can_send() && granted && self.combiner.waiting() == 0 }
    }

    /// Records that the program wants to receive up to `room` bytes. Marks the combined bytes to be sent.
    #[inline]
    pub fn reading(&mut self, room: u32) {
        self.combiner.flush();
        if self.configuration.handshake.asks() {
            self.exchange.reading(room.min(self.configuration.chunk));
        }
    }

    /// Records that the program has read the oldest packet that the caller keeps, and that the caller has posted
    /// this packet's receive again.
    #[inline]
    pub fn consumed(&mut self) {
        self.ack_due |= self.flow.consumed();
    }

    /// Closes the sending half for the program. The session sends FIN after all bytes that the program has written.
    pub fn shutdown(&mut self) {
        if self.state == State::Opening {
            self.shut_early = true;
        } else if self.step(Event::Shutdown).is_ok() {
            self.combiner.flush();
        }
    }

    /// Closes the receiving half for the program. The session then drops and acknowledges data that arrives. The
    /// caller must call [`Session::consumed`] for each packet that it still keeps.
    pub fn shutdown_reading(&mut self) {
        self.deaf = true;
        self.exchange.reading(self.configuration.chunk);
    }

    /// Records that the program has closed the stream. After the session has sent FIN, it no longer acknowledges
    /// data that the peer sends.
    pub fn forsake(&mut self) {
        self.forsaken = true;
    }

    /// Resets the connection for the program.
    pub fn abort(&mut self) {
        let _ = self.step(Event::Abort);
    }

    /// Records that the VI has lost its connection, or that the peer has broken the protocol.
    pub fn lost(&mut self) {
        let _ = self.step(Event::Lost);
    }

    /// Records that the VIs could not be connected.
    pub fn refused(&mut self) {
        let _ = self.step(Event::Refused);
    }

    /// Returns the next packet to post, or `None`. A returned packet counts as sent.
    pub fn outgoing(&mut self) -> Option<Outgoing> {
        if self.finack_due && self.state != State::Reset {
            self.finack_due = false;
            return Some(self.control(Kind::FinAck, Body::Empty));
        }
        if self.state.is_over() {
            return None;
        }
        if core::mem::take(&mut self.wakeup_due) {
            let body = Body::Terms(Terms::of(&self.configuration));
            return Some(self.control(Kind::Wakeup, body));
        }
        let terms = self.agreed?;
        // A peer that has sent FIN sends no more data, and needs neither acknowledgements nor permissions.
        let receives_data = match self.state {
            State::FinWait1 | State::FinWait2 => !self.forsaken,
            state => state.receives_data(),
        };
        if self.ack_due && !terms.handshake.asks() && receives_data {
            self.ack_due = false;
            return Some(self.control(Kind::Ack, Body::Empty));
        }
        if terms.handshake.asks() {
            // A permission is for an empty buffer. So this end gives no permission while the program has unread
            // packets.
            if receives_data
                && self.flow.held() == 0
                && let Some(Request { bytes, waits }) = self.exchange.grant_due(terms.chunk)
            {
                let body = match terms.handshake {
                    Handshake::Rdma => Body::Leave { bytes, waits },
                    _ => Body::Number(bytes),
                };
                return Some(self.control(Kind::Ack, body));
            }
            if self.state.may_write()
                && let Some(request) = self.exchange.request_due()
            {
                return Some(self.control(Kind::Req, Body::Request(request)));
            }
        }
        if self.combiner.is_due() && self.state.carries_data() && self.flow.can_send() {
            let len = self.combiner.take();
            let immediate = self.send_data(len);
            return Some(Outgoing { immediate, body: Body::Combined(len) });
        }
        if self.combiner.waiting() == 0 && self.step(Event::SendFin).is_ok() {
            return Some(self.control(Kind::Fin, Body::Empty));
        }
        None
    }

    fn control(&mut self, kind: Kind, body: Body) -> Outgoing {
        self.ack_due = false;
        Outgoing { immediate: self.flow.send(kind), body }
    }

    /// Marks the combined bytes to be sent as soon as the window has room.
    pub fn flush(&mut self) {
        self.combiner.flush();
    }

    /// Switches combining on or off, like TCP_NODELAY. If `on` is false, marks the combined bytes to be sent.
    pub fn set_combining(&mut self, on: bool) {
        let below = self.configuration.combine.unwrap_or(Combine::PAPERS).below;
        self.combiner.switch(on.then_some(below));
    }

    /// Returns true if small messages are combined.
    pub fn is_combining(&self) -> bool {
        self.combiner.is_on()
    }

    /// Returns the number of the chunk of combined messages for which the caller must run a timer, or `None`.
    #[inline]
    pub fn batch(&self) -> Option<u32> {
        self.combiner.batch()
    }

    /// Records that the timer for the chunk `batch` has expired.
    pub fn timer(&mut self, batch: u32) {
        if self.batch() == Some(batch) {
            self.combiner.flush();
        }
    }

    /// Returns the number of bytes in the combining buffer.
    pub fn waiting(&self) -> u32 {
        self.combiner.waiting()
    }

    /// Returns the number of bytes that have been sent in packets.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of bytes that have arrived in packets.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of data packets that are sent and not acknowledged.
    pub fn unacknowledged(&self) -> u16 {
        self.flow.unacked()
    }
}
