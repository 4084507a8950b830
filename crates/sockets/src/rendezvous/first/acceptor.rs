//! Steps that an acceptor takes in a first rendezvous.

use super::{Closed, RETRY_NS, RendezvousStage, RendezvousTable};
use crate::conn::Role;
use crate::message::{Link, Message, MessageKind};
use crate::rendezvous::attach::{Attached, attach_as_acceptor, find_request, find_request_of};
use crate::rendezvous::offer::{Refusal, show, take_offer};
use crate::rendezvous::proof::{Proof, receive, rendezvous_name};
use crate::rendezvous::{DATAGRAMS, junk};
use crate::{pair, table};
use sovia_control::{Junk, Reason};
use sovia_sys::clock;
use sovia_sys::datagram::{Datagram, Received};

/// Sends Stay to the connector's rendezvous name, if the name exists: this end stays on TCP.
pub(in crate::rendezvous) fn send_stay(link: Link) {
    if let Ok(socket) = Datagram::bind(None)
        && let Some(name) = rendezvous_name(&link)
    {
        let stay = Message::new(MessageKind::Stay, pair::me(), link);
        let _ = socket.send_to(&name, &stay.encode(), &[]);
    }
}

impl RendezvousTable {
    #[inline(never)]
    pub(super) fn step_acceptor(&mut self, fd: i32, i: u32) -> Attached {
        let at = self.list[i].at;
        self.receive_offers();
        // An offer that was refused may have ended this rendezvous.
        let Some(i) = self.find(at) else { return Attached::No };
        self.receive_introductions(i);
        let Some(i) = self.find(at) else { return Attached::No };
        let rendezvous = &self.list[i];
        let introduced = rendezvous.introduced.as_ref().and_then(|introduced| introduced.peer);
        let request = match introduced {
            Some((process, uid)) => find_request_of(process, uid, &rendezvous.link),
            None if rendezvous.is_in_other_namespace => None,
            None => find_request(&rendezvous.link),
        };
        if let Some((pair, request)) = request {
            if !table::is_socket_of(fd, at.conn) {
                return Attached::No;
            }
            let attached = attach_as_acceptor(fd, at, &pair, request);
            if attached != Attached::No {
                self.remove(i);
            }
            return attached;
        }
        if self.list[i].introduced.is_none() && !self.list[i].is_in_other_namespace {
            self.greet(i);
        }
        Attached::No
    }

    /// Sends Hello to the connector's rendezvous name at the first step, and again every [`RETRY_NS`].
    #[inline(never)]
    fn greet(&mut self, i: u32) {
        let rendezvous = &mut self.list[i];
        let RendezvousStage::Looking { greeted } = rendezvous.stage else { return };
        if !greeted || clock::now_ns() - rendezvous.since >= RETRY_NS {
            if self.inbox.is_none() {
                self.inbox = Datagram::bind(None).ok();
            }
            let hello = Message::new(MessageKind::Hello, pair::me(), rendezvous.link);
            if let (Some(inbox), Some(name)) = (&self.inbox, rendezvous_name(&rendezvous.link))
                && inbox.send_to(&name, &hello.encode(), &[]).is_ok()
            {
                if rendezvous.is_refused() {
                    self.give_up(i, Reason::PeerPlain);
                    return;
                }
                rendezvous.stage = RendezvousStage::Looking { greeted: true };
                rendezvous.since = clock::now_ns();
                rendezvous.note_message();
            }
        }
    }

    /// Handles the messages in the inbox, for all acceptors' connections of this process.
    #[inline(never)]
    pub(super) fn receive_offers(&mut self) {
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = self.inbox.as_ref().and_then(receive) else { return };
            // If a process has connected to itself, it has a rendezvous for each end. Choose the acceptor's,
            // because only acceptors use the inbox.
            let of = self.list.position(|rendezvous| {
                rendezvous.role == Role::Acceptor && rendezvous.link.same_connection(&message.link)
            });
            if let Some(i) = of {
                self.list[i].note_message();
            }
            if let Err(refusal) = self.answer_offer(of, &message, received)
                && let Some(i) = of
            {
                // The refusal may end rendezvous `i`, so read no further message in this step.
                self.refuse(i, refusal);
                return;
            }
        }
    }

    /// Answers a message from the inbox. `of` is the index of the message's rendezvous; `None` if this process has
    /// closed the connection meanwhile.
    fn answer_offer(
        &mut self,
        of: Option<u32>,
        message: &Message,
        received: Received,
    ) -> Result<(), Refusal> {
        let Some(inbox) = &self.inbox else { return Ok(()) };
        let greeted = || self.greeted.iter().find(|link| link.same_connection(&message.link));
        let (link, proof) = match of {
            Some(i) => (self.list[i].link, Proof::Kernel),
            None => match greeted() {
                Some(link) => (*link, Proof::Greeted),
                None => {
                    junk(Junk::Stale);
                    return Ok(());
                }
            },
        };
        match message.kind {
            MessageKind::Ask => {
                if show(inbox, &link, proof, &mut self.trials, message, &received)? {
                    match of {
                        Some(i) => self.tries(i, message.from),
                        None => {
                            let (process, since) = (message.from, clock::now_ns());
                            self.go_on_after_close(Closed {
                                process,
                                name: None,
                                offered: None,
                                since,
                            });
                        }
                    }
                }
                Ok(())
            }
            MessageKind::Offer => {
                take_offer(inbox, &link, proof, &mut self.trials, message, received)?;
                self.over_after_close(message.from);
                Ok(())
            }
            _ => {
                junk(Junk::Stale);
                Ok(())
            }
        }
    }
}
