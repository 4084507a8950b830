//! Tag matching: which receive takes which message.
//!
//! A receive says from which source it takes messages, or from any, and which tags: those that equal its own in
//! every bit that it does not ignore. A message goes to the oldest receive that takes it. One that no receive takes is
//! kept, and a receive that is posted later takes the oldest of those. So two messages of one source, both of which
//! a receive takes, are received in the order in which they arrived.
//!
//! ```
//! use sovia_tags::{Label, Matcher, Pattern, Posted};
//!
//! let mut matcher = Matcher::new();
//! matcher.post(Pattern { source: None, tag: 0x10, ignore: 0x0f }, "a receive");
//! let label = Label { source: 3, tag: 0x17 };
//! assert_eq!(matcher.arrive(label), Some("a receive"));
//! assert_eq!(matcher.arrive(label), None);
//! matcher.keep(label, "a message");
//! let posted = matcher.post(Pattern { source: Some(3), tag: 0x17, ignore: 0 }, "another receive");
//! assert_eq!(posted, Posted::Matched("another receive", label, "a message"));
//! ```

#![forbid(unsafe_code)]

mod list;

use list::List;

/// What a receive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// The only source from which it takes messages; any, if `None`.
    pub source: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// Bits in which a message's tag may differ.
    pub ignore: u64,
}

/// What a message is matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Its source.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
}

impl Pattern {
    /// Whether a receive takes a message.
    #[inline]
    pub fn takes(&self, label: Label) -> bool {
        (self.tag ^ label.tag) & !self.ignore == 0
            && self.source.is_none_or(|source| source == label.source)
    }
}

/// What has become of a receive that was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted<R, M> {
    /// It waits for a message.
    Waits,
    /// It takes this message, which had been kept.
    Matched(R, Label, M),
}

/// Receives that wait for messages, and messages that wait for receives. No receive among them takes a message
/// among them.
#[derive(Debug)]
pub struct Matcher<R, M> {
    receives: List<(Pattern, R)>,
    messages: List<(Label, M)>,
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Matcher { receives: List::default(), messages: List::default() }
    }
}

impl<R, M> Matcher<R, M> {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Posts a receive.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: R) -> Posted<R, M> {
        match self.claim(pattern) {
            Some((label, message)) => Posted::Matched(receive, label, message),
            None => {
                self.receives.push((pattern, receive));
                Posted::Waits
            }
        }
    }

    /// Posts a receive while no [`messages`](Self::messages) are kept.
    #[inline(always)]
    pub fn wait(&mut self, pattern: Pattern, receive: R) {
        debug_assert_eq!(self.messages(), 0);
        self.receives.push((pattern, receive));
    }

    /// The receive that takes a message that has arrived. If there is none the caller is to [`keep`](Self::keep) the
    /// message before anything else is asked of the matcher.
    #[inline]
    pub fn arrive(&mut self, label: Label) -> Option<R> {
        self.receives.take(|(pattern, _)| pattern.takes(label)).map(|(_, receive)| receive)
    }

    /// As [`arrive`](Self::arrive), where a receive may take several messages: `part` makes the receive for this one
    /// of it, and says whether that was the last. `None`: it is for one message, and taken as it is.
    #[inline(always)]
    pub fn arrive_at(
        &mut self,
        label: Label,
        part: impl FnOnce(&mut R) -> Option<(R, bool)>,
    ) -> Option<R> {
        let (place, (_, receive)) = self.receives.find_mut(|(pattern, _)| pattern.takes(label))?;
        match part(receive) {
            Some((part, is_last)) => {
                if is_last {
                    self.receives.take_at(place);
                }
                Some(part)
            }
            None => self.receives.take_at(place).map(|(_, receive)| receive),
        }
    }

    /// Keeps a message that no receive has taken.
    pub fn keep(&mut self, label: Label, message: M) {
        debug_assert!(self.receives.find(|(pattern, _)| pattern.takes(label)).is_none());
        self.messages.push((label, message));
    }

    /// The message that a receive of this pattern would take, if it was posted now.
    pub fn peek(&self, pattern: Pattern) -> Option<(Label, &M)> {
        let (label, message) = self.messages.find(|(label, _)| pattern.takes(*label))?;
        Some((*label, message))
    }

    /// Takes that message, for a receive to come.
    #[inline]
    pub fn claim(&mut self, pattern: Pattern) -> Option<(Label, M)> {
        self.messages.take(|(label, _)| pattern.takes(*label))
    }

    /// Takes the oldest receive back of which `which` holds.
    pub fn cancel(&mut self, mut which: impl FnMut(&Pattern, &R) -> bool) -> Option<R> {
        self.receives.take(|(pattern, receive)| which(pattern, receive)).map(|(_, receive)| receive)
    }

    /// Takes the oldest message back of which `which` holds.
    pub fn discard(&mut self, mut which: impl FnMut(Label, &M) -> bool) -> Option<(Label, M)> {
        self.messages.take(|(label, message)| which(*label, message))
    }

    /// Receives that wait.
    pub fn receives(&self) -> usize {
        self.receives.len()
    }

    /// Messages that wait.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }
}
