//! The real functions of libc, which the hooks replace.

use crate::symbols::{self, Found, Object};
use core::ffi::CStr;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The real function with a given name: the next definition of the symbol after this library's. It is looked up
/// once.
#[repr(C)]
pub(crate) struct Real {
    /// The first member, because hooks in assembly jump to it. 0 until the symbol has been found.
    address: AtomicUsize,
    /// Hash of the name, see [`symbols::hash`].
    hash: u32,
    name: &'static CStr,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real { address: AtomicUsize::new(0), hash: symbols::hash(name), name }
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

    /// Looks up the symbol in one object, if its address is not known yet. Breaks off if the object defines the symbol, but
    /// only the linker can tell the address.
    pub(crate) fn look_up_in(&self, object: &Object) -> ControlFlow<()> {
        if self.address.load(Ordering::Relaxed) != 0 {
            return ControlFlow::Continue(());
        }
        match object.find(self.name, self.hash) {
            Found::Function(address) => self.address.store(address, Ordering::Relaxed),
            Found::Nothing => {}
            Found::Other => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Looks up the symbol by the linker, and stores its address.
    #[cold]
    pub(crate) fn resolve(&self) -> usize {
        // SAFETY: the name is a C string, and glibc defines the pseudo handle.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Returns a function's name, which must end with a zero byte, as a C string.
pub(crate) const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("not a C string"),
    }
}

/// Defines hooks. In a hook's body, `real!()` is the real function. If this libc lacks the function, a call of
/// `real!()` fails with ENOSYS. `later!()` is a closure that calls the real function. Functions of `sovia_calls`
/// take such a closure.
macro_rules! hooks {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        pub(crate) mod reals {
            #![allow(non_upper_case_globals)]
            use crate::real::{Real, c_name};
            $(pub(crate) static $name: Real = Real::new(c_name(concat!(stringify!($name), "\0")));)*

            pub(crate) const ALL: &[&Real] = &[$(&$name),*];
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

#[cfg(test)]
mod tests;
