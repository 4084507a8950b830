//! An undisturbed rendezvous: the ends look in turn. Time passes if a round of looks changes nothing.

use crate::rendezvous::look::Rendezvous;
use crate::rendezvous::model::Act;
use crate::rendezvous::world::{
    At, CONNECTIONS, End, Name, NameState, PROCESSES, ProcessState, World,
};

/// Number of rounds after which everything must be settled. A rendezvous takes about ten.
const ROUNDS: usize = 100;

impl Rendezvous {
    /// Returns true if every connection comes to its VI when the ends only keep looking. Connections with an end
    /// that is closed or has given up do not count.
    pub(crate) fn settles(&self, w: &World) -> bool {
        let mut w = *w;
        for name in &mut w.names {
            if name.state == NameState::OtherUser {
                *name = Name::FREE;
            }
        }
        for _ in 0..ROUNDS {
            let before = w;
            self.round(&mut w);
            if w == before {
                self.wait(&mut w);
                if w == before {
                    break;
                }
            }
            if self.has_settled(&w) {
                return true;
            }
        }
        self.has_settled(&w)
    }

    fn round(&self, w: &mut World) {
        if self.may_fork(w) {
            *w = self.after(w, Act::Fork);
        }
        for process in 0..PROCESSES {
            for conn in 0..CONNECTIONS {
                for role in [0, 1] {
                    if self.process(conn, role) == process
                        && w.process_states[process] == ProcessState::Alive
                    {
                        self.finish(w, process);
                        *w = self.after(w, Act::Look(conn, role));
                        self.finish(w, process);
                    }
                }
            }
        }
    }

    /// Completes a look that has begun.
    fn finish(&self, w: &mut World, process: usize) {
        while w.at[process] != At::Outside {
            *w = self.after(w, Act::Go(process));
        }
    }

    fn wait(&self, w: &mut World) {
        for conn in 0..CONNECTIONS {
            for role in [0, 1] {
                let process = self.process(conn, role);
                if w.process_states[process] == ProcessState::Alive {
                    *w = self.after(w, Act::Wait(conn, role));
                    self.finish(w, process);
                }
            }
        }
    }

    fn has_settled(&self, w: &World) -> bool {
        w.ends.iter().all(|ends| match ends {
            [End::Closed | End::Plain, _] | [_, End::Closed | End::Plain] => true,
            [one, other] => one.vi().is_some() && one.vi() == other.vi(),
        })
    }
}
