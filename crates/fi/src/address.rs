//! Addresses of endpoints.

use emp_eth::Whereabouts;
use sovia_sys::datagram::Name;
use sovia_sys::{call, netns};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// Bytes of an address: `FI_NAME_MAX`, and no more, for Open MPI has room for so many.
pub const ADDRESS_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"SoviaFi\x01";
const HOST_AT: usize = 8;
const KEY_AT: usize = 16;
const PLACE_AT: usize = 32;
const SECRET_AT: usize = 56;
const PREFIX: &str = "fi_sovia://";

/// The address of an endpoint: the host whose memory it shares; a key that no other endpoint has or had; and, if other hosts
/// reach it, where, and what they have to know. The last two are zero if they do not.
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
        call::getrandom(&mut bytes[KEY_AT..PLACE_AT])?;
        Ok(Address(bytes))
    }

    /// An address that another process has told; `None` if it is none.
    pub fn read(bytes: &[u8]) -> Option<Address> {
        let bytes: [u8; ADDRESS_LEN] = bytes.get(..ADDRESS_LEN)?.try_into().ok()?;
        let address = Address(bytes);
        let is_near_only = bytes[PLACE_AT..].iter().all(|&b| b == 0);
        (bytes[..HOST_AT] == MAGIC && (is_near_only || address.far().is_some())).then_some(address)
    }

    /// The address of an endpoint that other hosts reach there, if they know the secret.
    pub(crate) fn with_far(mut self, place: Whereabouts, secret: u64) -> Address {
        self.0[PLACE_AT..SECRET_AT].copy_from_slice(&place.bytes());
        self.0[SECRET_AT..].copy_from_slice(&secret.to_le_bytes());
        self
    }

    /// Where other hosts reach the endpoint, and what they have to know.
    pub(crate) fn far(&self) -> Option<(Whereabouts, u64)> {
        let (mut place, mut secret) = ([0; SECRET_AT - PLACE_AT], [0; 8]);
        place.copy_from_slice(&self.0[PLACE_AT..SECRET_AT]);
        secret.copy_from_slice(&self.0[SECRET_AT..]);
        Some((Whereabouts::read(place)?, u64::from_le_bytes(secret)))
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
        hex(&mut name, &self.0[KEY_AT..PLACE_AT]);
        Name::new(name.as_bytes()).unwrap_or_else(|| unreachable!("41 bytes are a name"))
    }

    /// The address as a line of text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(PREFIX);
        hex(&mut text, &self.0[HOST_AT..KEY_AT]);
        text.push(':');
        hex(&mut text, &self.0[KEY_AT..PLACE_AT]);
        if self.far().is_some() {
            text.push(':');
            hex(&mut text, &self.0[PLACE_AT..]);
        }
        text
    }

    /// The address that a line of text names.
    pub fn from_text(text: &str) -> Option<Address> {
        let (host, rest) = text.strip_prefix(PREFIX)?.split_once(':')?;
        let (key, far) = rest.split_once(':').map_or((rest, None), |(key, far)| (key, Some(far)));
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..HOST_AT].copy_from_slice(&MAGIC);
        unhex(host, &mut bytes[HOST_AT..KEY_AT])?;
        unhex(key, &mut bytes[KEY_AT..PLACE_AT])?;
        if let Some(far) = far {
            unhex(far, &mut bytes[PLACE_AT..])?;
        }
        Address::read(&bytes)
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
fn host() -> &'static [u8; KEY_AT - HOST_AT] {
    static HOST: OnceLock<[u8; KEY_AT - HOST_AT]> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut boot = [0; 16];
        let digits: String = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        if unhex(&digits, &mut boot).is_none() {
            // No other process finds the same, so none is taken for a neighbour.
            let _ = call::getrandom(&mut boot);
        }
        let mut host = [0; KEY_AT - HOST_AT];
        for (at, byte) in boot.into_iter().enumerate() {
            host[at % (KEY_AT - HOST_AT)] ^= byte;
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
        let place = Whereabouts::from(&emp_eth::Address::Udp("10.0.0.1:7000".parse().unwrap()));
        let far = address.with_far(place, 77);
        assert_eq!((address.far(), far.far()), (None, Some((place, 77))));
        assert_eq!(Address::read(far.bytes()), Some(far));
        assert_eq!(Address::from_text(&far.to_text()), Some(far));
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
