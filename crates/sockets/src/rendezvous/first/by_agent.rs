//! First rendezvous of two processes that the agent introduces to each other.

use super::{RETRY_NS, Rendezvous, RendezvousStage, RendezvousTable};
use crate::conn::Role;
use crate::message::{Message, MessageKind, Process};
use crate::pair;
use crate::rendezvous::DATAGRAMS;
use crate::rendezvous::agent::Search;
use crate::rendezvous::junk;
use crate::rendezvous::offer::take_offer;
use crate::rendezvous::proof::{Proof, receive, refused_user, sender, trusts_some};
use crate::rendezvous::why;
use core::sync::atomic::Ordering;
use sovia_control::{Junk, Reason};
use sovia_sys::datagram::Datagram;
use sovia_sys::{Errno, clock};
use std::sync::Arc;

/// Number of transfers after which an end queries the agent although its peer has an address of this network
/// namespace. If such a peer does not answer, this process or the peer may be in a sandbox.
const ASKED_AFTER: u32 = 16;

/// Result of a query to the agent.
pub(super) struct Introduced {
    /// Socket to the process with the other end, if this end is the acceptor. A connector keeps this socket in
    /// [`RendezvousStage::Bound`].
    pub(super) socket: Option<Datagram>,
    /// Process with the other end and its user, once that process has sent a message. Always `None` if this end is
    /// the connector.
    pub(super) peer: Option<(Process, u32)>,
}

impl Rendezvous {
    /// Returns the kind of proof that identifies the process with the other end.
    pub(super) fn proof(&self) -> Proof {
        if self.introduced.is_some() { Proof::Agent } else { Proof::Kernel }
    }

    fn wants_agent(&self) -> bool {
        let transfers = self.at.conn.transfers.load(Ordering::Relaxed);
        let is_open = matches!(
            self.stage,
            RendezvousStage::AtAgent
                | RendezvousStage::Bound { .. }
                | RendezvousStage::Looking { .. }
        );
        is_open
            && self.introduced.is_none()
            && (self.is_in_other_namespace || transfers.wrapping_sub(self.asked_at) >= ASKED_AFTER)
            && trusts_some(&self.link, self.role)
    }
}

impl RendezvousTable {
    /// Queries the agent for the other end, or takes the result of an earlier query.
    #[inline(never)]
    pub(super) fn step_by_agent(&mut self, i: u32) {
        let rendezvous = &mut self.list[i];
        rendezvous.greet_introduced();
        if !rendezvous.wants_agent() {
            return;
        }
        if let Some(search) = rendezvous.search {
            if let Some(socket) = self.agent.found(search) {
                rendezvous.search = None;
                rendezvous.meet_at(socket);
            } else if !self.agent.has_query(search) {
                // The query is lost, because the agent has ended. A later step sends another query.
                rendezvous.search = None;
            }
            return;
        }
        match self.agent.query(&rendezvous.link, rendezvous.role) {
            Search::Begun(search) => rendezvous.search = Some(search),
            Search::NoAgent if rendezvous.is_in_other_namespace => self.give_up(i, Reason::NoAgent),
            Search::NoAgent | Search::Later => {}
        }
    }

    /// Answers messages on the socket that the agent supplied, as the acceptor.
    #[inline(never)]
    pub(super) fn receive_introductions(&mut self, i: u32) {
        for _ in 0..DATAGRAMS {
            let rendezvous = &mut self.list[i];
            let Some(Introduced { socket: Some(socket), peer }) = &mut rendezvous.introduced else {
                return;
            };
            let Some((message, received)) = receive(socket) else { return };
            let link = &rendezvous.link;
            if let Some(uid) = refused_user(link, rendezvous.role, &received) {
                self.give_up(i, why::other_user(uid));
                return;
            }
            let sender =
                sender(link, rendezvous.role, Proof::Agent, &self.trials, &message, &received);
            let Some(sender) = sender else { continue };
            rendezvous
                .at
                .conn
                .approach
                .note_message(rendezvous.at.conn.transfers.load(Ordering::Relaxed));
            *peer = Some((message.from, sender.uid));
            match message.kind {
                MessageKind::Hello => {}
                MessageKind::Offer => {
                    let trials = &mut self.trials;
                    let taken = take_offer(socket, link, Proof::Agent, trials, &message, received);
                    if let Err(refusal) = taken {
                        self.refuse(i, refusal);
                        return;
                    }
                }
                _ => junk(Junk::Stale),
            }
        }
    }
}

impl Rendezvous {
    /// Continues the rendezvous with the process at the other end of `socket`.
    fn meet_at(&mut self, socket: Datagram) {
        let hello = Message::new(MessageKind::Hello, pair::me(), self.link).encode();
        if socket.send(&hello, &[]).is_err() {
            // The process at the other end of `socket` has ended. A later step queries the agent again.
            return;
        }
        self.note_message();
        self.since = clock::now_ns();
        let socket = match self.role {
            Role::Connector => {
                self.stage = RendezvousStage::Bound { name: Arc::new(socket), offered: None };
                None
            }
            Role::Acceptor => {
                self.stage = RendezvousStage::Looking { greeted: true };
                Some(socket)
            }
        };
        self.introduced = Some(Introduced { socket, peer: None });
    }

    /// Sends Hello again on the agent's socket if the other end has not answered for [`RETRY_NS`].
    fn greet_introduced(&mut self) {
        let Some(introduced) = &self.introduced else { return };
        let socket = match &self.stage {
            RendezvousStage::Bound { name, .. } => Some(&**name),
            _ => introduced.socket.as_ref(),
        };
        let now = clock::now_ns();
        let Some(socket) = socket.filter(|_| now - self.since >= RETRY_NS) else { return };
        let hello = Message::new(MessageKind::Hello, pair::me(), self.link).encode();
        self.since = now;
        match socket.send(&hello, &[]) {
            Ok(()) | Err(Errno::EAGAIN) => {}
            Err(_) => {
                self.part();
                if matches!(self.stage, RendezvousStage::Bound { .. }) {
                    self.stage = RendezvousStage::AtAgent;
                }
            }
        }
    }

    /// Forgets the process that the agent introduced, so that a later step queries the agent again. Called if the
    /// process has ended or if the offer was lost.
    pub(super) fn part(&mut self) {
        self.introduced = None;
    }
}
