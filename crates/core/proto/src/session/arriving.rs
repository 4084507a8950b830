//! Handling of packets that have arrived.

use super::{Arrival, Leave, Request, Session, Target, exchange};
use crate::Violation;
use crate::configuration::Handshake;
use crate::flow::Flow;
use crate::packet::{Immediate, Kind, Written};
use crate::state::{Event, State};
use crate::wakeup::Terms;

impl Session {
    /// Records that a packet of `len` bytes has arrived. `body` holds the packet's bytes, unless they are data for
    /// the program.
    ///
    /// # Errors
    /// [`Violation`] if the peer broke the protocol. The caller must then reset the connection.
    pub fn arrived(
        &mut self,
        immediate: Option<u32>,
        len: u32,
        body: &[u8],
    ) -> Result<Arrival, Violation> {
        let bits = immediate.ok_or(Violation("a packet without immediate data"))?;
        let rdma = self.configuration.handshake == Handshake::Rdma;
        let written = Written::decode(bits).filter(|_| rdma);
        let packet = match written {
            Some(Written { acks, .. }) => Immediate { kind: Kind::Data, acks },
            None => Immediate::decode(bits)?,
        };
        if self.state.is_over() {
            // The packet was on its way when the connection ended.
            return Ok(Arrival::Nothing);
        }
        match (packet.kind, self.state) {
            (Kind::Wakeup, State::Opening) => return self.woken(packet, body),
            (_, State::Opening | State::Connecting) => {
                return Err(Violation("a packet before WAKEUP"));
            }
            (Kind::Wakeup, _) => return Err(Violation("a second WAKEUP")),
            _ => {}
        }
        self.flow.arrived(packet)?;
        match packet.kind {
            Kind::Data if rdma && written.is_none() => {
                return Err(Violation("data written outside the permitted memory"));
            }
            Kind::Data => return self.data(written.map_or(len, |written| written.len)),
            Kind::Ack if rdma => self.exchange.granted(Leave::decode(body)?)?,
            Kind::Ack if self.configuration.handshake.asks() => {
                let (bytes, to) = (exchange::number(body)?, Target::default());
                self.exchange.granted(Leave { bytes, to })?;
            }
            Kind::Req if self.configuration.handshake.asks() => {
                self.exchange.requested(Request::decode(body)?)?;
                if self.deaf {
                    self.exchange.reading(self.configuration.chunk);
                }
            }
            Kind::Ack | Kind::Fin | Kind::FinAck if len > 0 => {
                return Err(Violation("an unexpected body"));
            }
            Kind::Ack => {}
            Kind::Fin => {
                self.step(Event::Fin).map_err(|_| Violation("a second FIN"))?;
                self.finack_due = true;
            }
            Kind::FinAck => {
                self.step(Event::FinAck).map_err(|_| Violation("FINACK without a FIN"))?;
            }
            Kind::ToTcp | Kind::Wakeup | Kind::Req => {
                return Err(Violation("a packet of another configuration"));
            }
        }
        Ok(Arrival::Nothing)
    }

    fn woken(&mut self, packet: Immediate, body: &[u8]) -> Result<Arrival, Violation> {
        if packet.acks != 0 {
            return Err(Violation("acknowledges more than was sent"));
        }
        let agreed = Terms::of(&self.configuration).agree(Terms::decode(body)?)?;
        self.step(Event::Wakeup).map_err(|_| Violation("a second WAKEUP"))?;
        self.agreed = Some(agreed);
        self.flow = Flow::new(agreed.flow);
        self.combiner.limit(agreed.chunk);
        if core::mem::take(&mut self.shut_early) {
            self.shutdown();
        }
        Ok(Arrival::Nothing)
    }

    fn data(&mut self, len: u32) -> Result<Arrival, Violation> {
        if !self.state.receives_data() {
            return Err(Violation("data after FIN"));
        }
        if len == 0 || len > self.configuration.chunk {
            return Err(Violation("a data packet of impossible length"));
        }
        if self.configuration.handshake.asks() {
            self.exchange.delivered(len)?;
        }
        self.received += u64::from(len);
        if self.deaf {
            self.consumed();
            return Ok(Arrival::Nothing);
        }
        Ok(match self.configuration.handshake {
            Handshake::Rdma => Arrival::Written(len),
            _ => Arrival::Data,
        })
    }
}
