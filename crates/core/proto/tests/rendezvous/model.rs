//! Possible events of a rendezvous, and the properties that must hold.

use crate::rendezvous::look::{Rendezvous, lies};
use crate::rendezvous::rules::Scene;
use crate::rendezvous::world::{
    A, A2, ACCEPTOR, At, CONNECTIONS, CONNECTOR, End, Message, Name, NameState, PROCESSES, Phase,
    ProcessState, SEGMENTS, World,
};
use crate::rendezvous::{DOORBELLS, LEAK, MEET, PROVEN, READ, SAME, SWITCH, VISIBLE};
use stateright::{Model, Property};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// An end transfers bytes, and begins to look.
    Look(usize, usize),
    /// A process takes the next step of its current look.
    Go(usize),
    /// An end looks after a time in which nothing has arrived.
    Wait(usize, usize),
    Close(usize, usize),
    GiveUp(usize, usize),
    Die(usize),
    Fork,
    /// A process of another user binds the name of a connection. `Leave` releases the name.
    Squat(usize),
    Leave(usize),
    /// An attacker sends a message to a name. `ToInbox` sends to an inbox.
    ToName(usize, Message),
    ToInbox(usize, Message),
}

impl Rendezvous {
    pub(crate) fn may_fork(&self, w: &World) -> bool {
        w.process_states[A2] == ProcessState::Unborn
            && w.process_states[A] == ProcessState::Alive
            && w.at[A] == At::Outside
    }

    fn ends(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..CONNECTIONS).flat_map(|conn| [(conn, CONNECTOR), (conn, ACCEPTOR)])
    }

    /// Returns the state after an event.
    pub(crate) fn after(&self, w: &World, act: Act) -> World {
        let mut w = *w;
        match act {
            Act::Look(conn, CONNECTOR) => self.look_as_connector(&mut w, conn),
            Act::Look(conn, _) => self.look_as_acceptor(&mut w, conn),
            Act::Go(process) => {
                let at = core::mem::replace(&mut w.at[process], At::Outside);
                match at {
                    At::Outside => {}
                    At::Offer { conn, segment, to } => self.offer(&mut w, conn, segment, to),
                    At::Withdraw { conn } => self.go_other_way(&mut w, conn),
                    At::Find { conn } => self.find(&mut w, conn),
                    At::Found { conn, segment, vi, fresh } => {
                        self.take(&mut w, conn, segment, vi, fresh);
                    }
                }
            }
            Act::Wait(conn, CONNECTOR) => {
                self.settle(&mut w, conn);
                self.try_other_way(&mut w, conn);
            }
            Act::Wait(conn, role) => {
                if let End::Looking { greeted } = &mut w.ends[conn][role] {
                    *greeted &= !self.rules.greet_again;
                }
            }
            Act::Close(conn, role) => self.end(&mut w, conn, role, End::Closed),
            Act::GiveUp(conn, role) => self.end(&mut w, conn, role, End::Plain),
            Act::Die(process) => {
                self.die(&mut w, process);
                if w.process_states[A2] == ProcessState::Unborn && process == A {
                    self.die(&mut w, A2);
                }
            }
            Act::Fork => {
                w.process_states[A2] = ProcessState::Alive;
                w.pairs[A2] = w.pairs[A];
                for pair in w.pairs[A2].iter_mut().flatten() {
                    pair.inherited = true;
                }
            }
            Act::Squat(conn) => {
                w.attacks -= 1;
                w.names[conn].state = NameState::OtherUser;
            }
            Act::Leave(conn) => w.names[conn] = Name::FREE,
            Act::ToName(conn, message) => {
                w.attacks -= 1;
                w.names[conn].queue.push(message, self.limits.room);
            }
            Act::ToInbox(process, message) => {
                w.attacks -= 1;
                w.inbox[process].push(message, self.limits.room);
            }
        }
        w
    }

    /// Adds the attackers' events. Attackers are interested only in the first connection.
    fn attacks(&self, w: &World, actions: &mut Vec<Act>) {
        let state = w.names[0].state;
        if state == NameState::OtherUser {
            actions.push(Act::Leave(0));
        }
        if w.attacks == 0 {
            return;
        }
        if state == NameState::None {
            actions.push(Act::Squat(0));
        }
        for role in [CONNECTOR, ACCEPTOR] {
            let process = self.process(0, role);
            lies(0, self.process(0, 1 - role), |message| {
                if w.process_states[process] == ProcessState::Alive {
                    actions.push(Act::ToInbox(process, message));
                }
                let bound = matches!(state, NameState::Rendezvous | NameState::Greeting(_));
                if role == CONNECTOR && bound {
                    actions.push(Act::ToName(0, message));
                }
            });
        }
    }
}

impl Model for Rendezvous {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let born =
            if self.scene == Scene::Forked { ProcessState::Unborn } else { ProcessState::Alive };
        vec![World {
            process_states: [ProcessState::Alive, ProcessState::Alive, born],
            at: [At::Outside; PROCESSES],
            inbox: Default::default(),
            pairs: [[None; SEGMENTS]; PROCESSES],
            segments: [None; SEGMENTS],
            names: [Name::FREE; CONNECTIONS],
            ends: [[End::New; 2]; CONNECTIONS],
            attacks: self.limits.attacks,
            breach: None,
        }]
    }

    fn actions(&self, w: &World, actions: &mut Vec<Act>) {
        for (conn, role) in self.ends() {
            let process = self.process(conn, role);
            let end = w.ends[conn][role];
            if w.process_states[process] != ProcessState::Alive || w.at[process] != At::Outside {
                continue;
            }
            match end {
                End::Plain | End::Closed => {}
                End::Attached(..) | End::Early(..) => {
                    if matches!(end, End::Early(..)) {
                        actions.push(Act::Wait(conn, role));
                    }
                    if self.limits.closes {
                        actions.push(Act::Close(conn, role));
                    }
                }
                _ => {
                    actions.push(Act::Look(conn, role));
                    actions.push(Act::Wait(conn, role));
                    if self.limits.closes {
                        actions.push(Act::Close(conn, role));
                    }
                    if self.limits.impatience {
                        actions.push(Act::GiveUp(conn, role));
                    }
                }
            }
        }
        for process in 0..PROCESSES {
            if w.process_states[process] == ProcessState::Alive {
                if w.at[process] != At::Outside {
                    actions.push(Act::Go(process));
                }
                let has_ends = self.ends().any(|(conn, role)| self.process(conn, role) == process);
                if self.limits.deaths && has_ends {
                    actions.push(Act::Die(process));
                }
            }
        }
        if self.may_fork(w) {
            actions.push(Act::Fork);
        }
        self.attacks(w, actions);
    }

    fn next_state(&self, w: &World, act: Act) -> Option<World> {
        Some(self.after(w, act))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAME, |m: &Rendezvous, w: &World| m.same(w)),
            Property::always(PROVEN, |_, w: &World| w.breach.is_none()),
            Property::always(DOORBELLS, |m: &Rendezvous, w: &World| {
                m.attached(w).all(|(p, _, s, _)| w.pairs[p][s].is_some_and(|pair| pair.doorbells))
            }),
            Property::always(SWITCH, |m: &Rendezvous, w: &World| {
                m.attached(w).all(|(p, conn, s, v)| {
                    let other = w.segment(s).side(p) ^ 1;
                    w.segment(s).vis[v].granted[other].is_none_or(|theirs| theirs == conn)
                })
            }),
            Property::always(READ, |m: &Rendezvous, w: &World| m.grants_are_read(w)),
            Property::always(VISIBLE, |_, w: &World| {
                let vis = w.segments.iter().flatten().flat_map(|s| s.vis);
                vis.into_iter().all(|vi| vi.phase != Phase::Requested || vi.pending)
            }),
            Property::always(LEAK, |m: &Rendezvous, w: &World| m.leaks_nothing(w)),
            Property::always(MEET, |m: &Rendezvous, w: &World| m.settles(w)),
            // The model reaches the states that it is about.
            Property::sometimes("both connections are on VIs", |_, w: &World| {
                w.ends.iter().all(|[one, other]| one.vi().is_some() && one.vi() == other.vi())
            }),
        ]
    }
}

impl Rendezvous {
    /// Returns the attached ends: process, connection, segment and VI.
    fn attached(&self, w: &World) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        self.ends().filter_map(|(conn, role)| {
            let (s, v) = w.ends[conn][role].vi()?;
            Some((self.process(conn, role), conn, s, v))
        })
    }

    fn same(&self, w: &World) -> bool {
        let undisturbed = self.attached(w).all(|(p, conn, s, v)| {
            let side = w.segment(s).side(p);
            w.segment(s).vis[v].granted[side] == Some(conn)
        });
        let apart = w.ends.iter().any(|[one, other]| {
            one.vi().is_some() && other.vi().is_some() && one.vi() != other.vi()
        });
        let mixed = w.segments.iter().flatten().flat_map(|s| s.vis).any(|vi| match vi.granted {
            [Some(one), Some(other)] => one != other,
            _ => false,
        });
        undisturbed && !apart && !mixed
    }

    /// Returns true if no acceptor is on a VI that its connector granted before it went back to TCP.
    fn grants_are_read(&self, w: &World) -> bool {
        (0..CONNECTIONS).all(|conn| match w.ends[conn] {
            [End::Plain, End::Attached(s, v)] => {
                let side = w.segment(s).side(self.process(conn, CONNECTOR));
                w.segment(s).vis[v].granted[side] != Some(conn)
            }
            _ => true,
        })
    }

    /// Returns true if every VI that is in use has an end that will leave it.
    fn leaks_nothing(&self, w: &World) -> bool {
        (0..SEGMENTS).filter(|&s| w.segments[s].is_some()).all(|s| {
            let segment = w.segment(s);
            let acceptors = [A, A2].into_iter().filter(|_| segment.maker != A);
            if w.process_states[segment.maker] == ProcessState::Dead
                || acceptors.chain([segment.peer]).any(|p| w.process_states.get(p) == Some(&ProcessState::Dead))
            {
                // The kernel frees the segment with its processes.
                return true;
            }
            segment.vis.iter().enumerate().all(|(v, vi)| {
                (0..2).all(|side| {
                    let used = self.ends().any(|(conn, role)| {
                        matches!(w.ends[conn][role],
                            End::Attached(t, u) | End::Early(t, u) | End::Requested(t, u) if (t, u) == (s, v))
                            && segment.side(self.process(conn, role)) == side
                    });
                    vi.is_free() || vi.left[side] || used || vi.phase == Phase::Requested
                })
            })
        })
    }
}
