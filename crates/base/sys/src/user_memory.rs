//! Memory of the program that calls.
//!
//! The memory may be unmapped, and other threads of the program may use it at the same time. The kernel takes such memory too, and
//! returns `EFAULT` where there is none. So no reference is made to it. The bytes are copied (`sovia_signal::access`), or
//! the kernel is given the address. Slices of Rust become one by `into`.

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
            /// The `len` bytes at `at`.
            ///
            /// # Safety
            /// For as long as this is used they are none of this library's: unmapped, or the program's. Or they are valid, and
            /// no reference to them is used.
            #[inline]
            pub const unsafe fn new(at: $pointer, len: usize) -> $name<'a> {
                $name { at, len, of: PhantomData }
            }

            /// No bytes.
            #[inline]
            pub const fn empty() -> $name<'a> {
                $name { at: core::ptr::dangling::<u8>().cast_mut(), len: 0, of: PhantomData }
            }

            /// Their number.
            #[inline]
            pub const fn len(self) -> usize {
                self.len
            }

            /// Whether there are none.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.len == 0
            }

            /// The address of the first.
            #[inline]
            pub const fn $address(self) -> $pointer {
                self.at
            }

            /// The first `n` of them.
            ///
            /// # Panics
            /// If there are fewer.
            #[inline]
            #[must_use]
            pub fn first(self, n: usize) -> $name<'a> {
                assert!(n <= self.len, "{n} of {} bytes", self.len);
                $name { len: n, ..self }
            }

            /// Those behind the first `n`.
            ///
            /// # Panics
            /// If there are fewer than `n`.
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
    /// Bytes that are copied from, as a program's call names them.
    UserSlice, *const u8, &'a [u8], as_ptr
}
user_slice! {
    /// Bytes that are copied to, as a program's call names them.
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
