//! What happens next: timers and frames, to whatever part of the world they concern.

use crate::port::Event;
use crate::world::{Timer, World};
use sovia_link::wire::Packet;
use sovia_simnet::NodeId;

impl World {
    /// Lets the next thing happen; false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(event) = self.net.step() else { return false };
        match event {
            Event::Frame { from, to, frame } => {
                if let Ok(packet) = self.net.parse(&frame) {
                    self.packet(from, to, packet);
                }
            }
            Event::Timer(timer) => self.timer(timer),
            Event::Nothing => {}
        }
        true
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Doorbell(vi) => self.doorbell(vi),
            Timer::Retransmit(conn) => self.retransmit(conn),
            Timer::Request(request) => self.request_again(request),
            Timer::Answer(request) => self.answer_again(request),
            Timer::Poke(vi, attempt) => self.poke_again(vi, attempt),
            Timer::Expire(vi, attempt) => self.expire_attempt(vi, attempt),
        }
    }

    fn packet(&mut self, from: NodeId, at: NodeId, packet: Packet<&[u8]>) {
        match packet {
            Packet::Stream { to, from: peer, number, ack, item } => {
                self.stream_packet(at, from, to, peer, (number, ack, item));
            }
            Packet::Ack { to, from: peer, ack } => self.ack_packet(at, from, to, peer, ack),
            Packet::Datagram { to, from: peer, message, part } => {
                self.datagram(at, from, (to, peer), message, &part);
            }
            Packet::Gone { to } => self.peer_gone(to),
            Packet::Meeting(meeting) => self.meeting(at, from, meeting),
            // Those are channels'.
            Packet::Hello { .. } | Packet::Probe { .. } | Packet::Echo { .. } => self.net.refuse(),
        }
    }
}
