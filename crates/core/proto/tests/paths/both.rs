//! Both directions of a connection.
//!
//! Each end has a lock, which a thread holds in the middle of a call. A fallback covers both directions: the end
//! leaves its own direction and revokes the other. It takes the steps of both as they become possible. When the
//! other direction is back on TCP, it settles its debt.

use crate::paths::carrier::{self, OtherHost};
use crate::paths::precautions::Precautions;
use crate::paths::world::{Call, FallbackAt, Limits, Mode, ReaderAt, SenderAt, World};
use crate::paths::{ALL, BOTH, END, ORDER, is_excused, is_finished, receiver, sender};
use ahash::RandomState;
use sovia_proto::path::{Returned, Rx};
use stateright::{Model, Property};

/// The sender of direction `i` is at end `i`, its receiver at end `1 - i`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stream {
    directions: [World; 2],
    /// Set for an end whose fallback has not revoked yet.
    leaving: [bool; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    Send(usize, sender::Act),
    Receive(usize, receiver::Act),
    Carry(usize, carrier::Act),
    /// The end revokes the other direction, after it has left its own.
    Revoke(usize),
    /// The end's process is killed.
    Die(usize),
}

/// A connection, and the events that may happen in each of its directions.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) limits: [Limits; 2],
    pub(crate) precautions: Precautions,
    /// Either end may be killed.
    pub(crate) deaths: bool,
    /// The ends are on two hosts. Each direction has its own channels, which may be slower than the other's.
    pub(crate) between_hosts: bool,
}

impl Stream {
    /// Returns the same stream with its ends exchanged.
    fn mirrored(&self) -> Stream {
        let ([first, second], [left, right]) = (self.directions, self.leaving);
        Stream { directions: [second, first], leaving: [right, left] }
    }

    fn is_dead(&self, end: usize) -> bool {
        self.directions[1 - end].r.mode == Mode::Gone
    }

    fn sending_locked(&self, end: usize) -> bool {
        self.directions[end].s.at != SenderAt::Idle
    }

    fn receiving_locked(&self, end: usize) -> bool {
        let r = &self.directions[1 - end].r;
        r.at != ReaderAt::Idle || !r.fallback.is_between_steps()
    }

    /// Returns true while the other direction is not back on TCP.
    fn is_revoking(&self, end: usize) -> bool {
        self.leaving[end] || self.directions[1 - end].r.fallback != FallbackAt::Not
    }

    /// Returns true while the end's program is inside its fallback.
    fn is_falling_back(&self, end: usize) -> bool {
        self.is_revoking(end) || self.directions[end].s.mode == Mode::FallingBack
    }
}

impl Connection {
    fn acts(&self, stream: &Stream, mut add: impl FnMut(Act, bool)) {
        for (i, w) in stream.directions.iter().enumerate() {
            carrier::acts(w, &self.precautions, |act| add(Act::Carry(i, act), true));
        }
        for end in [0, 1] {
            if stream.is_dead(end) {
                continue;
            }
            if self.deaths {
                add(Act::Die(end), false);
            }
            let busy = stream.is_falling_back(end);
            if !stream.receiving_locked(end) {
                let w = &stream.directions[end];
                sender::acts(w, &self.limits[end], &self.precautions, |act, by_itself| {
                    // The program is busy with its fallback, so only its progress thread can begin a call.
                    let may = match act {
                        sender::Act::Begin(Call::Serve) => !stream.leaving[end],
                        sender::Act::Begin(Call::Settle) => !stream.is_revoking(end),
                        sender::Act::Begin(_) => !busy,
                        // The thread may end once the other direction is back on TCP. Until then, the other
                        // direction's own acts let the thread end.
                        sender::Act::Abandon => !stream.is_revoking(end),
                        _ => true,
                    };
                    if may {
                        add(Act::Send(end, act), by_itself);
                    }
                });
            }
            if !stream.sending_locked(end) {
                if stream.leaving[end] {
                    add(Act::Revoke(end), true);
                    continue;
                }
                let from = 1 - end;
                let w = &stream.directions[from];
                receiver::acts(w, &self.limits[from], &self.precautions, |act, by_itself| {
                    // A fallback begins with the end's own sending direction.
                    if act != receiver::Act::Fallback || w.r.fallback == FallbackAt::Abandoned {
                        let reads = act == receiver::Act::Read;
                        add(Act::Receive(from, act), by_itself && !(reads && busy));
                    }
                });
            }
        }
    }
}

/// Returns a number by which one of two different directions comes first.
fn rank(w: &World) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(w)
}

impl Model for Connection {
    type State = Stream;
    type Action = Act;

    fn init_states(&self) -> Vec<Stream> {
        let other_host = self.between_hosts.then(OtherHost::new);
        vec![Stream { directions: [World { other_host, ..World::new() }; 2], leaving: [false; 2] }]
    }

    fn actions(&self, stream: &Stream, actions: &mut Vec<Act>) {
        self.acts(stream, |act, _| actions.push(act));
    }

    fn next_state(&self, stream: &Stream, act: Act) -> Option<Stream> {
        let mut stream = *stream;
        let g = &self.precautions;
        match act {
            Act::Send(end, act) => {
                if act == sender::Act::Begin(Call::Fallback) {
                    stream.leaving[end] = true;
                }
                sender::step(&mut stream.directions[end], act, g);
            }
            Act::Carry(i, act) => carrier::step(&mut stream.directions[i], act, g),
            Act::Receive(from, act) => receiver::step(&mut stream.directions[from], act, g),
            Act::Revoke(end) => {
                stream.leaving[end] = false;
                receiver::step(&mut stream.directions[1 - end], receiver::Act::Fallback, g);
            }
            Act::Die(end) => {
                sender::step(&mut stream.directions[end], sender::Act::Die, g);
                receiver::step(&mut stream.directions[1 - end], receiver::Act::Die, g);
            }
        }
        for w in stream.directions.iter_mut().filter(|w| w.other_host.is_some()) {
            carrier::send_all(w, g);
        }
        // If both ends have the same limits, each state has a mirror image. Only one of the two is visited.
        if self.limits[0] == self.limits[1] {
            let [first, second] = [0, 1].map(|i| (rank(&stream.directions[i]), stream.leaving[i]));
            if second < first {
                stream = stream.mirrored();
            }
        }
        Some(stream)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ORDER, |_, s: &Stream| s.directions.iter().all(|w| !w.wrong)),
            Property::always(END, |_, s: &Stream| {
                s.directions.iter().all(|w| !w.r.end || w.r.read == w.s.next || is_excused(w))
            }),
            Property::always(ALL, |model: &Connection, s: &Stream| {
                let mut quiet = true;
                model.acts(s, |_, by_itself| quiet &= !by_itself);
                !quiet
                    || [0, 1].iter().all(|&i| {
                        is_finished(&model.limits[i], &s.directions[i])
                            || is_excused(&s.directions[i])
                    })
            }),
            Property::sometimes(
                "both ends have retreated, and had used the VI",
                |_, s: &Stream| {
                    let gone =
                        |w: &World| w.r.rx == Rx::Back && w.r.read > 0 && !w.s.own.is_empty();
                    s.directions
                        .iter()
                        .all(|w| gone(w) && w.s.mode == Mode::Plain && w.r.mode == Mode::Plain)
                },
            ),
            // After an end has fallen back, its sender owes nothing. So here both ends fall back at the same time.
            Property::sometimes(BOTH, |_, s: &Stream| {
                s.directions.iter().all(|w| {
                    let returned = Returned::from_word(w.shared.returned);
                    let some = matches!(returned, Returned::Bytes(1..)) && w.shared.drained;
                    some && w.s.mode == Mode::Plain && w.r.mode == Mode::Plain
                })
            }),
        ]
    }
}
