//! One direction of a stream as a model: the possible events, and the properties that must hold.

use crate::paths::carrier::{self, Nics, OtherHost};
use crate::paths::precautions::Precautions;
use crate::paths::world::{FallbackAt, Limits, Mode, SenderAt, World};
use crate::paths::{ALL, END, ORDER, is_finished, receiver, sender};
use sovia_proto::path::{CANCELLED, Grant, REFUSED, Returned, Rx};
use stateright::{Model, Property};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    Sender(sender::Act),
    Receiver(receiver::Act),
    Carrier(carrier::Act),
}

/// One direction of a stream.
#[derive(Clone)]
pub(crate) struct Direction {
    pub(crate) limits: Limits,
    pub(crate) precautions: Precautions,
    /// The ends are on two hosts.
    pub(crate) between_hosts: Option<Nics>,
    /// Returns true for states in which a loss of bytes is allowed.
    pub(crate) excused: fn(&World) -> bool,
}

impl Direction {
    fn acts(&self, w: &World, mut add: impl FnMut(Act, bool)) {
        sender::acts(w, &self.limits, &self.precautions, |act, by_itself| {
            add(Act::Sender(act), by_itself);
        });
        receiver::acts(w, &self.limits, &self.precautions, |act, by_itself| {
            add(Act::Receiver(act), by_itself);
        });
        carrier::acts(w, &self.precautions, |act| add(Act::Carrier(act), true));
    }

    /// Returns true if nothing more happens by itself.
    fn is_quiet(&self, w: &World) -> bool {
        let mut quiet = true;
        self.acts(w, |_, by_itself| quiet &= !by_itself);
        quiet
    }
}

impl Model for Direction {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World { other_host: self.between_hosts.map(|_| OtherHost::new()), ..World::new() }]
    }

    fn actions(&self, w: &World, actions: &mut Vec<Act>) {
        self.acts(w, |act, _| actions.push(act));
    }

    fn next_state(&self, w: &World, act: Act) -> Option<World> {
        let mut w = *w;
        match act {
            Act::Sender(act) => sender::step(&mut w, act, &self.precautions),
            Act::Receiver(act) => receiver::step(&mut w, act, &self.precautions),
            Act::Carrier(act) => carrier::step(&mut w, act, &self.precautions),
        }
        if self.between_hosts == Some(Nics::Prompt) {
            carrier::send_all(&mut w, &self.precautions);
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ORDER, |_, w: &World| !w.wrong),
            Property::always(END, |model: &Direction, w: &World| {
                !w.r.end || w.r.read == w.s.next || (model.excused)(w)
            }),
            Property::always(ALL, |model: &Direction, w: &World| {
                !model.is_quiet(w) || is_finished(&model.limits, w) || (model.excused)(w)
            }),
            // The model reaches the states that it is about.
            Property::sometimes("bytes come over the VI, and the end with them", |_, w: &World| {
                w.r.end && w.r.read > 0 && w.s.own.len() == w.r.read && w.s.fin
            }),
            Property::sometimes("a sender takes its bytes back", |_, w: &World| {
                w.s.mode == Mode::Plain && w.s.tcp_sent == 0 && w.r.read > 0 && w.r.rx != Rx::Back
            }),
            Property::sometimes("returned bytes are pumped and read", |_, w: &World| {
                let returned = Returned::from_word(w.shared.returned);
                let some = matches!(returned, Returned::Bytes(1..));
                some && w.shared.drained && w.r.mode == Mode::Plain && w.r.end
            }),
            Property::sometimes("a refused receiver goes on reading the VI", |_, w: &World| {
                let refused = w.shared.returned == REFUSED && w.s.mode == Mode::Plain;
                let revoked = w.shared.grant == Grant::Revoked as u64;
                refused && revoked && w.r.mode == Mode::Library && w.r.end
            }),
            Property::sometimes("a sender pumps that has retreated by itself", |_, w: &World| {
                w.s.mode == Mode::FallingBack && w.s.at == SenderAt::Drained
            }),
        ];
        if self.between_hosts.is_some() {
            properties.extend(crossings());
        }
        properties
    }
}

/// Properties between hosts only: words of the two ends that cross each other on their way.
fn crossings() -> Vec<Property<Direction>> {
    vec![
        Property::sometimes("a recall and a switch", |_, w: &World| {
            let unknown = w.shared.switch != 0 && w.seen().switch == 0;
            unknown && w.r.fallback == FallbackAt::AwaitSwitch
        }),
        Property::sometimes("a claim and a cancellation", |_, w: &World| {
            let claimed = w.other_host.is_some_and(|other_host| other_host.claimed);
            claimed && w.shared.switch == CANCELLED && w.seen().switch == CANCELLED && w.r.end
        }),
        Property::sometimes("a return and a refusal", |_, w: &World| {
            let returned = Returned::from_word(w.seen().returned);
            let refused = w.other_host.is_some_and(|other_host| other_host.verdict == REFUSED);
            refused && matches!(returned, Returned::Bytes(1..)) && w.r.end
        }),
        Property::sometimes("a switch and the end of TCP", |_, w: &World| {
            let unknown = w.shared.switch != 0 && w.seen().switch == 0;
            unknown && w.tcp_end && w.tcp.is_empty() && w.r.rx == Rx::Granted
        }),
    ]
}
