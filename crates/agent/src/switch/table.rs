//! Decides where frames go, and which frames a program may send. Reads no shared memory and makes no system call.

use super::claims::{Claims, TooMany};
use super::requests::{Request, Requests};
use sovia_link::wire::{Answer, EndId, Meeting, Passing, Word};
use sovia_port::Address;
use std::collections::HashMap;

/// State of all programs.
#[derive(Debug)]
pub(super) struct Table {
    /// The port's host address, as VIA defines it.
    host: Vec<u8>,
    /// Programs and their users.
    programs: HashMap<u16, u32>,
    claims: Claims,
    requests: Requests,
}

/// Error for a frame that the program may not send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Forged {
    /// The program's connection request that must be rejected, because the program waits for an answer.
    pub(super) request: Option<EndId>,
}

/// Destination of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// To this program.
    To(u16),
    /// Nowhere. The sender gets this answer if the frame is not corrupt.
    Answer(Word),
    /// Nowhere.
    Nowhere,
}

/// Returns true if the destination of a frame, or its permission, depends on where programs listen.
pub(super) fn depends_on_listeners(frame: &Passing) -> bool {
    let Passing::Meeting(meeting) = frame else { return false };
    matches!(meeting, Meeting::Request(_) | Meeting::Poke { .. } | Meeting::Poked { .. })
}

/// Returns the number of the program that may give an end this name.
fn owner(end: EndId) -> u16 {
    (end.0 >> 48) as u16
}

impl Table {
    pub(super) fn new(host: Vec<u8>) -> Table {
        let (programs, claims, requests) = Default::default();
        Table { host, programs, claims, requests }
    }

    /// Adds a program whose ends' names begin with this number. Returns false if the number is in use or reserved.
    pub(super) fn add(&mut self, program: u16, user: u32) -> bool {
        let is_free = program != owner(EndId::NONE) && !self.programs.contains_key(&program);
        if is_free {
            self.programs.insert(program, user);
        }
        is_free
    }

    /// Removes a program. Returns the messages for other stations.
    pub(super) fn remove(&mut self, program: u16) -> Vec<(Address, Word)> {
        self.programs.remove(&program);
        self.claims.forget(program);
        self.requests.forget(program)
    }

    /// Records that a program listens at a discriminator, or pauses.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(super) fn listen(&mut self, program: u16, at: &[u8], listens: bool) -> Result<(), TooMany> {
        match self.programs.get(&program) {
            Some(&user) => self.claims.listen((program, user), at, listens),
            None => Ok(()),
        }
    }

    /// Removes a program's claim to a discriminator.
    pub(super) fn leave(&mut self, program: u16, at: &[u8]) {
        self.claims.leave(program, at);
    }

    /// Checks that a program may send a frame.
    ///
    /// # Errors
    /// [`Forged`].
    pub(super) fn may_send(&self, program: u16, frame: &Passing) -> Result<(), Forged> {
        let is_own = |end| owner(end) == program;
        let user = self.programs.get(&program).copied();
        let may_name = |address: &via::NetAddress| {
            *address.host == *self.host
                && user.is_some_and(|user| {
                    self.claims.may_name((program, user), &address.discriminator)
                })
        };
        let mut rejected = None;
        let may = match frame {
            Passing::Ends { from, .. } => is_own(*from),
            // A program can know an end's name only from that end.
            Passing::Gone { .. } => true,
            Passing::Meeting(meeting) => match meeting {
                Meeting::Request(request) => {
                    // A request from the listener's own address to this address reaches only the listener, and
                    // misleads no other program.
                    let is_to_itself = !request.peer && request.local == request.remote;
                    rejected = is_own(request.id).then_some(request.id);
                    is_own(request.id) && (may_name(&request.local) || is_to_itself)
                }
                Meeting::Pending { .. } => true,
                Meeting::Answer { answer: Answer::Accepted { conn, .. }, .. } => is_own(*conn),
                Meeting::Answer { .. } => true,
                Meeting::Settled { request, .. } | Meeting::Cancel { request } => is_own(*request),
                Meeting::Poke { local, .. } => may_name(local),
                Meeting::Poked { remote, .. } => may_name(remote),
            },
        };
        if may { Ok(()) } else { Err(Forged { request: rejected }) }
    }

    /// Returns the destination of a frame from this address.
    pub(super) fn way(&mut self, from: Address, frame: &Passing) -> Way {
        let at_end = |end| {
            let program = owner(end);
            if self.programs.contains_key(&program) { Some(program) } else { None }
        };
        let or_nowhere = |program: Option<u16>| program.map_or(Way::Nowhere, Way::To);
        match frame {
            Passing::Ends { to, from, is_answered } => match at_end(*to) {
                Some(program) => Way::To(program),
                None if *is_answered => Way::Answer(Word::Gone { to: *from }),
                None => Way::Nowhere,
            },
            Passing::Gone { to } => or_nowhere(at_end(*to)),
            Passing::Meeting(meeting) => match meeting {
                Meeting::Request(request) => self.request(from, request),
                Meeting::Pending { request } => or_nowhere(at_end(*request)),
                Meeting::Answer { request, answer } => {
                    let Some(program) = at_end(*request) else {
                        let settled = Meeting::Settled { request: *request, connected: false };
                        return Way::Answer(Word::Meeting(settled));
                    };
                    if let Answer::Accepted { conn, .. } = answer {
                        self.requests.accepted(program, (from, *conn));
                    }
                    Way::To(program)
                }
                Meeting::Settled { request, connected } => {
                    or_nowhere(self.requests.settle((from, *request), *connected))
                }
                Meeting::Cancel { request } => {
                    or_nowhere(self.requests.settle((from, *request), false))
                }
                Meeting::Poke { local, remote } => match self.holder(remote) {
                    Some(program) => Way::To(program),
                    None => {
                        let (local, remote) = (local.clone(), remote.clone());
                        Way::Answer(Word::Meeting(Meeting::Poked { local, remote }))
                    }
                },
                Meeting::Poked { local, .. } => or_nowhere(self.holder(local)),
            },
        }
    }

    fn holder(&self, address: &via::NetAddress) -> Option<u16> {
        if *address.host != *self.host {
            return None;
        }
        self.claims.holder(&address.discriminator)
    }

    fn request(&mut self, from: Address, request: &sovia_link::wire::Request) -> Way {
        let key = (from, request.id);
        let refusal = Meeting::Answer { request: request.id, answer: Answer::NoMatch };
        match self.requests.find(key) {
            Some(Request::Of(program, _)) => return Way::To(program),
            Some(Request::Refused) => return Way::Answer(Word::Meeting(refusal)),
            None => {}
        }
        match self.holder(&request.remote) {
            Some(program) if self.requests.add(key, program) => Way::To(program),
            // The sender will repeat the request.
            Some(_) => Way::Nowhere,
            None => {
                self.requests.refuse(key);
                Way::Answer(Word::Meeting(refusal))
            }
        }
    }
}

#[cfg(test)]
mod tests;
