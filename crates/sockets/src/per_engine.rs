//! Statics with a separate copy for each engine.
//!
//! A program has one engine, so statics declared with [`per_engine!`] are plain statics there. A process of this
//! crate's unit tests may have several engines ([`Engine`]). Each thread belongs to one engine, and sees this
//! engine's copies of the statics. A new thread of the library belongs to the same engine as the thread that starts
//! it.
//!
//! Other statics belong to the process or to a thread, independently of engines. Examples are the process's
//! identity and a thread's critical sections.

/// Declares statics with a separate copy for each engine.
macro_rules! per_engine {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {
        $(
            #[cfg(not(test))]
            $(#[$attribute])*
            $visibility static $name: $type = $value;
            #[cfg(test)]
            $(#[$attribute])*
            $visibility static $name: $crate::per_engine::PerEngine<$type> =
                $crate::per_engine::PerEngine::new(|| $value);
        )+
    };
}
pub(crate) use per_engine;

/// Like [`sovia_sys::tables`], but each engine has its own copy.
macro_rules! per_engine_tables {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {
        #[cfg(not(test))]
        sovia_sys::tables! { $($(#[$attribute])* $visibility static $name: $type = $value;)+ }
        #[cfg(test)]
        $crate::per_engine::per_engine! { $($(#[$attribute])* $visibility static $name: $type = $value;)+ }
    };
}
pub(crate) use per_engine_tables;

#[cfg(test)]
pub(crate) use several::{Engine, PerEngine};

/// Passes the engine of a thread on to a new thread.
#[derive(Debug)]
pub(crate) struct Inherited {
    #[cfg(test)]
    engine: core::sync::atomic::AtomicPtr<()>,
}

impl Inherited {
    pub(crate) const fn new() -> Inherited {
        Inherited {
            #[cfg(test)]
            engine: core::sync::atomic::AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Stores the calling thread's engine. Called in the thread that starts the new thread.
    pub(crate) fn leave(&self) {
        #[cfg(test)]
        Engine::current().leave_in(&self.engine);
    }

    /// Makes the new thread belong to the stored engine. Called in the new thread.
    pub(crate) fn take(&self) {
        #[cfg(test)]
        Engine::left_in(&self.engine).enter();
    }
}

/// Returns true if the calling thread's engine keeps the record of the process's threads. Only one engine does: the
/// engine of the first thread that calls this function.
pub(crate) fn keeps_threads() -> bool {
    #[cfg(not(test))]
    return true;
    #[cfg(test)]
    several::is_first_to_ask()
}

#[cfg(test)]
mod several {
    use core::cell::Cell;
    use core::fmt;
    use core::ops::Deref;
    use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

    /// Largest number of [`PerEngine`] statics.
    const STATICS: usize = 256;

    type Statics = [AtomicPtr<()>; STATICS];

    /// One of several engines. Its copies of the statics are never freed.
    #[derive(Clone, Copy)]
    pub(crate) struct Engine(&'static Statics);

    impl fmt::Debug for Engine {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "Engine({:p})", self.0)
        }
    }

    /// Engine of threads that belong to no other engine.
    static FIRST: Statics = [const { AtomicPtr::new(core::ptr::null_mut()) }; STATICS];

    thread_local! {
        static CURRENT: Cell<Engine> = const { Cell::new(Engine(&FIRST)) };
    }

    impl Engine {
        /// Returns a new engine with initial state.
        pub(crate) fn new() -> Engine {
            let slots = [const { AtomicPtr::new(core::ptr::null_mut()) }; STATICS];
            Engine(Box::leak(Box::new(slots)))
        }

        /// Returns the engine of the calling thread.
        pub(crate) fn current() -> Engine {
            CURRENT.get()
        }

        /// Stores this engine in `place`, for another thread.
        pub(super) fn leave_in(self, place: &AtomicPtr<()>) {
            place.store(self.as_ptr(), Ordering::Release);
        }

        fn as_ptr(self) -> *mut () {
            core::ptr::from_ref(self.0).cast_mut().cast()
        }

        /// Returns the engine that `leave_in` has stored in `place`.
        pub(super) fn left_in(place: &AtomicPtr<()>) -> Engine {
            // SAFETY: the pointer is null or comes from `leave_in`, which stores a reference to a static.
            let found = unsafe { place.load(Ordering::Acquire).cast::<Statics>().as_ref() };
            found.map_or(Engine(&FIRST), Engine)
        }

        /// Makes the calling thread belong to this engine.
        pub(crate) fn enter(self) {
            CURRENT.set(self);
        }

        /// Calls `f` while the calling thread belongs to this engine.
        pub(crate) fn run<R>(self, f: impl FnOnce() -> R) -> R {
            let before = CURRENT.replace(self);
            let result = f();
            CURRENT.set(before);
            result
        }
    }

    pub(super) fn is_first_to_ask() -> bool {
        static FIRST_TO_ASK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
        let me = Engine::current().as_ptr();
        let none = core::ptr::null_mut();
        let asked = FIRST_TO_ASK.compare_exchange(none, me, Ordering::AcqRel, Ordering::Acquire);
        asked.is_ok() || asked == Err(me)
    }

    /// A static with a separate copy for each engine.
    pub(crate) struct PerEngine<T: 'static> {
        /// Number of this static, from 1; 0 until this static is used.
        number: AtomicUsize,
        value: fn() -> T,
    }

    impl<T: Sync> PerEngine<T> {
        pub(crate) const fn new(value: fn() -> T) -> PerEngine<T> {
            PerEngine { number: AtomicUsize::new(0), value }
        }

        fn number(&self) -> usize {
            static LAST: AtomicUsize = AtomicUsize::new(0);
            match self.number.load(Ordering::Acquire) {
                0 => {
                    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                    let set = self.number.compare_exchange(
                        0,
                        number,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    // If another thread has numbered this static meanwhile, use that number.
                    set.err().unwrap_or(number)
                }
                number => number,
            }
        }

        fn of(&self, engine: Engine) -> &'static T {
            let slot = &engine.0[self.number() - 1];
            // SYNC: this Acquire load pairs with the AcqRel exchange below, which publishes the value behind the
            // pointer.
            let found = slot.load(Ordering::Acquire).cast::<T>();
            // SAFETY: only this static uses the slot, which is null or has a leaked box of a `T`.
            if let Some(value) = unsafe { found.as_ref() } {
                return value;
            }
            let made = Box::into_raw(Box::new((self.value)()));
            let none = core::ptr::null_mut();
            let published =
                slot.compare_exchange(none, made.cast(), Ordering::AcqRel, Ordering::Acquire);
            match published {
                // SAFETY: `made` comes from the box above, which is never freed after its publication.
                Ok(_) => unsafe { &*made },
                Err(other) => {
                    // SAFETY: `made` comes from the box above. The failed exchange did not publish `made`, so no
                    // other thread uses it.
                    drop(unsafe { Box::from_raw(made) });
                    // SAFETY: only this static uses the slot, so `other` is a leaked box of a `T`.
                    unsafe { &*other.cast::<T>() }
                }
            }
        }
    }

    impl<T: Sync> Deref for PerEngine<T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.of(Engine::current())
        }
    }
}
