//! What happens when nothing disturbs: the ends look in turn, and time passes when looking alone
//! brings nothing.

use crate::meeting::look::Meeting;
use crate::meeting::model::Act;
use crate::meeting::world::{At, CONNECTIONS, End, Holder, Life, Name, PROCESSES, World};

/// Looks after which everything should have been settled. A meeting takes ten or so.
const ROUNDS: usize = 100;

impl Meeting {
    /// Whether every connection that is still open at both ends, neither of which has given up,
    /// comes to its VI from here on if the ends only keep looking.
    pub(crate) fn settles(&self, w: &World) -> bool {
        let mut w = *w;
        for name in &mut w.names {
            if name.holder == Holder::Stranger {
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
                    if self.process(conn, role) == process && w.life[process] == Life::Alive {
                        self.finish(w, process);
                        *w = self.after(w, Act::Look(conn, role));
                        self.finish(w, process);
                    }
                }
            }
        }
    }

    /// A look that has begun comes to its end.
    fn finish(&self, w: &mut World, process: usize) {
        while w.at[process] != At::Outside {
            *w = self.after(w, Act::Go(process));
        }
    }

    fn wait(&self, w: &mut World) {
        for conn in 0..CONNECTIONS {
            for role in [0, 1] {
                let process = self.process(conn, role);
                if w.life[process] == Life::Alive {
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
