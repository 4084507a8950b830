//! Frames: short messages without a tag, through buffers that the endpoint owns.

use super::queue::AT_ONCE;
use super::waiting::Waiting;
use super::{AGAIN, ANY, Buffer, Endpoint, Event};
use crate::arena::Lent;
use crate::leaving::enter;
use crate::operation::{Kind, Peer};
use core::ffi::c_void;

impl Endpoint {
    /// Sends a frame that `write` puts into a free buffer. `write` returns the frame's length, or `None` if there is
    /// nothing to send. Returns false, without a call of `write`, if no buffer is free or the process is ending.
    pub fn send(&mut self, to: Peer, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(_inside) = enter() else { return false };
        let Some(buffer) = self.free.pop() else { return false };
        // SAFETY: the buffer was free, and this call has taken it, so no other code uses it.
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

    /// Passes a frame to the provider. Returns false if the provider has no room.
    pub(super) fn try_send(&mut self, buffer: Buffer, len: usize, to: Peer) -> bool {
        // SAFETY: the endpoint is open and its function tables are complete. The buffer is not changed until the
        // operation is over.
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

    /// Takes back the buffer of a frame, for another receive.
    pub fn give_back(&mut self, frame: Lent) {
        self.unposted.push(frame.number);
        if self.unposted.len() >= AT_ONCE
            && let Some(_inside) = enter()
        {
            self.post_receives();
        }
    }

    /// Posts a receive for each free buffer, until the provider has no room.
    pub(super) fn post_receives(&mut self) {
        while let Some(number) = self.unposted.pop() {
            let operation = self.open.operations.begin(Kind::Receive(number));
            // SAFETY: the endpoint is open. The buffer is not lent, and stays allocated until the operation is over.
            let result = unsafe {
                let (ep, start) = (self.open.ep.raw(), self.open.awaited.buffer(number).cast());
                let (len, context) = (self.open.awaited.each, operation.as_ptr().cast());
                ((*(*ep).msg).recv)(ep, start, len, self.awaited_desc, ANY, context)
            };
            if result != 0 {
                // SAFETY: `begin` returned the operation, and libfabric has refused it.
                unsafe { self.open.operations.end(operation) };
                self.unposted.push(number);
                return;
            }
        }
    }
}
