//! Messages about connections that wait for room in the channel.

use crate::wire::{Id, Message};
use std::collections::{HashSet, VecDeque};

/// Messages to one remote NIC, in order. An offer that is withdrawn while it waits is never sent. So the queue grows
/// only with connections that the remote NIC knows or must learn of.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    messages: VecDeque<Message<'static>>,
    /// Connections whose offer is in `messages`.
    offered: HashSet<Id>,
    /// Connections whose offer in `messages` has been withdrawn.
    void: HashSet<Id>,
}

impl Unsaid {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Appends a message.
    pub(super) fn push(&mut self, message: Message<'static>) {
        match message {
            Message::Withdraw(id) if self.offered.remove(&id) => {
                self.void.insert(id);
                // Remove withdrawn offers before they outnumber the other messages.
                if self.void.len() > 64 && 2 * self.void.len() > self.messages.len() {
                    self.forget_void();
                }
                return;
            }
            Message::Offer(id, ..) => {
                self.offered.insert(id);
            }
            _ => {}
        }
        self.messages.push_back(message);
    }

    /// Removes and returns the next message.
    pub(super) fn pop(&mut self) -> Option<Message<'static>> {
        loop {
            let message = self.messages.pop_front()?;
            if let Message::Offer(id, ..) = message {
                self.offered.remove(&id);
                if self.void.remove(&id) {
                    continue;
                }
            }
            return Some(message);
        }
    }

    fn forget_void(&mut self) {
        let void = core::mem::take(&mut self.void);
        self.messages.retain(|message| match message {
            Message::Offer(id, ..) => !void.contains(id),
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;
    use sovia_proto::rendezvous::Link;

    fn offer(id: Id) -> Message<'static> {
        let address = "10.0.0.1:1".parse().unwrap();
        let link = Link { connector: address, acceptor: address, cookie: 0 };
        Message::Offer(id, link, true, Numbers::default())
    }

    #[test]
    fn messages_keep_their_order() {
        let mut unsaid = Unsaid::default();
        unsaid.push(offer(1));
        unsaid.push(Message::Broken(7));
        unsaid.push(Message::Withdraw(8));
        let said: Vec<_> = core::iter::from_fn(|| unsaid.pop()).collect();
        assert_eq!(said, [offer(1), Message::Broken(7), Message::Withdraw(8)]);
        assert!(unsaid.is_empty());
    }

    #[test]
    fn connection_that_has_come_and_gone_is_not_spoken_of() {
        let mut unsaid = Unsaid::default();
        unsaid.push(offer(1));
        unsaid.push(offer(2));
        unsaid.push(Message::Withdraw(1));
        assert_eq!(unsaid.pop(), Some(offer(2)));
        // The offer has been sent, so its withdrawal must be sent too.
        unsaid.push(Message::Withdraw(2));
        assert_eq!(unsaid.pop(), Some(Message::Withdraw(2)));
        assert_eq!(unsaid.pop(), None);
    }

    /// Models a stopped remote NIC while programs continue to connect.
    #[test]
    fn however_many_come_and_go_few_are_kept() {
        let mut unsaid = Unsaid::default();
        unsaid.push(offer(0));
        for id in 1..100_000 {
            unsaid.push(offer(id));
            unsaid.push(Message::Withdraw(id));
        }
        assert!(unsaid.messages.len() < 200, "{}", unsaid.messages.len());
        assert!(unsaid.void.len() + unsaid.offered.len() < 200);
        assert_eq!((unsaid.pop(), unsaid.pop()), (Some(offer(0)), None));
    }
}
