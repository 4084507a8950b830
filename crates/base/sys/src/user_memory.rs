//! Memory that a program passes to a call.
//!
//! The memory may be unmapped, and other threads of the program may use it at the same time. The kernel accepts
//! such memory in system calls, and returns `EFAULT` if it is unmapped. So this library makes no reference to the
//! memory. Instead, the library copies the bytes (`sovia_signal::access`), or passes the address to the kernel.
//! `into` converts slices of Rust.

use core::marker::PhantomData;

macro_rules! user_slice {
    ($(#[$attribute:meta])* $name:ident, $pointer:ty, $reference:ty, $address:ident) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a> {
            at: $pointer,
            len: usize,
            of: PhantomData<$reference>,
        }

        impl<'a> $name<'a> {
            /// Makes a slice of the `len` bytes at `at`.
            ///
            /// # Safety
            /// While this value is used, one of two conditions must hold. The bytes do not belong to this
            /// library, and may be unmapped. Or the bytes are valid, and no reference to the bytes is used.
            #[inline]
            pub const unsafe fn new(at: $pointer, len: usize) -> $name<'a> {
                $name { at, len, of: PhantomData }
            }

            /// Returns an empty slice.
            #[inline]
            pub const fn empty() -> $name<'a> {
                $name { at: core::ptr::dangling::<u8>().cast_mut(), len: 0, of: PhantomData }
            }

            /// Returns the number of bytes.
            #[inline]
            pub const fn len(self) -> usize {
                self.len
            }

            /// Returns true if there are no bytes.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.len == 0
            }

            /// Returns the address of the first byte.
            #[inline]
            pub const fn $address(self) -> $pointer {
                self.at
            }

            /// Returns the first `n` bytes.
            ///
            /// # Panics
            /// If there are fewer than `n` bytes.
            #[inline]
            #[must_use]
            pub fn first(self, n: usize) -> $name<'a> {
                assert!(n <= self.len, "{n} of {} bytes", self.len);
                $name { len: n, ..self }
            }

            /// Returns the bytes after the first `n`.
            ///
            /// # Panics
            /// If there are fewer than `n` bytes.
            #[inline]
            #[must_use]
            pub fn skip(self, n: usize) -> $name<'a> {
                assert!(n <= self.len, "{n} of {} bytes", self.len);
                $name { at: self.at.wrapping_add(n), len: self.len - n, ..self }
            }
        }

        impl Default for $name<'_> {
            fn default() -> Self {
                Self::empty()
            }
        }
    };
}

user_slice! {
    /// Bytes that a program's call passes for reading.
    UserSlice, *const u8, &'a [u8], as_ptr
}
user_slice! {
    /// Bytes that a program's call passes for writing.
    UserSliceMut, *mut u8, &'a mut [u8], as_mut_ptr
}

impl<'a> From<&'a [u8]> for UserSlice<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> UserSlice<'a> {
        UserSlice { at: bytes.as_ptr(), len: bytes.len(), of: PhantomData }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for UserSlice<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> UserSlice<'a> {
        bytes[..].into()
    }
}

impl<'a> From<UserSliceMut<'a>> for UserSlice<'a> {
    #[inline]
    fn from(bytes: UserSliceMut<'a>) -> UserSlice<'a> {
        UserSlice { at: bytes.at, len: bytes.len, of: PhantomData }
    }
}

impl<'a> From<&'a mut [u8]> for UserSliceMut<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> UserSliceMut<'a> {
        UserSliceMut { at: bytes.as_mut_ptr(), len: bytes.len(), of: PhantomData }
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for UserSliceMut<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8; N]) -> UserSliceMut<'a> {
        (&mut bytes[..]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_where_those_of_a_slice_do() {
        let bytes = [1u8, 2, 3, 4, 5];
        let all = UserSlice::from(&bytes);
        for n in 0..=5 {
            let (first, rest) = bytes.split_at(n);
            assert_eq!((all.first(n).as_ptr(), all.first(n).len()), (first.as_ptr(), n));
            assert_eq!((all.skip(n).as_ptr(), all.skip(n).len()), (rest.as_ptr(), 5 - n));
        }
    }
}
