//! Handles timers, and fixes the order of all work.

use super::{Engine, Io};
use crate::array::Status;
use core::cmp::Reverse;
use sovia_link::Time;

impl<A: Copy + PartialEq> Engine<A> {
    /// Takes posts, handles expired timers, and sends. Acknowledgements without other frames wait for
    /// [`Engine::acknowledge`].
    pub fn poll(&mut self, io: &mut Io<'_, A>) {
        self.take_posts(io);
        while let Some(&Reverse((time, at))) = self.timers.peek()
            && time <= io.now
        {
            self.timers.pop();
            let active = self.active(at);
            if active.armed == Some(time) {
                active.armed = None;
            }
            self.due(io, at);
            self.settle(at);
        }
        self.send_ready(io);
    }

    /// Returns the time of the next timer.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.peek().map(|&Reverse((time, _))| time)
    }

    /// Returns true if data waits because the sink had no room.
    pub fn waits_for_room(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the earliest time at which a peer needs work.
    pub(super) fn deadline(&self, at: u16) -> Option<Time> {
        let active = &self.actives[usize::from(at)];
        let silent = (active.asking.is_none() && !active.incoming.is_empty())
            .then(|| active.heard.after(self.config.silence));
        [
            active.asking.map(|asking| asking.again),
            silent,
            active.times_out(&self.config.timing),
            active.next_park,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn due(&mut self, io: &mut Io<'_, A>, at: u16) {
        if self.active(at).peer == crate::ANY_NODE {
            return;
        }
        let timing = self.config.timing;
        let is_over = |tries: u32| timing.tries.is_some_and(|most| tries > most);
        let silence = self.config.silence;
        let active = self.active(at);
        let node = active.peer;
        if let Some(asking) = &mut active.asking {
            if asking.again <= io.now {
                asking.tries += 1;
                asking.again = io.now.after(timing.pause(asking.tries));
                if is_over(asking.tries) {
                    return self.give_up(io, at, Status::PeerDead);
                }
                self.say_hello(io, at);
            }
        } else if !active.incoming.is_empty() && active.heard.after(silence) <= io.now {
            self.ask(io, node);
        }
        let chance = self.chance();
        let active = self.active(at);
        if active.times_out(&timing).is_some_and(|time| time <= io.now) {
            active.time_out(chance);
            let tries = active.tries;
            self.counters.timeouts += 1;
            if is_over(tries) {
                return self.give_up(io, at, Status::PeerDead);
            }
            self.ready(at);
        }
        if self.active(at).next_park.is_some_and(|time| time <= io.now) {
            self.unpark_due(io.now, at);
        }
    }
}
