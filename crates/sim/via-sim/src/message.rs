//! Messages in parts, and back again.

use crate::packet::{Kind, Part};
use std::sync::Arc;

/// The parts of a message, none longer than `mtu` bytes. An empty message has one.
pub(crate) fn parts(
    kind: Kind,
    immediate: Option<u32>,
    message: Vec<u8>,
    mtu: usize,
) -> impl Iterator<Item = Part> {
    let message: Arc<[u8]> = message.into();
    let mtu = mtu.max(1);
    let count = message.len().div_ceil(mtu).max(1);
    (0..count).map(move |i| {
        let (start, end) = (i * mtu, ((i + 1) * mtu).min(message.len()));
        Part { kind, immediate, message: message.clone(), start, end }
    })
}

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) immediate: Option<u32>,
    pub(crate) bytes: Vec<u8>,
}

/// Puts parts together that come in order.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    bytes: Vec<u8>,
}

impl Assembly {
    /// The next part; the message, if it was the last one.
    pub(crate) fn add(&mut self, part: &Part) -> Option<Message> {
        self.bytes.extend_from_slice(part.bytes());
        part.is_last().then(|| {
            let bytes = core::mem::take(&mut self.bytes);
            Message { kind: part.kind, immediate: part.immediate, bytes }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_apart_comes_together(message: Vec<u8>, mtu in 1usize..50) {
            let mut assembly = Assembly::default();
            let all: Vec<_> = parts(Kind::Send, Some(7), message.clone(), mtu).collect();
            prop_assert!(all.iter().all(|part| part.bytes().len() <= mtu));
            let last = all.len() - 1;
            for (i, part) in all.iter().enumerate() {
                let whole = assembly.add(part);
                let expected = Message { kind: Kind::Send, immediate: Some(7), bytes: message.clone() };
                prop_assert_eq!(whole, (i == last).then_some(expected));
            }
        }
    }
}
