//! Ethernet headers.

/// The default EtherType: the first one that IEEE 802 reserves for experiments.
pub const ETHER_TYPE: u16 = 0x88b5;

/// Length of a header in bytes.
pub const HEADER: usize = 14;

/// Writes a header.
pub(crate) fn emit(header: &mut [u8; HEADER], to: [u8; 6], from: [u8; 6], ether_type: u16) {
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&ether_type.to_be_bytes());
}

/// A parsed frame, from the view of one address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A frame for this address or for all: its sender and its payload.
    Ours([u8; 6], &'a [u8]),
    /// A frame for another address.
    Foreign,
    /// A frame with another EtherType, or too short.
    Malformed,
}

/// Parses a frame that has arrived at the port with the address `own`.
pub(crate) fn parse(frame: &[u8], own: [u8; 6], ether_type: u16) -> Parsed<'_> {
    let Some((header, payload)) = frame.split_first_chunk::<HEADER>() else {
        return Parsed::Malformed;
    };
    let [a, b, c, d, e, f, g, h, i, j, k, l, high, low] = *header;
    let is_for_all = a & 1 != 0;
    if u16::from_be_bytes([high, low]) != ether_type {
        Parsed::Malformed
    } else if is_for_all || [a, b, c, d, e, f] == own {
        Parsed::Ours([g, h, i, j, k, l], payload)
    } else {
        Parsed::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn frame(to: [u8; 6], payload: &[u8]) -> Vec<u8> {
        let mut header = [0; HEADER];
        emit(&mut header, to, OTHER, ETHER_TYPE);
        [&header, payload].concat()
    }

    #[test]
    fn frame_for_the_own_or_a_group_address_is_taken() {
        for to in [OWN, [0xff; 6], [3, 0, 0, 0, 0, 9]] {
            let frame = frame(to, b"payload");
            assert_eq!(parse(&frame, OWN, ETHER_TYPE), Parsed::Ours(OTHER, b"payload"));
        }
        assert_eq!(parse(&frame(OTHER, b""), OWN, ETHER_TYPE), Parsed::Foreign);
    }

    #[test]
    fn short_frame_or_other_ether_type_is_malformed() {
        let whole = frame(OWN, b"");
        for len in 0..HEADER {
            assert_eq!(parse(&whole[..len], OWN, ETHER_TYPE), Parsed::Malformed);
        }
        assert_eq!(parse(&whole, OWN, 0x0800), Parsed::Malformed);
    }
}
