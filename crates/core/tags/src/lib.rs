//! Tag matching: decides which receive takes which message.
//!
//! A receive takes messages from one source or from any source. It takes tags that equal its own tag in all bits that
//! it does not ignore. A message goes to the oldest receive that takes it. The matcher keeps a message that no receive
//! takes. A later receive takes the oldest message that fits. So messages of one source that fit one receive are
//! received in the order of their arrival.
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

/// The messages that a receive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// The only source; `None` for any source.
    pub source: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// Bits in which a message's tag may differ.
    pub ignore: u64,
}

/// The properties of a message that decide which receive takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The source of the message.
    pub source: u32,
    /// The tag of the message.
    pub tag: u64,
}

impl Pattern {
    /// Returns true if the receive takes a message.
    #[inline]
    pub fn takes(&self, label: Label) -> bool {
        (self.tag ^ label.tag) & !self.ignore == 0
            && self.source.is_none_or(|source| source == label.source)
    }
}

/// The result of posting a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted<R, M> {
    /// The receive waits for a message.
    Waits,
    /// The receive takes this message, which had waited.
    Matched(R, Label, M),
}

/// Receives that wait for messages, and messages that wait for receives. No waiting receive takes a waiting message.
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
    /// Returns an empty matcher.
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

    /// Posts a receive. The matcher must hold no [`messages`](Self::messages).
    #[inline(always)]
    pub fn wait(&mut self, pattern: Pattern, receive: R) {
        debug_assert_eq!(self.messages(), 0);
        self.receives.push((pattern, receive));
    }

    /// Removes and returns the receive that takes an arrived message. If the result is `None`, the caller must
    /// [`keep`](Self::keep) the message before any other call.
    #[inline]
    pub fn arrive(&mut self, label: Label) -> Option<R> {
        self.receives.take(|(pattern, _)| pattern.takes(label)).map(|(_, receive)| receive)
    }

    /// Like [`arrive`](Self::arrive), for receives that may take several messages. `part` returns the receive for this
    /// message, and true if it was the last one. If `part` returns `None`, the receive takes only one message and is
    /// removed.
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

    /// Returns the message that a receive with this pattern would take now.
    pub fn peek(&self, pattern: Pattern) -> Option<(Label, &M)> {
        let (label, message) = self.messages.find(|(label, _)| pattern.takes(*label))?;
        Some((*label, message))
    }

    /// Removes and returns the message that a receive with this pattern would take now.
    #[inline]
    pub fn claim(&mut self, pattern: Pattern) -> Option<(Label, M)> {
        self.messages.take(|(label, _)| pattern.takes(*label))
    }

    /// Removes and returns the oldest receive for which `which` returns true.
    pub fn cancel(&mut self, mut which: impl FnMut(&Pattern, &R) -> bool) -> Option<R> {
        self.receives.take(|(pattern, receive)| which(pattern, receive)).map(|(_, receive)| receive)
    }

    /// Removes and returns the oldest message for which `which` returns true.
    pub fn discard(&mut self, mut which: impl FnMut(Label, &M) -> bool) -> Option<(Label, M)> {
        self.messages.take(|(label, message)| which(*label, message))
    }

    /// Returns the number of waiting receives.
    pub fn receives(&self) -> usize {
        self.receives.len()
    }

    /// Returns the number of waiting messages.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }
}
