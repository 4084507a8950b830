//! Checks which transfers of the station have ended: receives, sends, long messages and probes.

use super::{Far, News, Sent};
use crate::emp::bulk::error_of;
use crate::emp::room::Held;
use crate::emp::session::Place;
use crate::emp::{BULK_RECEIVES, BULK_SENDS, PROBE};
use crate::error::Error;
use crate::wire::{BYE, HELLO, KIND};
use emp_eth::{Node, Outcome, Status};

impl Far {
    /// Handles ended receives and sends, as long as the oldest one has ended. Usually transfers end in the order of
    /// their posts.
    pub(super) fn look_at_first(&mut self) {
        while let Some((handle, _)) = self.receives.front()
            && let Ok(Some(outcome)) = self.station.outcome(*handle)
        {
            self.received(0, outcome);
        }
        while let Some(sent) = self.sends.front()
            && let Ok(Some(outcome)) = self.station.outcome(sent.handle)
            && let Some(sent) = self.sends.pop_front()
        {
            if outcome.status != Status::Done {
                // Events that came before this failure must be reported first.
                self.look_at_receives();
            }
            self.sent(sent, outcome);
        }
    }

    pub(super) fn look_at_receives(&mut self) {
        let mut at = 0;
        while at < self.receives.len() && self.station.ended() != self.found {
            let Ok(outcome) = self.station.outcome(self.receives[at].0) else { return };
            match outcome {
                Some(outcome) => self.received(at, outcome),
                None => at += 1,
            }
        }
    }

    /// Handles an ended receive.
    fn received(&mut self, at: usize, outcome: Outcome) {
        self.found = self.found.wrapping_add(1);
        let Some((_, room)) = self.receives.remove(at) else { return };
        if outcome.status != Status::Done {
            self.receive_into(room);
            self.news.push_back(News::Lost(outcome.node, error_of(outcome.status)));
            return;
        }
        match Held::new(&self.rooms, room, outcome.length as usize) {
            Ok(held) => self.came(outcome.node, held),
            Err(room) => {
                self.receive_into(room);
                self.news.push_back(News::Lost(outcome.node, Error::CORRUPT));
            }
        }
    }

    /// Handles a message from a node.
    fn came(&mut self, node: Node, held: Held) {
        let (mark, head) = (held.mark(), held.head());
        let kind = head.kind & KIND;
        if kind == HELLO {
            // The NIC has already ended all transfers with an earlier process at this address. Report their ends first.
            self.look_at_sends();
            self.look_at_bulks();
            self.look_at_probes();
        }
        let peer = self.peer(node);
        if kind == BYE && head.data != 0 {
            if peer.session.may_end(mark) {
                peer.has_left = true;
                self.news.push_back(News::Message(node, held));
            } else {
                self.give_back(held);
            }
            return;
        }
        match peer.session.place(mark, kind == HELLO) {
            Place::Now => {
                // Another process may have begun at this address.
                peer.has_left = kind == BYE;
                peer.greetings += u32::from(kind == HELLO);
                self.news.push_back(News::Message(node, held));
                while let Some(kept) = self.peers[usize::from(node)].session.next() {
                    self.peers[usize::from(node)].has_left |= kept.head.kind & KIND == BYE;
                    self.news.push_back(News::Kept(node, kept));
                }
            }
            Place::Early => {
                peer.session.keep(mark, held.copy());
                self.give_back(held);
            }
            Place::Nowhere => {
                self.give_back(held);
                self.news.push_back(News::Lost(node, Error::CORRUPT));
            }
        }
    }

    pub(super) fn look_at_sends(&mut self) {
        let mut at = 0;
        while at < self.sends.len() {
            let Ok(outcome) = self.station.outcome(self.sends[at].handle) else { return };
            match outcome.and_then(|outcome| Some((self.sends.remove(at)?, outcome))) {
                Some((sent, outcome)) => self.sent(sent, outcome),
                None => at += 1,
            }
        }
    }

    /// Handles an ended send.
    fn sent(&mut self, Sent { node, room, .. }: Sent, outcome: Outcome) {
        self.found = self.found.wrapping_add(1);
        self.spare.push(room);
        let peer = &mut self.peers[usize::from(node)];
        peer.under_way -= 1;
        if outcome.status != Status::Done {
            // The failed message may have been the BYE to the peer. Then this end repeats BYE when it next hears from
            // the peer.
            peer.is_left = false;
            self.news.push_back(News::Lost(node, error_of(outcome.status)));
        }
    }

    /// Handles ended parts of long messages, and posts more parts with the freed descriptors. The oldest long message
    /// comes first.
    pub(super) fn look_at_bulks(&mut self) {
        let mut at = 0;
        while let Some(&id) = self.bulk_ids.get(at) {
            at += 1;
            let Some(bulk) = self.bulks.get_mut(id) else { continue };
            let found = bulk.look(&self.station);
            self.found = self.found.wrapping_add(found.ended);
            self.used[usize::from(bulk.sends)] -= found.descriptors;
            let (most, before) =
                (if bulk.sends { BULK_SENDS } else { BULK_RECEIVES }, bulk.posted());
            let used = &mut self.used[usize::from(bulk.sends)];
            *used += bulk.post(&self.station, most - *used);
            let posted = bulk.posted();
            if posted > before && !bulk.sends {
                let news = News::Posted(bulk.node, bulk.operation, bulk.tag, posted);
                self.news.push_back(news);
            }
            if let Some(result) = bulk.result() {
                self.news.push_back(News::Ended(bulk.operation, result));
                self.bulks.remove(id);
                at -= 1;
                self.bulk_ids.remove(at);
            }
        }
    }

    pub(super) fn look_at_probes(&mut self) {
        for at in 0..self.probed.len() {
            if let Ok(Some(_)) = self.station.outcome(self.probed[at]) {
                self.found = self.found.wrapping_add(1);
                // SAFETY: the receive has no pieces, so the NIC accesses no memory.
                if let Ok(handle) = unsafe { self.station.post_receive(None, Some(PROBE), &[]) } {
                    self.probed[at] = handle;
                }
            }
        }
        for (node, peer) in self.peers.iter_mut().enumerate() {
            let Some(handle) = peer.probe else { continue };
            if let Ok(Some(outcome)) = self.station.outcome(handle) {
                self.found = self.found.wrapping_add(1);
                peer.probe = None;
                if outcome.status != Status::Done {
                    let error = error_of(outcome.status);
                    self.news.push_back(News::Lost(node as Node, error));
                }
            }
        }
    }
}
