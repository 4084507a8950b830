//! State of which each engine has its own.
//!
//! A program has one engine, and what is declared with [`per_engine!`] are plain statics in it: nothing is looked up.
//! In this crate's unit tests there may be several, one beside the other in a process: [`Engine`]. A thread
//! belongs to one of them, and the statics are that one's. Threads that the engine starts belong to the engine of the
//! thread that starts them.
//!
//! What is not declared so is of the process or of a thread, whichever engine they belong to: its identity, the
//! library's threads, what a thread is inside of.

/// Declares statics of which each engine has its own.
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

/// Declares [`sovia_sys::tables`], one of each for every engine.
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

/// The engine of a thread, for one that it starts.
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

    /// In the thread that starts the other one.
    pub(crate) fn leave(&self) {
        #[cfg(test)]
        Engine::current().leave_in(&self.engine);
    }

    /// In the other one: it belongs to the same engine from here on.
    pub(crate) fn take(&self) {
        #[cfg(test)]
        Engine::left_in(&self.engine).enter();
    }
}

/// Whether the process's threads are on record in the calling thread's engine. They are in one alone: that in which a
/// thread asks first.
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

    /// Statics that one can have.
    const STATICS: usize = 256;

    type Statics = [AtomicPtr<()>; STATICS];

    /// An engine of several. Its state lasts as long as the process.
    #[derive(Clone, Copy)]
    pub(crate) struct Engine(&'static Statics);

    impl fmt::Debug for Engine {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "Engine({:p})", self.0)
        }
    }

    /// That of threads which belong to no other one.
    static FIRST: Statics = [const { AtomicPtr::new(core::ptr::null_mut()) }; STATICS];

    thread_local! {
        static CURRENT: Cell<Engine> = const { Cell::new(Engine(&FIRST)) };
    }

    impl Engine {
        /// One in which nothing has happened.
        pub(crate) fn new() -> Engine {
            let slots = [const { AtomicPtr::new(core::ptr::null_mut()) }; STATICS];
            Engine(Box::leak(Box::new(slots)))
        }

        /// That of the calling thread.
        pub(crate) fn current() -> Engine {
            CURRENT.get()
        }

        /// Leaves word of it for another thread.
        pub(super) fn leave_in(self, place: &AtomicPtr<()>) {
            place.store(self.as_ptr(), Ordering::Release);
        }

        fn as_ptr(self) -> *mut () {
            core::ptr::from_ref(self.0).cast_mut().cast()
        }

        /// The engine of which word was left.
        pub(super) fn left_in(place: &AtomicPtr<()>) -> Engine {
            // SAFETY: null, or what `leave_in` has stored.
            let found = unsafe { place.load(Ordering::Acquire).cast::<Statics>().as_ref() };
            found.map_or(Engine(&FIRST), Engine)
        }

        /// The calling thread belongs to it from here on.
        pub(crate) fn enter(self) {
            CURRENT.set(self);
        }

        /// Calls `f` on the calling thread as one that belongs to it.
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

    /// A static of which each engine has its own.
    pub(crate) struct PerEngine<T: 'static> {
        /// Its number among them, from 1; 0 until it is used.
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
                    // If another thread has numbered it meanwhile, this number is given to none.
                    set.err().unwrap_or(number)
                }
                number => number,
            }
        }

        fn of(&self, engine: Engine) -> &'static T {
            let slot = &engine.0[self.number() - 1];
            // SYNC: Acquire finds what was behind the pointer when it was published.
            let found = slot.load(Ordering::Acquire).cast::<T>();
            // SAFETY: the slot is this static's alone: null, or what is leaked below.
            if let Some(value) = unsafe { found.as_ref() } {
                return value;
            }
            let made = Box::into_raw(Box::new((self.value)()));
            let none = core::ptr::null_mut();
            let published =
                slot.compare_exchange(none, made.cast(), Ordering::AcqRel, Ordering::Acquire);
            match published {
                // SAFETY: just made, and never freed.
                Ok(_) => unsafe { &*made },
                Err(other) => {
                    // SAFETY: no other thread has seen it.
                    drop(unsafe { Box::from_raw(made) });
                    // SAFETY: as above.
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
