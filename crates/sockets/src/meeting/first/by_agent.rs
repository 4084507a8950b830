//! First rendezvous of two processes that the agent introduces to each other.

use super::{Meeting, Meetings, RETRY_NS, Stage};
use crate::conn::Role;
use crate::meeting::DATAGRAMS;
use crate::meeting::agent::Search;
use crate::meeting::junk;
use crate::meeting::offer::take_offer;
use crate::meeting::proof::{Proof, receive, refused_user, speaker, trusts_some};
use crate::meeting::why;
use crate::message::{Message, MessageKind, Process};
use crate::pair;
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
    /// [`Stage::Bound`].
    pub(super) socket: Option<Datagram>,
    /// Process with the other end and its user, once that process has sent a message. Always `None` if this end is
    /// the connector.
    pub(super) peer: Option<(Process, u32)>,
}

impl Meeting {
    /// Returns the kind of proof that identifies the process with the other end.
    pub(super) fn proof(&self) -> Proof {
        if self.introduced.is_some() { Proof::Agent } else { Proof::Kernel }
    }

    fn wants_agent(&self) -> bool {
        let transfers = self.at.conn.transfers.load(Ordering::Relaxed);
        let is_open =
            matches!(self.stage, Stage::Far | Stage::Bound { .. } | Stage::Looking { .. });
        is_open
            && self.introduced.is_none()
            && (self.is_far || transfers.wrapping_sub(self.asked_at) >= ASKED_AFTER)
            && trusts_some(&self.link, self.role)
    }
}

impl Meetings {
    /// Queries the agent for the other end, or takes the result of an earlier query.
    #[inline(never)]
    pub(super) fn step_by_agent(&mut self, i: u32) {
        let meeting = &mut self.list[i];
        meeting.greet_introduced();
        if !meeting.wants_agent() {
            return;
        }
        if let Some(search) = meeting.search {
            if let Some(socket) = self.agent.found(search) {
                meeting.search = None;
                meeting.meet_at(socket);
            } else if !self.agent.seeks(search) {
                // The query is lost, because the agent has ended. A later step sends another query.
                meeting.search = None;
            }
            return;
        }
        match self.agent.seek(&meeting.link, meeting.role) {
            Search::Begun(search) => meeting.search = Some(search),
            Search::NoAgent if meeting.is_far => self.give_up(i, Reason::NoAgent),
            Search::NoAgent | Search::Later => {}
        }
    }

    /// Answers messages on the socket that the agent supplied, as the acceptor.
    #[inline(never)]
    pub(super) fn receive_introductions(&mut self, i: u32) {
        for _ in 0..DATAGRAMS {
            let meeting = &mut self.list[i];
            let Some(Introduced { socket: Some(socket), peer }) = &mut meeting.introduced else {
                return;
            };
            let Some((message, received)) = receive(socket) else { return };
            let link = &meeting.link;
            if let Some(uid) = refused_user(link, meeting.role, &received) {
                self.give_up(i, why::other_user(uid));
                return;
            }
            let speaker = speaker(link, meeting.role, Proof::Agent, &message, &received);
            let Some(speaker) = speaker else { continue };
            meeting
                .at
                .conn
                .approach
                .note_message(meeting.at.conn.transfers.load(Ordering::Relaxed));
            *peer = Some((message.from, speaker.uid));
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

impl Meeting {
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
                self.stage = Stage::Bound { name: Arc::new(socket), offered: None };
                None
            }
            Role::Acceptor => {
                self.stage = Stage::Looking { greeted: true };
                Some(socket)
            }
        };
        self.introduced = Some(Introduced { socket, peer: None });
    }

    /// Sends Hello again on the agent's socket if the other end has not answered for [`RETRY_NS`].
    fn greet_introduced(&mut self) {
        let Some(introduced) = &self.introduced else { return };
        let socket = match &self.stage {
            Stage::Bound { name, .. } => Some(&**name),
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
                if matches!(self.stage, Stage::Bound { .. }) {
                    self.stage = Stage::Far;
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
