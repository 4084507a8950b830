//! The receiver's view: the one shared segment, or its own segment of two.

use crate::paths::precautions::Precautions;
use crate::paths::world::{Seq, Shared, World};
use sovia_proto::path::reflected::Words;

impl World {
    /// Returns the words that the receiver sees.
    pub(crate) fn seen(&self) -> &Shared {
        self.other_host.as_ref().map_or(&self.shared, |other_host| &other_host.words)
    }

    /// Returns the words that the receiver writes.
    pub(crate) fn seen_mut(&mut self) -> &mut Shared {
        self.other_host.as_mut().map_or(&mut self.shared, |other_host| &mut other_host.words)
    }

    /// Takes the next item off the VI.
    pub(crate) fn take_item(&mut self) -> Option<u8> {
        let item = self.seen_mut().vi.pop();
        if let (Some(other_host), Some(_)) = (&mut self.other_host, item) {
            other_host.consumed += 1;
        }
        item
    }

    /// Returns true if everything is here that the sender had published before its end.
    pub(crate) fn gone(&self, g: &Precautions) -> bool {
        match &self.other_host {
            Some(other_host) if g.await_gone => other_host.gone,
            _ => self.tcp_end,
        }
    }

    /// Returns the receiver's knowledge of the sender's words.
    pub(crate) fn known(&self, g: &Precautions) -> Words {
        let seen = self.seen();
        Words {
            switch: seen.switch,
            from: seen.from,
            taken_back: seen.taken_back,
            verdict: self
                .other_host
                .as_ref()
                .map_or(seen.returned, |other_host| other_host.verdict),
            drained: seen.drained,
            gone: self.gone(g),
        }
    }

    /// Returns the unread items of the VI, as the receiver sees them.
    pub(crate) fn unread(&self) -> Seq {
        self.seen().vi
    }
}
