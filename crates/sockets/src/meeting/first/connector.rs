//! Steps that a connector takes in a first rendezvous.

use super::{ANSWERED_BY, Meetings, RETRY_NS, Stage, WITHDRAWN_MOST};
use crate::conn::{Phase, Role};
use crate::meeting::attach::{Attached, attach};
use crate::meeting::offer::{
    Answer, NEEDED, Refusal, answer, name_of, receive_accept, send_offer, settle, take_accept,
};
use crate::meeting::proof::{may_be_on, receive, refused_user, rendezvous, speaker};
use crate::meeting::{DATAGRAMS, PATIENCE, give_up, why};
use crate::message::{Link, Message, MessageKind};
use crate::pair::{self, Progress};
use crate::table;
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sys::Errno;
use sovia_sys::clock;
use sovia_sys::datagram::Datagram;
use std::sync::Arc;

impl Meetings {
    // Not inlined, like the other step functions: inlined functions would together need much of the program's
    // stack.
    #[inline(never)]
    pub(super) fn step_connector(&mut self, fd: i32, i: u32) -> Attached {
        let mut attached = Attached::No;
        let meeting = &mut self.list[i];
        match &meeting.stage {
            Stage::Requested { pair: index, vi } => {
                let (index, vi) = (*index, *vi);
                let Some(pair) = pair::get(index) else { return attached };
                match pair.progress(vi) {
                    Progress::Accepted => {
                        if !pair.has_doorbells() {
                            receive_accept(index);
                        }
                        if pair.has_doorbells() {
                            attached = attach(fd, meeting.at, index, vi);
                        }
                        if attached != Attached::No {
                            self.remove(i);
                        } else if meeting.at.conn.phase() == Phase::Plain {
                            self.end(i);
                        }
                    }
                    Progress::Gone => {
                        let at = meeting.at;
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
                        let transfers = meeting.at.conn.transfers.load(Ordering::Relaxed);
                        // An acceptor that sends much in few calls checks rarely. So each withdrawal doubles the
                        // limits for transfers and time.
                        let times = 1 << meeting.withdrawn;
                        if transfers.wrapping_sub(meeting.asked_at) >= times * ANSWERED_BY
                            && clock::now_ns() - meeting.since >= u64::from(times) * RETRY_NS
                            && pair.withdraw(vi)
                        {
                            meeting.withdrawn = (meeting.withdrawn + 1).min(WITHDRAWN_MOST);
                            let name = name_of(index, &meeting.link);
                            meeting.since = clock::now_ns();
                            let again =
                                name.map(|name| Stage::Bound { name, offered: Some(index) });
                            if again.is_none() {
                                meeting.part();
                            }
                            let other = || match meeting.is_far {
                                true => Some(Stage::Far),
                                false => bind(&meeting.link).ok(),
                            };
                            match again.or_else(other) {
                                Some(stage) => meeting.stage = stage,
                                None => {
                                    self.remove(i);
                                }
                            }
                            self.leave_unanswered();
                        }
                    }
                }
            }
            Stage::Bound { .. } => self.receive_at_name(i),
            Stage::Far | Stage::Looking { .. } => {}
        }
        attached
    }

    /// Answers the messages that have come to a connector's rendezvous name.
    #[inline(never)]
    fn receive_at_name(&mut self, i: u32) {
        let meeting = &mut self.list[i];
        let Stage::Bound { name, offered } = &meeting.stage else { return };
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = receive(name) else { break };
            if meeting.introduced.is_some()
                && let Some(uid) = refused_user(&meeting.link, Role::Connector, &received)
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
                meeting.note_message();
                continue;
            }
            let (link, proof) = (&meeting.link, meeting.proof());
            if message.kind == MessageKind::Stay {
                if speaker(link, Role::Connector, proof, &message, &received).is_none() {
                    continue;
                }
                // Do not give up yet, because any process of the same user could have sent this Stay. The process
                // that holds the other end may still answer.
                let transfers = meeting.at.conn.transfers.load(Ordering::Relaxed);
                meeting.until = meeting.until.min(transfers.saturating_add(PATIENCE));
                self.refuse(i, Refusal::Doubt(Reason::SharedByProcesses));
                return;
            }
            let answer = answer(name, link, proof, &mut self.trials, &message, &received);
            let (stage, shown) = match answer {
                Ok(Answer::Ignored) => {
                    // The message may come from a process of another user. Ask the kernel for the other end's user
                    // now, because the other end may be closed later.
                    if meeting.is_refused() {
                        self.give_up(i, Reason::PeerPlain);
                        return;
                    }
                    continue;
                }
                Ok(Answer::Asked) => {
                    meeting.note_message();
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
            meeting.note_message();
            let Stage::Requested { pair, .. } = stage else { break };
            let old = core::mem::replace(&mut meeting.stage, stage);
            meeting.since = clock::now_ns();
            meeting.asked_at = meeting.at.conn.transfers.load(Ordering::Relaxed);
            if let (Stage::Bound { name, .. }, Some(pair), Some(shown)) =
                (old, pair::get(pair), shown)
            {
                let offer = Message::new(MessageKind::Offer, pair::me(), meeting.link);
                send_offer(&pair, name, &Message { shown, ..offer }, &received);
            }
            self.leave_unanswered();
            break;
        }
    }
}

fn bind(link: &Link) -> Result<Stage, Errno> {
    let name = Datagram::bind(Some(&rendezvous(link).ok_or(Errno::EADDRINUSE)?))?;
    Ok(Stage::Bound { name: Arc::new(name), offered: None })
}

pub(super) fn request_or_bind(link: &Link) -> Result<Stage, Errno> {
    // Search only pairs on offer, because `known` has tried the complete pairs already.
    let may = |pair: &pair::Pair| may_be_on(pair, link, Role::Connector);
    match pair::request_at(link.acceptor, may, false, &link.encode()) {
        Some(pair::Requested { pair, vi }) => Ok(Stage::Requested { pair, vi }),
        None if !table::has_room_for(NEEDED) => Err(Errno::EMFILE),
        None => bind(link),
    }
}
