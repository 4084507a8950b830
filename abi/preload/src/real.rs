//! The real functions of libc, which the hooks replace.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The real function with a given name: the next definition of the symbol after this library's. It is looked up
/// once.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicUsize::new(0) }
    }

    /// Returns the function's address, or 0 if no library defines the function.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.resolve(),
            address => address,
        }
    }

    /// Returns the function's address, or the address of `missing` if no library defines the function.
    #[inline]
    pub(crate) fn callable(&self) -> usize {
        match self.address() {
            0 => missing as *const () as usize,
            address => address,
        }
    }

    /// Looks up the symbol and stores its address. [`resolve_all`] calls this for all symbols at the start, because
    /// a later `dlsym` would allocate memory and take the loader's lock.
    #[cold]
    pub(crate) fn resolve(&self) -> usize {
        // SAFETY: the name is a C string, and glibc defines the pseudo handle.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Defines hooks. In a hook's body, `real!()` is the real function. If this libc lacks the function, a call of
/// `real!()` fails with ENOSYS. `later!()` is a closure that calls the real function. Functions of `sovia_calls`
/// take such a closure.
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
                        // The address is that of the function with this name and C signature, or that of `missing`.
                        // `missing` reads no arguments.
                        core::mem::transmute::<usize, unsafe extern "C" fn($($ty),*) -> $ret>(
                            reals::$name.callable(),
                        )
                    };
                }
                // A closure that looks up and calls the real function when it runs.
                #[allow(unused_macros)]
                macro_rules! later {
                    () => { |$($arg: $ty),*| real!()($($arg),*) };
                }
                // SAFETY: a hook has the contract of its libc function. The body accesses the program's memory only
                // as the libc function would.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

/// Replaces a function that this libc lacks. Fails with ENOSYS.
unsafe extern "C" fn missing() -> isize {
    crate::set_errno(libc::ENOSYS);
    -1
}

/// Looks up the real function of every hook.
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
        crate::waiting::reals::ALL,
    ];
    for real in all.into_iter().flatten() {
        real.resolve();
    }
}

#[cfg(test)]
mod tests;
