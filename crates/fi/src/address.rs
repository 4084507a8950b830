//! Addresses of endpoints.

use sovia_sys::datagram::Name;
use sovia_sys::{call, netns};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// Bytes of an address.
pub const ADDRESS_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"SoviaFi\x01";
const HOST_AT: usize = 8;
const KEY_AT: usize = 24;
const PREFIX: &str = "fi_sovia://";

/// The address of an endpoint: the host whose memory it shares and a key that no other endpoint has or had. The
/// bytes behind the key are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address([u8; ADDRESS_LEN]);

impl Address {
    /// The address of an endpoint that begins now.
    ///
    /// # Errors
    /// Those of `getrandom`.
    pub fn new() -> sovia_sys::Result<Address> {
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..HOST_AT].copy_from_slice(&MAGIC);
        bytes[HOST_AT..KEY_AT].copy_from_slice(host());
        call::getrandom(&mut bytes[KEY_AT..KEY_AT + 16])?;
        Ok(Address(bytes))
    }

    /// An address that another process has told; `None` if it is none.
    pub fn read(bytes: &[u8]) -> Option<Address> {
        let bytes: [u8; ADDRESS_LEN] = bytes.get(..ADDRESS_LEN)?.try_into().ok()?;
        (bytes[..HOST_AT] == MAGIC && bytes[KEY_AT + 16..].iter().all(|&b| b == 0))
            .then_some(Address(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; ADDRESS_LEN] {
        &self.0
    }

    /// Whether the endpoint is in this host, where its socket's name can be seen.
    pub fn is_near(&self) -> bool {
        self.0[HOST_AT..KEY_AT] == *host()
    }

    /// The name at which the endpoint waits for peers.
    pub(crate) fn name(&self) -> Name {
        let mut name = String::from("sovia-fi-");
        hex(&mut name, &self.0[KEY_AT..KEY_AT + 16]);
        Name::new(name.as_bytes()).unwrap_or_else(|| unreachable!("41 bytes are a name"))
    }

    /// The address as a line of text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(PREFIX);
        hex(&mut text, &self.0[HOST_AT..KEY_AT]);
        text.push(':');
        hex(&mut text, &self.0[KEY_AT..KEY_AT + 16]);
        text
    }

    /// The address that a line of text names.
    pub fn from_text(text: &str) -> Option<Address> {
        let (host, key) = text.strip_prefix(PREFIX)?.split_once(':')?;
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..HOST_AT].copy_from_slice(&MAGIC);
        unhex(host, &mut bytes[HOST_AT..KEY_AT])?;
        unhex(key, &mut bytes[KEY_AT..KEY_AT + 16])?;
        Some(Address(bytes))
    }
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}

fn unhex(text: &str, out: &mut [u8]) -> Option<()> {
    if text.len() != 2 * out.len() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(())
}

/// This start of this machine, and the network namespace, in which abstract names are known.
fn host() -> &'static [u8; 16] {
    static HOST: OnceLock<[u8; 16]> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut host = [0; 16];
        let digits: String = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        if unhex(&digits, &mut host).is_none() {
            // No other process finds the same, so none is taken for a neighbour.
            let _ = call::getrandom(&mut host);
        }
        let space = netns::current().and_then(|space| netns::id(&space));
        let inode = space.map_or(0, |(_, inode)| inode);
        for (byte, of_space) in host.iter_mut().zip(inode.to_le_bytes()) {
            *byte ^= of_space;
        }
        host
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_from_bytes_and_text() {
        let address = Address::new().unwrap();
        assert_ne!(address, Address::new().unwrap());
        assert!(address.is_near());
        assert_eq!(Address::read(address.bytes()), Some(address));
        assert_eq!(Address::from_text(&address.to_text()), Some(address));
        let mut far = *address.bytes();
        far[HOST_AT] ^= 1;
        assert!(!Address::read(&far).unwrap().is_near());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let address = Address::new().unwrap();
        assert_eq!(Address::read(&address.bytes()[1..]), None);
        let mut bytes = *address.bytes();
        bytes[0] ^= 1;
        assert_eq!(Address::read(&bytes), None);
        bytes = *address.bytes();
        bytes[ADDRESS_LEN - 1] = 1;
        assert_eq!(Address::read(&bytes), None);
        for text in ["", "localhost", "fi_sovia://", "fi_sovia://00:11", "fi_sovia://é:é"] {
            assert_eq!(Address::from_text(text), None, "{text}");
        }
    }
}
