//! Steps that a connector takes in a first rendezvous.

use super::{ANSWERED_BY, RETRY_NS, RendezvousStage, RendezvousTable, WITHDRAWN_MOST};
use crate::conn::{Phase, Role};
use crate::message::{Link, MessageKind};
use crate::pair::{self, Progress};
use crate::rendezvous::attach::{Attached, attach};
use crate::rendezvous::offer::{
    Answer, NEEDED, Refusal, answer, name_of, receive_accept, send_offer, settle, take_accept,
};
use crate::rendezvous::proof::{Proof, may_be_on, receive, refused_user, rendezvous_name, sender};
use crate::rendezvous::{DATAGRAMS, PATIENCE, abandon, give_up, why};
use crate::table;
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sys::Errno;
use sovia_sys::clock;
use sovia_sys::datagram::Datagram;
use std::sync::Arc;

impl RendezvousTable {
    // Not inlined, like the other step functions: inlined functions would together need much of the program's
    // stack.
    #[inline(never)]
    pub(super) fn step_connector(&mut self, fd: i32, i: u32) -> Attached {
        let mut attached = Attached::No;
        let rendezvous = &mut self.list[i];
        match &rendezvous.stage {
            RendezvousStage::Requested { pair: index, vi } => {
                let (index, vi) = (*index, *vi);
                let Some(pair) = pair::get(index) else { return attached };
                match pair.progress(vi) {
                    Progress::Accepted => {
                        if !pair.has_doorbells() {
                            receive_accept(index);
                        }
                        if pair.has_doorbells() {
                            attached = attach(fd, rendezvous.at, index, vi);
                        }
                        if attached != Attached::No {
                            let peer = pair.peer;
                            self.remove(i);
                            self.over_after_close(peer);
                        } else if rendezvous.at.conn.phase() == Phase::Plain {
                            self.end(i);
                        }
                    }
                    Progress::Gone => {
                        let at = rendezvous.at;
                        pair.free(vi);
                        self.remove(i);
                        give_up(at, Reason::PeerPlain);
                        self.leave_unanswered();
                    }
                    Progress::Pending => {
                        if !pair.has_doorbells() {
                            // Read all messages that have come to the rendezvous name, so that junk does not fill
                            // its queue.
                            receive_accept(index);
                        }
                        // Another process may have accepted this connection, or the offer may have been lost. So
                        // withdraw the request, and wait for another Hello at the name. First give the acceptor
                        // enough transfers and time to answer the offer.
                        let transfers = rendezvous.at.conn.transfers.load(Ordering::Relaxed);
                        // An acceptor that sends much in few calls checks rarely. So each withdrawal doubles the
                        // limits for transfers and time.
                        let times = 1 << rendezvous.withdrawn;
                        if transfers.wrapping_sub(rendezvous.asked_at) >= times * ANSWERED_BY
                            && clock::now_ns() - rendezvous.since >= u64::from(times) * RETRY_NS
                            && pair.withdraw(vi)
                        {
                            rendezvous.withdrawn = (rendezvous.withdrawn + 1).min(WITHDRAWN_MOST);
                            let name = name_of(index, &rendezvous.link);
                            rendezvous.since = clock::now_ns();
                            let again = name
                                .map(|name| RendezvousStage::Bound { name, offered: Some(index) });
                            if again.is_none() {
                                rendezvous.part();
                            }
                            let other = || match rendezvous.is_in_other_namespace {
                                true => Some(RendezvousStage::AtAgent),
                                false => bind(&rendezvous.link).ok(),
                            };
                            match again.or_else(other) {
                                Some(stage) => rendezvous.stage = stage,
                                None => {
                                    self.remove(i);
                                }
                            }
                            self.leave_unanswered();
                        }
                    }
                }
            }
            RendezvousStage::Bound { .. } => self.receive_at_name(i),
            RendezvousStage::AtAgent | RendezvousStage::Looking { .. } => {}
        }
        attached
    }

    /// Answers the messages that have come to rendezvous names of closed connections.
    #[inline(never)]
    pub(super) fn receive_after_close(&mut self) {
        let mut over = Vec::new();
        for closed in &mut self.closed {
            let Some((name, link)) = &closed.name else { continue };
            for _ in 0..DATAGRAMS {
                let Some((message, received)) = receive(name) else { break };
                if message.kind == MessageKind::Accept
                    && let Some(pair) = closed.offered.and_then(pair::get)
                {
                    take_accept(&pair, &message, received);
                    settle(&pair);
                    over.push(closed.process);
                    break;
                }
                let trials = &mut self.trials;
                match answer(name, link, Proof::Kernel, trials, &message, &received) {
                    Ok(Answer::Offered(RendezvousStage::Requested { pair: index, vi }, shown)) => {
                        closed.offered = Some(index);
                        if let Some(pair) = pair::get(index) {
                            send_offer(&pair, name.clone(), link, shown, &received);
                        }
                        // The closed connection needs no VI.
                        abandon(index, vi);
                    }
                    Ok(Answer::Requested(RendezvousStage::Requested { pair, vi })) => {
                        abandon(pair, vi);
                        over.push(closed.process);
                    }
                    Ok(_) => {}
                    Err(_) => over.push(closed.process),
                }
            }
        }
        over.into_iter().for_each(|process| self.over_after_close(process));
    }

    /// Answers the messages that have come to a connector's rendezvous name.
    #[inline(never)]
    fn receive_at_name(&mut self, i: u32) {
        let rendezvous = &mut self.list[i];
        let RendezvousStage::Bound { name, offered } = &rendezvous.stage else { return };
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = receive(name) else { break };
            if rendezvous.introduced.is_some()
                && let Some(uid) = refused_user(&rendezvous.link, Role::Connector, &received)
            {
                self.give_up(i, why::other_user(uid));
                return;
            }
            if message.kind == MessageKind::Accept
                && let Some(pair) = offered.and_then(pair::get)
            {
                // The acceptor answers an offer whose request this process has withdrawn. The acceptor now has the
                // segment, so its next Hello leads to another request in the segment.
                take_accept(&pair, &message, received);
                settle(&pair);
                rendezvous.note_message();
                continue;
            }
            let (link, proof) = (&rendezvous.link, rendezvous.proof());
            if message.kind == MessageKind::Stay {
                if sender(link, Role::Connector, proof, &self.trials, &message, &received).is_none()
                {
                    continue;
                }
                // Do not give up yet, because any process of the same user could have sent this Stay. The process
                // that holds the other end may still answer.
                let transfers = rendezvous.at.conn.transfers.load(Ordering::Relaxed);
                rendezvous.until = rendezvous.until.min(transfers.saturating_add(PATIENCE));
                self.refuse(i, Refusal::Doubt(Reason::SharedByProcesses));
                return;
            }
            let answer = answer(name, link, proof, &mut self.trials, &message, &received);
            let (stage, shown) = match answer {
                Ok(Answer::Ignored) => {
                    // The message may come from a process of another user. Ask the kernel for the other end's user
                    // now, because the other end may be closed later.
                    if rendezvous.is_refused() {
                        self.give_up(i, Reason::PeerPlain);
                        return;
                    }
                    continue;
                }
                Ok(Answer::Asked) => {
                    rendezvous.note_message();
                    self.tries(i, message.from);
                    return;
                }
                Ok(Answer::Requested(stage)) => (stage, None),
                Ok(Answer::Offered(stage, shown)) => (stage, Some(shown)),
                Err(refusal) => {
                    self.refuse(i, refusal);
                    break;
                }
            };
            rendezvous.note_message();
            let RendezvousStage::Requested { pair, .. } = stage else { break };
            let old = core::mem::replace(&mut rendezvous.stage, stage);
            rendezvous.since = clock::now_ns();
            rendezvous.asked_at = rendezvous.at.conn.transfers.load(Ordering::Relaxed);
            if let (RendezvousStage::Bound { name, .. }, Some(pair), Some(shown)) =
                (old, pair::get(pair), shown)
            {
                send_offer(&pair, name, &rendezvous.link, shown, &received);
            }
            self.leave_unanswered();
            break;
        }
    }
}

fn bind(link: &Link) -> Result<RendezvousStage, Errno> {
    let name = Datagram::bind(Some(&rendezvous_name(link).ok_or(Errno::EADDRINUSE)?))?;
    Ok(RendezvousStage::Bound { name: Arc::new(name), offered: None })
}

pub(super) fn request_or_bind(link: &Link) -> Result<RendezvousStage, Errno> {
    // Search only pairs on offer, because `known` has tried the complete pairs already.
    let may = |pair: &pair::Pair| may_be_on(pair, link, Role::Connector);
    match pair::request_at(link.acceptor, may, false, &link.encode()) {
        Some(pair::Requested { pair, vi }) => Ok(RendezvousStage::Requested { pair, vi }),
        None if !table::has_room_for(NEEDED) => Err(Errno::EMFILE),
        None => bind(link),
    }
}
