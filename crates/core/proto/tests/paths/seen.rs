//! The receiver's view: the one shared segment, or its own segment of two.

use crate::paths::precautions::Precautions;
use crate::paths::world::{Seq, Shared, World};
use sovia_proto::path::reflected::Words;

impl World {
    /// Returns the words that the receiver sees.
    pub(crate) fn seen(&self) -> &Shared {
        self.far.as_ref().map_or(&self.shared, |far| &far.words)
    }

    /// Returns the words that the receiver writes.
    pub(crate) fn seen_mut(&mut self) -> &mut Shared {
        self.far.as_mut().map_or(&mut self.shared, |far| &mut far.words)
    }

    /// Takes the next item off the VI.
    pub(crate) fn take_item(&mut self) -> Option<u8> {
        let item = self.seen_mut().vi.pop();
        if let (Some(far), Some(_)) = (&mut self.far, item) {
            far.consumed += 1;
        }
        item
    }

    /// Returns true if everything is here that the sender had published before its end.
    pub(crate) fn gone(&self, g: &Precautions) -> bool {
        match &self.far {
            Some(far) if g.await_gone => far.gone,
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
            verdict: self.far.as_ref().map_or(seen.returned, |far| far.verdict),
            drained: seen.drained,
            gone: self.gone(g),
        }
    }

    /// Returns the unread items of the VI, as the receiver sees them.
    pub(crate) fn unread(&self) -> Seq {
        self.seen().vi
    }
}
