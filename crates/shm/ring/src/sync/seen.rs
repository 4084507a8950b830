//! Atomics of a fuzzing build. Before each access to an atomic, a function that plays the peer is called, and may
//! change the atomic's value. So the peer can write any word at the worst moment, even between two loads of one
//! word. A run can be repeated exactly, which would not be possible with a second thread.

use core::cell::Cell;
use core::ops::Deref;
use core::sync::atomic::Ordering;

/// The function that plays the peer. Its arguments are the address and length of the word about to be accessed.
pub type Peer = fn(usize, usize);

thread_local! {
    static PEER: Cell<Option<Peer>> = const { Cell::new(None) };
}

/// Sets the function that is called before each access by the calling thread.
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
        /// Like the type of this name in `core`, but calls the peer before each access.
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
