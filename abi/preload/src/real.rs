//! The functions that the hooks stand before.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The next definition of a symbol after ours, looked up once.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicUsize::new(0) }
    }

    /// Its address; 0 if there is none.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.resolve(),
            address => address,
        }
    }

    /// An address to call in any case.
    #[inline]
    pub(crate) fn callable(&self) -> usize {
        match self.address() {
            0 => missing as *const () as usize,
            address => address,
        }
    }

    /// Looks the symbol up. Done for all at start: `dlsym` allocates and takes the loader's lock.
    #[cold]
    pub(crate) fn resolve(&self) -> usize {
        // SAFETY: a C string and a pseudo handle that glibc defines.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Defines hooks. In each body `real!()` is the real function, called with the hook's own
/// arguments or others; one that an older libc lacks fails with ENOSYS. `later!()` is a closure that
/// calls it, for `sovia_calls`.
macro_rules! hooks {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        pub(crate) mod reals {
            #![allow(non_upper_case_globals)]
            $(pub(crate) static $name: crate::real::Real = crate::real::Real::new(
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );)*

            pub(crate) const ALL: &[&crate::real::Real] = &[$(&$name),*];
        }
        $(
            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
                #[allow(unused_macros)]
                macro_rules! real {
                    () => {
                        // The address of the function of that name, whose C signature this is; or
                        // of one that takes nothing and fails.
                        core::mem::transmute::<usize, unsafe extern "C" fn($($ty),*) -> $ret>(
                            reals::$name.callable(),
                        )
                    };
                }
                // The same, looked up when it is called.
                #[allow(unused_macros)]
                macro_rules! later {
                    () => { |$($arg: $ty),*| real!()($($arg),*) };
                }
                // SAFETY: a hook has the contract of its libc function: its caller vouches for
                // every pointer as for the real one, and gets from the body what it would get there.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

/// Stands in for a function that this libc does not have.
unsafe extern "C" fn missing() -> isize {
    crate::set_errno(libc::ENOSYS);
    -1
}

/// Resolves everything that is hooked.
pub(crate) fn resolve_all() {
    let all = [
        crate::asynchronous::reals::ALL,
        crate::children::reals::ALL,
        crate::creating::reals::ALL,
        crate::creating::several::reals::ALL,
        crate::credentials::reals::ALL,
        crate::descriptors::reals::ALL,
        crate::limits::reals::ALL,
        crate::memory::reals::ALL,
        crate::poll::reals::ALL,
        crate::process::reals::ALL,
        crate::raw::reals::ALL,
        crate::receive::reals::ALL,
        crate::rings::reals::ALL,
        crate::send::reals::ALL,
        crate::signals::reals::ALL,
        crate::sockets::reals::ALL,
        crate::spawning::reals::ALL,
        crate::stdio::reals::ALL,
    ];
    for real in all.into_iter().flatten() {
        real.resolve();
    }
}

#[cfg(test)]
mod tests;
