//! Steps that an acceptor takes in a first rendezvous.

use super::{RETRY_NS, RendezvousStage, RendezvousTable};
use crate::conn::Role;
use crate::message::{Link, Message, MessageKind, Process};
use crate::rendezvous::attach::{Attached, attach_as_acceptor, find_request, find_request_of};
use crate::rendezvous::offer::{Refusal, show, take_offer};
use crate::rendezvous::proof::{Proof, receive, rendezvous_name};
use crate::rendezvous::{DATAGRAMS, junk};
use crate::{pair, table};
use sovia_control::{Junk, Reason};
use sovia_sys::clock;
use sovia_sys::datagram::Datagram;

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
    fn receive_offers(&mut self) {
        // Use a vector on the heap, because threads of the program may have little stack.
        let mut on_trial = Vec::new();
        let refused = self.take_from_inbox(&mut on_trial);
        on_trial.into_iter().for_each(|(i, process)| self.tries(i, process));
        if let Some((i, refusal)) = refused {
            self.refuse(i, refusal);
        }
    }

    /// Answers messages from the inbox until one leads to a refusal. Returns this refusal with the index of its
    /// rendezvous. Adds each process that is now on trial, with the index of its rendezvous, to `on_trial`.
    fn take_from_inbox(&mut self, on_trial: &mut Vec<(u32, Process)>) -> Option<(u32, Refusal)> {
        let inbox = self.inbox.as_ref()?;
        for _ in 0..DATAGRAMS {
            let (message, received) = receive(inbox)?;
            // If a process has connected to itself, it has a rendezvous for each end. Choose the acceptor's,
            // because only acceptors use the inbox.
            let known = self.list.position(|rendezvous| {
                rendezvous.role == Role::Acceptor && rendezvous.link.same_connection(&message.link)
            });
            let Some(i) = known else {
                junk(Junk::Stale);
                continue;
            };
            self.list[i].note_message();
            let link = &self.list[i].link;
            let trials = &mut self.trials;
            let answered = match message.kind {
                MessageKind::Ask => {
                    show(inbox, link, trials, &message, &received).map(|is_on_trial| {
                        if is_on_trial {
                            on_trial.push((i, message.from));
                        }
                    })
                }
                MessageKind::Offer => {
                    take_offer(inbox, link, Proof::Kernel, trials, &message, received)
                }
                _ => {
                    junk(Junk::Stale);
                    Ok(())
                }
            };
            if let Err(refusal) = answered {
                return Some((i, refusal));
            }
        }
        None
    }
}
