//! What a program's pointers point to.
//!
//! Each type here is a pointer as an exported function gets it from C, and cannot be made in safe
//! Rust. The caller that passes one vouches, as everywhere in C, that it is null or points to as much as the
//! function's description says: that is the contract which every use below relies on. Null is
//! noticed. Alignment is not asked for.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use via::{NetAddress, NicAttributes, ReturnCode};

/// Where a result goes (`OUT`).
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// Where a value is (`IN`).
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

/// Text that ends with a zero.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

/// `VIP_NET_ADDRESS` without the bytes that follow it: host address, then discriminator.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetAddressHeader {
    /// Bytes of the host address.
    pub host_len: u16,
    /// Bytes of the discriminator behind it.
    pub discriminator_len: u16,
}

/// A `VIP_NET_ADDRESS`, whose bytes follow its lengths.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct AddressPointer(*mut NetAddressHeader);

/// A pointer that is only handed on: a context, a descriptor, an address to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Opaque(pub(crate) *mut c_void);

// SAFETY: it is not followed, only given back to the program that it came from.
unsafe impl Send for Opaque {}
// SAFETY: as above.
unsafe impl Sync for Opaque {}

impl Opaque {
    /// The null pointer.
    pub const NULL: Opaque = Opaque(core::ptr::null_mut());

    /// A pointer from its value.
    #[inline]
    pub(crate) fn at(address: u64) -> Opaque {
        Opaque(core::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Its value.
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

    /// The pointer, where a function takes different things by it.
    pub(crate) fn as_out<T>(self) -> Out<T> {
        Out(self.0.cast())
    }

    /// The pointer as text.
    pub(crate) fn as_text(self) -> Text {
        Text(self.0.cast_const().cast())
    }
}

impl<T: Copy> Out<T> {
    /// The same, if there is room for a result at all.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER`.
    #[inline]
    pub(crate) fn required(self) -> Result<Out<T>, ReturnCode> {
        if self.0.is_null() { Err(ReturnCode::InvalidParameter) } else { Ok(self) }
    }

    /// Stores the result; nowhere, if the program does not want it.
    #[inline]
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so good for a write (this module's contract).
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// What is there (`IN OUT`).
    pub(crate) fn get(self) -> Option<T> {
        In(self.0.cast_const()).get()
    }
}

impl Out<u8> {
    /// Stores bytes, for which the program has said that there is room.
    pub(crate) fn fill(self, bytes: &[u8]) {
        if !self.0.is_null() {
            // SAFETY: not null, and good for as many bytes as the program said (this module's
            // contract), which the caller has compared.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) }
        }
    }
}

impl<T: Copy> In<T> {
    /// The value, if there is one.
    pub(crate) fn get(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not null, so good for a read (this module's contract).
        Some(unsafe { self.0.read_unaligned() })
    }
}

impl Text {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The text, of at most `max` bytes and some.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` where there is none, it is empty, longer, or not UTF-8.
    pub(crate) fn get(self, max: usize) -> Result<String, ReturnCode> {
        if self.0.is_null() {
            return Err(ReturnCode::InvalidParameter);
        }
        // SAFETY: not null, so it ends with a zero (this module's contract), and no byte behind
        // the zero is looked at.
        let len = unsafe { libc::strnlen(self.0, max + 1) };
        if len == 0 || len > max {
            return Err(ReturnCode::InvalidParameter);
        }
        // SAFETY: the zero is at most `max` bytes on.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| ReturnCode::InvalidParameter)
    }
}

impl AddressPointer {
    const BYTES: usize = size_of::<NetAddressHeader>();

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The host's part alone, of so many bytes.
    ///
    /// # Errors
    /// As for [`AddressPointer::get`].
    pub(crate) fn get_host(self, len: usize) -> Result<Box<[u8]>, ReturnCode> {
        let header = In(self.0.cast_const()).get().ok_or(ReturnCode::InvalidParameter)?;
        if usize::from(header.host_len) != len {
            return Err(ReturnCode::InvalidParameter);
        }
        // SAFETY: as many bytes follow the two lengths as the first says (this module's contract).
        let host = unsafe {
            let bytes = self.0.cast_const().cast::<u8>().add(Self::BYTES);
            core::slice::from_raw_parts(bytes, len)
        };
        Ok(host.into())
    }

    /// The address, if a NIC with these attributes could have it.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` where there is none, or its lengths say that it is not filled in:
    /// then nothing behind them is looked at.
    pub(crate) fn get(self, nic: &NicAttributes) -> Result<NetAddress, ReturnCode> {
        let header = In(self.0.cast_const()).get().ok_or(ReturnCode::InvalidParameter)?;
        let (host, discriminator) = (header.host_len.into(), header.discriminator_len.into());
        if host != nic.local_address.len() || header.discriminator_len > nic.max_discriminator_len {
            return Err(ReturnCode::InvalidParameter);
        }
        let bytes = self.0.cast_const().cast::<u8>();
        // SAFETY: as many bytes follow the two lengths as these say (this module's contract).
        let (host, discriminator) = unsafe {
            let host = core::slice::from_raw_parts(bytes.add(Self::BYTES), host);
            let rest = bytes.add(Self::BYTES + host.len());
            (host, core::slice::from_raw_parts(rest, discriminator))
        };
        Ok(NetAddress::new(host, discriminator))
    }

    /// An address of the NIC's own. It has one host address, so what the program says of that is
    /// not looked at: programs written on cLAN (MPICH's VIA device) fill in the discriminator only.
    ///
    /// # Errors
    /// As for [`AddressPointer::get`].
    pub(crate) fn get_local(self, nic: &NicAttributes) -> Result<NetAddress, ReturnCode> {
        let told = self.get(nic)?;
        Ok(NetAddress::new(&nic.local_address, &told.discriminator))
    }

    /// Stores an address, if the program wants it. VIPL has a program make room for an address
    /// of the greatest lengths that the NIC's attributes name.
    pub(crate) fn set(self, address: &NetAddress) {
        let lens = (u16::try_from(address.host.len()), u16::try_from(address.discriminator.len()));
        let (Ok(host_len), Ok(discriminator_len)) = lens else { return };
        Out(self.0).set(NetAddressHeader { host_len, discriminator_len });
        if !self.0.is_null() {
            // SAFETY: the bytes behind the lengths belong to the address (this module's contract).
            let bytes = unsafe { self.0.cast::<u8>().add(Self::BYTES) };
            Out(bytes).fill(&address.host);
            // SAFETY: as above.
            Out(unsafe { bytes.add(address.host.len()) }).fill(&address.discriminator);
        }
    }

    /// Stores a host's address, and leaves the discriminator's length as the program has set it.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` where there is no room for one.
    pub(crate) fn set_host(self, host: &[u8]) -> Result<(), ReturnCode> {
        if self.0.is_null() {
            return Err(ReturnCode::InvalidParameter);
        }
        let host_len = u16::try_from(host.len()).map_err(|_| ReturnCode::Error)?;
        // The length of the host's address comes first.
        Out(self.0.cast::<u16>()).set(host_len);
        // SAFETY: as in `set`.
        Out(unsafe { self.0.cast::<u8>().add(Self::BYTES) }).fill(host);
        Ok(())
    }
}
