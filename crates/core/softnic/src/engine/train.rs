//! Processes frames that arrive together. Most carry consecutive parts of one message.

use crate::medium::Medium;
use crate::world::World;
use sovia_link::wire::{EndId, Packet, Train};

impl<M: Medium> World<M> {
    /// Processes frames that the network has joined. Each frame has `segment` bytes, and the last may be shorter.
    /// Equivalent to [`World::frame`] for each.
    pub fn frames(&mut self, from: M::Node, at: M::Node, bytes: &[u8], segment: usize) {
        if bytes.is_empty() {
            return self.frame(from, at, bytes);
        }
        let mut frames = bytes.chunks(segment.max(1)).peekable();
        while let Some(frame) = frames.next() {
            let Ok(packet) = Packet::parse_for(frame, self.config.checksum) else {
                self.counters.malformed += 1;
                continue;
            };
            let ends = match packet {
                Packet::Stream { to, from, .. } => (to, from),
                _ => (EndId::NONE, EndId::NONE),
            };
            let train = frames.peek().and_then(|_| Train::begin(frame, &packet));
            self.packet(from, at, packet);
            if let Some(mut train) = train {
                self.follow(from, ends, &mut train, &mut frames);
            }
        }
    }

    /// Fast path: processes frames that continue the last frame's message in order and do not end it.
    fn follow<'a>(
        &mut self,
        from: M::Node,
        (id, peer): (EndId, EndId),
        train: &mut Train<'a>,
        frames: &mut core::iter::Peekable<core::slice::Chunks<'a, u8>>,
    ) {
        let now = self.net.now();
        let together = self.acknowledges_at();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.peer_node != from || conn.peer != peer || conn.stream.has_early() {
            return;
        }
        let Some(vi) = conn.vi.and_then(|vi| self.vis.get(&vi)) else { return };
        while let Some(&frame) = frames.peek()
            && conn.owed < together
            && let Some((sending, part)) = train.next(frame)
        {
            if part.is_last()
                || !conn.arriving.fits(&part)
                || conn.stream.came_next(sending, now).is_none()
            {
                return;
            }
            frames.next();
            conn.arriving.add(&part, vi);
            conn.owed += 1;
            if conn.owed == 1 {
                self.owing.push(id);
            }
        }
        if conn.owed >= together {
            self.pay(id);
        }
    }
}
