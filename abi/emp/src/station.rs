//! Opens and closes stations: `emp_init`, `emp_address` and `emp_finish`.

use crate::boundary::enter;
use crate::types::{self, LOCK_MEMORY, NIC_THREAD};
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::time::Duration;
use emp_eth::{Address, Config, Mode, Node, OpenError, Place, Station};

/// A station behind a pointer of C.
#[derive(Debug)]
pub struct Emp(pub(crate) Station);

/// Returns the station behind a pointer.
///
/// # Safety
/// The pointer must be null, or come from `emp_init` and not yet have been passed to `emp_finish`.
pub(crate) unsafe fn station<'s>(emp: *const Emp) -> Result<&'s Station, c_int> {
    // SAFETY: the pointer is null or points to a live `Emp`, by this function's contract.
    unsafe { emp.as_ref() }.map(|emp| &emp.0).ok_or(libc::EINVAL)
}

/// # Safety
/// The pointer must be null or point to a C string.
unsafe fn text<'s>(text: *const c_char) -> Result<&'s str, c_int> {
    if text.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the pointer is not null, so this function's contract makes it a C string.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| libc::EINVAL)
}

/// Parses a node's address, either of UDP or of Ethernet.
fn address(text: &str) -> Option<Address> {
    if let Ok(udp) = text.parse() {
        return Some(Address::Udp(udp));
    }
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let is_byte = |part: &&str| {
            (1..=2).contains(&part.len()) && part.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        let part = parts.next().filter(is_byte)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(Address::Mac(mac))
}

fn errno_of(why: &OpenError) -> c_int {
    match why {
        OpenError::Port { why, .. } => why.why.into_raw(),
        OpenError::FrameMax(_) => libc::EMSGSIZE,
        OpenError::Agent(_) => libc::EOPNOTSUPP,
        OpenError::Thread(_) => libc::EAGAIN,
    }
}

/// # Safety
/// `config` must be null or point to a configuration with valid strings and a valid table. `emp` must be null or
/// writable (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_init(config: *const types::Config, emp: *mut *mut Emp) -> c_int {
    enter(|| {
        // SAFETY: both pointers are null or valid, by this function's contract.
        let (Some(config), Some(emp)) = (unsafe { config.as_ref() }, unsafe { emp.as_mut() })
        else {
            return Err(libc::EINVAL);
        };
        *emp = ptr::null_mut();
        // SAFETY: `place` is null or a C string, by this function's contract.
        let place: Place = unsafe { text(config.place) }?.parse().map_err(|_| libc::EINVAL)?;
        let is_legal = config.flags & !(NIC_THREAD | LOCK_MEMORY) == 0
            && config.collection <= 8
            && config.count < u32::from(Node::MAX)
            && (config.count == 0 || !config.nodes.is_null());
        if !is_legal {
            return Err(libc::EINVAL);
        }
        let mut wanted = Config::new(place, config.key);
        if config.flags & NIC_THREAD != 0 {
            wanted.mode = Mode::Thread { processor: u32::try_from(config.processor).ok() };
        }
        if config.collection > 0 {
            wanted.collection = config.collection as u8;
        }
        if config.spin > 0 {
            wanted.spin = Duration::from_micros(config.spin.into());
        }
        let mut nodes = Vec::new();
        for at in 0..config.count as usize {
            // SAFETY: the table has `count` entries, and each is null or a C string, by this function's contract.
            let node = unsafe { text(*config.nodes.add(at)) }?;
            nodes.push(address(node).ok_or(libc::EINVAL)?);
        }
        if config.flags & LOCK_MEMORY != 0 {
            let all = libc::MCL_CURRENT | libc::MCL_FUTURE;
            sovia_sys::memlock::lock_all(all).map_err(|why| why.into_raw())?;
        }
        let station = Station::open(&wanted).map_err(|why| errno_of(&why))?;
        for node in &nodes {
            station.add_peer(node, config.key).map_err(|_| libc::ENOSPC)?;
        }
        *emp = Box::into_raw(Box::new(Emp(station)));
        Ok(())
    })
}

/// # Safety
/// `room` must be null or have `length` writable bytes (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_address(emp: *const Emp, room: *mut c_char, length: usize) -> c_int {
    enter(|| {
        // SAFETY: `emp` is null or an open station, as `emp.h` requires.
        let text = unsafe { station(emp) }?.address().to_string();
        if room.is_null() || text.len() >= length {
            return Err(libc::ENOSPC);
        }
        // SAFETY: `room` is longer than the text, so the final zero byte fits too.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr().cast(), room, text.len());
            *room.add(text.len()) = 0;
        }
        Ok(())
    })
}

/// # Safety
/// No other call may use the station, neither now nor later (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_finish(emp: *mut Emp) -> c_int {
    enter(|| {
        if !emp.is_null() {
            // SAFETY: `emp_init` made the pointer from a box, and this call is the last use.
            drop(unsafe { Box::from_raw(emp) });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_stations_write_them() {
        for text in ["02:00:00:0a:00:ff", "10.0.0.1:7000", "[::1]:7000"] {
            assert_eq!(address(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "10.0.0.1",
            "02:00:00:0a:00",
            "02:00:00:0a:00:ff:00",
            "02:00:00:0a:00:+1",
            "2:0:0:0:0:gg",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
