//! Frames: short messages without a tag, through buffers of the endpoint's own.

use super::queue::AT_ONCE;
use super::waiting::Waiting;
use super::{AGAIN, ANY, Buffer, Endpoint, Event};
use crate::arena::Lent;
use crate::leaving::enter;
use crate::operation::{Kind, Peer};
use core::ffi::c_void;

impl Endpoint {
    /// Sends the frame that `write` writes. `write` returns its length, or `None` if there is nothing to send. False if no buffer is
    /// free, or the process ends: nothing is written then.
    pub fn send(&mut self, to: Peer, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(_inside) = enter() else { return false };
        let Some(buffer) = self.free.pop() else { return false };
        // SAFETY: the buffer is free, so that nothing else uses it.
        let room = unsafe {
            let start = self.open.outgoing.buffer(buffer);
            core::slice::from_raw_parts_mut(start, self.open.outgoing.each)
        };
        let Some(len) = write(room).filter(|&len| len <= room.len()) else {
            self.free.push(buffer);
            return true;
        };
        if self.waiting.contains_key(&Some(to)) || !self.try_send(buffer, len, to) {
            self.wait(Some(to), Waiting::Frame(buffer, len, to));
        }
        true
    }

    /// Hands a frame to the provider; false if the provider has no room.
    pub(super) fn try_send(&mut self, buffer: Buffer, len: usize, to: Peer) -> bool {
        // SAFETY: the endpoint is open and its tables are complete; the buffer is not changed until the operation is over.
        unsafe {
            let (ep, start) =
                (self.open.ep.raw(), self.open.outgoing.buffer(buffer).cast::<c_void>());
            let ops = (*ep).msg;
            if len <= self.limits.inject {
                let result = ((*ops).inject)(ep, start, len, to.0);
                if result == AGAIN {
                    return false;
                }
                if result != 0 {
                    self.noted.push(Event::Failed(to, result as i32));
                }
                self.free.push(buffer);
                return true;
            }
            let operation = self.open.operations.begin(Kind::Send(buffer, to));
            let context = operation.as_ptr().cast();
            let result = ((*ops).send)(ep, start, len, self.outgoing_desc, to.0, context);
            if result != 0 {
                self.open.operations.end(operation);
                if result == AGAIN {
                    return false;
                }
                self.noted.push(Event::Failed(to, result as i32));
                self.free.push(buffer);
            }
            true
        }
    }

    /// Takes the buffer of a frame that has been read, for another receive.
    pub fn give_back(&mut self, frame: Lent) {
        self.unposted.push(frame.number);
        if self.unposted.len() >= AT_ONCE
            && let Some(_inside) = enter()
        {
            self.post_receives();
        }
    }

    /// Posts a receive in each buffer that has none, as far as the provider has room.
    pub(super) fn post_receives(&mut self) {
        while let Some(number) = self.unposted.pop() {
            let operation = self.open.operations.begin(Kind::Receive(number));
            // SAFETY: the buffer is not lent, and stays until the operation is over.
            let result = unsafe {
                let (ep, start) = (self.open.ep.raw(), self.open.awaited.buffer(number).cast());
                let (len, context) = (self.open.awaited.each, operation.as_ptr().cast());
                ((*(*ep).msg).recv)(ep, start, len, self.awaited_desc, ANY, context)
            };
            if result != 0 {
                // SAFETY: libfabric has not taken it.
                unsafe { self.open.operations.end(operation) };
                self.unposted.push(number);
                return;
            }
        }
    }
}
