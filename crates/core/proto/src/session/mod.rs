//! One end of a stream: the whole protocol over a VI, without the VI.
//!
//! A [`Session`] is told what happens and says what to do, in lengths and packets; memory,
//! descriptors, clocks and threads are the caller's.
//!
//! - **The program**: [`Session::write`] says what becomes of bytes that it offers,
//!   [`Session::reading`] that it wants some, [`Session::consumed`] that it has had a packet,
//!   [`Session::shutdown`], [`Session::shutdown_reading`], [`Session::abort`].
//! - **The VI**: [`Session::connected`], [`Session::arrived`] for a finished receive, with its
//!   immediate data, [`Session::lost`].
//! - **The clock**: [`Session::timer`], for the chunk that [`Session::batch`] names.
//! - **What is to be posted**: [`Session::outgoing`], asked after every input until it says nothing.
//!   What it says counts as sent, so the caller has a send descriptor free before it asks.
//!
//! A receive is posted again before [`Session::consumed`] or the next [`Session::outgoing`], so that
//! the receive queue is never empty when a packet comes: the pre-posting constraint (CLUSTER
//! section 3.1). `tests/session` holds two of them together under random schedules.

mod arriving;
mod exchange;
mod leave;
mod said;

pub use leave::{Leave, Request, Target};
pub use said::{Arrival, Body, NotWritable, Offer, Outgoing};

use crate::combining::{Combiner, Fate};
use crate::configuration::{Combine, Configuration, Handshake, Transfer};
use crate::flow::Flow;
use crate::packet::{Immediate, Kind};
use crate::state::{Event, IllegalTransition, State};
use crate::wakeup::Terms;
use exchange::Exchange;

/// Bytes of the longest body of a packet that is not data.
pub const BODY_MAX: usize = 16;

/// One end of a stream.
///
/// ```
/// use sovia_proto::configuration::Configuration;
/// use sovia_proto::session::{Arrival, Body, Offer, Session};
///
/// /// Everything that an end has to say goes to the other one.
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
    /// Once the peer's WAKEUP is there.
    agreed: Option<Terms>,
    flow: Flow,
    combiner: Combiner,
    exchange: Exchange,
    /// The program has closed its sending half before the peer's WAKEUP came.
    shut_early: bool,
    /// The program reads no more: what comes is dropped.
    deaf: bool,
    /// The program has gone.
    forsaken: bool,
    wakeup_due: bool,
    ack_due: bool,
    finack_due: bool,
    sent: u64,
    received: u64,
}

impl Session {
    /// An end that has not begun to connect. The configuration is a valid one.
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

    /// Its state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    fn step(&mut self, event: Event) -> Result<(), IllegalTransition> {
        self.state = self.state.after(event)?;
        Ok(())
    }

    /// A VI connection is being made.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless the stream is new.
    pub fn connecting(&mut self) -> Result<(), IllegalTransition> {
        self.step(Event::Connect)
    }

    /// The VIs are connected, and all receives are posted.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless a connection was being made.
    pub fn connected(&mut self) -> Result<(), IllegalTransition> {
        self.step(Event::Connected)?;
        self.wakeup_due = true;
        Ok(())
    }

    /// What the two ends have agreed on, once they have.
    pub fn agreed(&self) -> Option<Terms> {
        self.agreed
    }

    /// What becomes of `bytes` (at least one) that the program offers; `way` in place of the
    /// configured [`Transfer`], where the caller has reasons; `stays`: its call ends no earlier than these bytes are written, or
    /// cannot be any more.
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
        // A lent buffer is whole and goes whole; what waits goes before it.
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
        // Leave acknowledges the message before, so the window is open when it is there.
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

    /// Whether [`Session::write`] of one byte would take it now.
    pub fn is_writable(&self) -> bool {
        let terms = self.agreed.filter(|_| self.state.may_write() && !self.shut_early);
        let Some(terms) = terms else { return false };
        let joins = self.combiner.is_on() && !self.combiner.is_due();
        let room = self.combiner.waiting() < terms.chunk;
        let granted = !terms.handshake.asks() || self.exchange.is_granted();
        if joins { room } else { self.flow.can_send() && granted && self.combiner.waiting() == 0 }
    }

    /// The program wants to receive, up to so many bytes: what waits to be combined goes.
    #[inline]
    pub fn reading(&mut self, room: u32) {
        self.combiner.flush();
        if self.configuration.handshake.asks() {
            self.exchange.reading(room.min(self.configuration.chunk));
        }
    }

    /// The program has had the oldest packet that was kept; its receive is posted again.
    #[inline]
    pub fn consumed(&mut self) {
        self.ack_due |= self.flow.consumed();
    }

    /// The program sends no more. What it has written goes first.
    pub fn shutdown(&mut self) {
        if self.state == State::Opening {
            self.shut_early = true;
        } else if self.step(Event::Shutdown).is_ok() {
            self.combiner.flush();
        }
    }

    /// The program reads no more: what comes is dropped, and acknowledged. What is kept is the
    /// caller's to count as consumed.
    pub fn shutdown_reading(&mut self) {
        self.deaf = true;
        self.exchange.reading(self.configuration.chunk);
    }

    /// The program has closed the stream and gone: once FIN is out, what the peer still sends is not
    /// acknowledged any more, so that the end can come.
    pub fn forsake(&mut self) {
        self.forsaken = true;
    }

    /// The program gives the connection up.
    pub fn abort(&mut self) {
        let _ = self.step(Event::Abort);
    }

    /// The VI has lost its connection, or the peer has broken the protocol.
    pub fn lost(&mut self) {
        let _ = self.step(Event::Lost);
    }

    /// No VI connection came about.
    pub fn refused(&mut self) {
        let _ = self.step(Event::Refused);
    }

    /// What is to be posted next, if anything is. It counts as sent.
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
        // A peer that has sent FIN has no use for room.
        let heard = match self.state {
            State::FinWait1 | State::FinWait2 => !self.forsaken,
            state => state.hears_data(),
        };
        if self.ack_due && !terms.handshake.asks() && heard {
            self.ack_due = false;
            return Some(self.control(Kind::Ack, Body::Empty));
        }
        if terms.handshake.asks() {
            // Leave is for a buffer that nothing is in.
            if heard
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

    /// What waits to be combined goes as soon as the window lets it.
    pub fn flush(&mut self) {
        self.combiner.flush();
    }

    /// Switches combining on or off, as TCP_NODELAY does; off sends what waits.
    pub fn set_combining(&mut self, on: bool) {
        let below = self.configuration.combine.unwrap_or(Combine::PAPERS).below;
        self.combiner.switch(on.then_some(below));
    }

    /// Whether small messages are combined.
    pub fn is_combining(&self) -> bool {
        self.combiner.is_on()
    }

    /// The chunk for which a timer is to run, if one is.
    #[inline]
    pub fn batch(&self) -> Option<u32> {
        self.combiner.batch()
    }

    /// The timer has run out that was set for this chunk.
    pub fn timer(&mut self, batch: u32) {
        if self.batch() == Some(batch) {
            self.combiner.flush();
        }
    }

    /// Bytes in the combining buffer.
    pub fn waiting(&self) -> u32 {
        self.combiner.waiting()
    }

    /// Bytes that have gone out in packets so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that have come in packets so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Data packets sent and not acknowledged.
    pub fn unacknowledged(&self) -> u16 {
        self.flow.unacked()
    }
}
