//! Access to the memory behind a program's pointers.
//!
//! Each type here is a pointer that an exported function gets from C, and that safe Rust cannot make. As everywhere in
//! C, the caller guarantees that the pointer is null or points to the memory that the function's description requires.
//! Every use below relies on this contract. The library recognizes null, and requires no alignment.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use via::{NetAddress, NicAttributes, ReturnCode};

/// Pointer to a result (`OUT`).
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// Pointer to a value (`IN`).
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

/// Pointer to a C string.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

/// `VIP_NET_ADDRESS` without the bytes that follow: host address, then discriminator.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetAddressHeader {
    /// Length of the host address in bytes.
    pub host_len: u16,
    /// Length of the discriminator in bytes, which follows the host address.
    pub discriminator_len: u16,
}

/// Pointer to a `VIP_NET_ADDRESS`, whose bytes follow its lengths.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct AddressPointer(*mut NetAddressHeader);

/// Pointer that the library only passes on: a context, a descriptor, an address to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Opaque(pub(crate) *mut c_void);

// SAFETY: the library never dereferences the pointer, and only gives it back to its program.
unsafe impl Send for Opaque {}
// SAFETY: the library never dereferences the pointer, and only gives it back to its program.
unsafe impl Sync for Opaque {}

impl Opaque {
    /// The null pointer.
    pub const NULL: Opaque = Opaque(core::ptr::null_mut());

    /// Makes a pointer from its address.
    #[inline]
    pub(crate) fn at(address: u64) -> Opaque {
        Opaque(core::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Returns its address.
    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn non_null(self) -> Option<NonNull<u8>> {
        NonNull::new(self.0.cast())
    }

    /// Returns the pointer as a typed one, for functions that accept several types.
    pub(crate) fn as_out<T>(self) -> Out<T> {
        Out(self.0.cast())
    }

    /// Returns the pointer as a string.
    pub(crate) fn as_text(self) -> Text {
        Text(self.0.cast_const().cast())
    }
}

impl<T: Copy> Out<T> {
    /// Returns the pointer, if it is not null.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER`.
    #[inline]
    pub(crate) fn required(self) -> Result<Out<T>, ReturnCode> {
        if self.0.is_null() { Err(ReturnCode::InvalidParameter) } else { Ok(self) }
    }

    /// Stores the result, unless the pointer is null.
    #[inline]
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the pointer is not null, so by this module's contract it is valid for a write of `T`.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// Reads the value (`IN OUT`).
    pub(crate) fn get(self) -> Option<T> {
        In(self.0.cast_const()).get()
    }
}

impl Out<u8> {
    /// Stores bytes. The caller must have checked that the program has room for them.
    pub(crate) fn fill(self, bytes: &[u8]) {
        if !self.0.is_null() {
            // SAFETY: the pointer is not null, so by this module's contract it is valid for as many bytes as the
            // program said. The caller has compared this number.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) }
        }
    }
}

impl<T: Copy> In<T> {
    /// Returns the value; `None` for a null pointer.
    pub(crate) fn get(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the pointer is not null, so by this module's contract it is valid for a read of `T`.
        Some(unsafe { self.0.read_unaligned() })
    }
}

impl Text {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the string, which may have at most `max` bytes.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` if the pointer is null, or the string is empty, longer, or not UTF-8.
    pub(crate) fn get(self, max: usize) -> Result<String, ReturnCode> {
        if self.0.is_null() {
            return Err(ReturnCode::InvalidParameter);
        }
        // SAFETY: the pointer is not null, so by this module's contract the string ends with a zero byte. strnlen reads
        // no byte after it.
        let len = unsafe { libc::strnlen(self.0, max + 1) };
        if len == 0 || len > max {
            return Err(ReturnCode::InvalidParameter);
        }
        // SAFETY: strnlen has found the final zero byte within `max` + 1 bytes.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| ReturnCode::InvalidParameter)
    }
}

impl AddressPointer {
    const BYTES: usize = size_of::<NetAddressHeader>();

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns only the host's part, if it has `len` bytes.
    ///
    /// # Errors
    /// Like [`AddressPointer::get`].
    pub(crate) fn get_host(self, len: usize) -> Result<Box<[u8]>, ReturnCode> {
        let header = In(self.0.cast_const()).get().ok_or(ReturnCode::InvalidParameter)?;
        if usize::from(header.host_len) != len {
            return Err(ReturnCode::InvalidParameter);
        }
        // SAFETY: by this module's contract the lengths are followed by as many bytes as the first length says, which
        // is `len`.
        let host = unsafe {
            let bytes = self.0.cast_const().cast::<u8>().add(Self::BYTES);
            core::slice::from_raw_parts(bytes, len)
        };
        Ok(host.into())
    }

    /// Returns the address, if its lengths are possible for a NIC with these attributes.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` if the pointer is null, or if the lengths show that the address is not filled in. In
    /// this case the bytes after the lengths are not read.
    pub(crate) fn get(self, nic: &NicAttributes) -> Result<NetAddress, ReturnCode> {
        let header = In(self.0.cast_const()).get().ok_or(ReturnCode::InvalidParameter)?;
        let (host, discriminator) = (header.host_len.into(), header.discriminator_len.into());
        if host != nic.local_address.len() || header.discriminator_len > nic.max_discriminator_len {
            return Err(ReturnCode::InvalidParameter);
        }
        let bytes = self.0.cast_const().cast::<u8>();
        // SAFETY: by this module's contract the two lengths are followed by as many bytes as they say.
        let (host, discriminator) = unsafe {
            let host = core::slice::from_raw_parts(bytes.add(Self::BYTES), host);
            let rest = bytes.add(Self::BYTES + host.len());
            (host, core::slice::from_raw_parts(rest, discriminator))
        };
        Ok(NetAddress::new(host, discriminator))
    }

    /// Returns an address of this NIC. The NIC has only one host address, so the program's host part is ignored:
    /// programs for cLAN (MPICH's VIA device) fill in only the discriminator.
    ///
    /// # Errors
    /// Like [`AddressPointer::get`].
    pub(crate) fn get_local(self, nic: &NicAttributes) -> Result<NetAddress, ReturnCode> {
        let told = self.get(nic)?;
        Ok(NetAddress::new(&nic.local_address, &told.discriminator))
    }

    /// Stores an address, unless the pointer is null. VIPL requires that a program has room for an address with the
    /// largest lengths in the NIC's attributes.
    pub(crate) fn set(self, address: &NetAddress) {
        let lens = (u16::try_from(address.host.len()), u16::try_from(address.discriminator.len()));
        let (Ok(host_len), Ok(discriminator_len)) = lens else { return };
        Out(self.0).set(NetAddressHeader { host_len, discriminator_len });
        if !self.0.is_null() {
            // SAFETY: by this module's contract the bytes after the lengths belong to the address.
            let bytes = unsafe { self.0.cast::<u8>().add(Self::BYTES) };
            Out(bytes).fill(&address.host);
            // SAFETY: by this module's contract the bytes after the lengths belong to the address, and have room for
            // both parts.
            Out(unsafe { bytes.add(address.host.len()) }).fill(&address.discriminator);
        }
    }

    /// Stores a host's address. The program's length of the discriminator stays.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` for a null pointer.
    pub(crate) fn set_host(self, host: &[u8]) -> Result<(), ReturnCode> {
        if self.0.is_null() {
            return Err(ReturnCode::InvalidParameter);
        }
        let host_len = u16::try_from(host.len()).map_err(|_| ReturnCode::Error)?;
        // The length of the host's address is the first field.
        Out(self.0.cast::<u16>()).set(host_len);
        // SAFETY: by this module's contract the bytes after the lengths belong to the address.
        Out(unsafe { self.0.cast::<u8>().add(Self::BYTES) }).fill(host);
        Ok(())
    }
}
