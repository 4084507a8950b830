//! Atomics of a build for a fuzzer. A function that plays the peer is called before each look at one, and may
//! change it then. So the peer writes any word at the worst moment, also between two looks at the same word. A run
//! can be repeated, which it could not if the peer were another thread.

use core::cell::Cell;
use core::ops::Deref;
use core::sync::atomic::Ordering;

/// The function that plays the peer. It is given the address and the length of the word that is about to be looked at.
pub type Peer = fn(usize, usize);

thread_local! {
    static PEER: Cell<Option<Peer>> = const { Cell::new(None) };
}

/// Has `peer` called before each look of the calling thread.
pub fn play(peer: Option<Peer>) {
    PEER.set(peer);
}

#[inline]
fn look(at: usize, len: usize) {
    if let Some(peer) = PEER.get() {
        peer(at, len);
    }
}

macro_rules! atomic {
    ($name:ident, $plain:ty) => {
        /// As `core`'s of that name.
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name(core::sync::atomic::$name);

        impl Deref for $name {
            type Target = core::sync::atomic::$name;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        #[allow(missing_docs, dead_code, reason = "as core's, and not all of them are used")]
        impl $name {
            #[inline]
            fn seen(&self) -> &core::sync::atomic::$name {
                look(core::ptr::from_ref(self).addr(), size_of::<Self>());
                &self.0
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $plain {
                self.seen().load(order)
            }

            #[inline]
            pub fn swap(&self, value: $plain, order: Ordering) -> $plain {
                self.seen().swap(value, order)
            }

            #[inline]
            pub fn fetch_add(&self, value: $plain, order: Ordering) -> $plain {
                self.seen().fetch_add(value, order)
            }

            #[inline]
            pub fn fetch_or(&self, value: $plain, order: Ordering) -> $plain {
                self.seen().fetch_or(value, order)
            }

            #[inline]
            pub fn fetch_and(&self, value: $plain, order: Ordering) -> $plain {
                self.seen().fetch_and(value, order)
            }

            #[inline]
            pub fn compare_exchange(
                &self,
                current: $plain,
                new: $plain,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$plain, $plain> {
                self.seen().compare_exchange(current, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
