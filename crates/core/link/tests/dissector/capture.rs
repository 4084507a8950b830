//! Writes captures: files of packets for tshark.

/// The packet type that carries a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Medium {
    /// An Ethernet frame with the format's EtherType, optionally padded to Ethernet's minimum length.
    Ethernet { is_padded: bool },
    /// A UDP datagram over IPv4 between these ports.
    Udp { from: u16, to: u16 },
}

const ETHER_TYPE: u16 = 0x88b5;
const IPV4: u16 = 0x0800;
/// Minimum length of an Ethernet frame, without its check sequence.
const LEAST: usize = 60;

/// Returns a capture of Ethernet frames in pcap format.
pub(crate) fn capture(packets: &[(Medium, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2u16, 4].map(u16::to_le_bytes).concat());
    // Time zone, precision, snapshot length, Ethernet.
    file.extend([0u32, 0, 1 << 18, 1].map(u32::to_le_bytes).concat());
    for (n, (medium, frame)) in packets.iter().enumerate() {
        let packet = packet(*medium, frame);
        let length = packet.len() as u32;
        file.extend([n as u32, 0, length, length].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

fn packet(medium: Medium, frame: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match medium {
        Medium::Ethernet { is_padded } => {
            packet.extend(ETHER_TYPE.to_be_bytes());
            packet.extend(frame);
            if is_padded {
                packet.resize(packet.len().max(LEAST), 0);
            }
        }
        Medium::Udp { from, to } => {
            let length = 8 + frame.len() as u16;
            packet.extend(IPV4.to_be_bytes());
            packet.extend([0x45, 0]);
            packet.extend((20 + length).to_be_bytes());
            // No fragments; a time to live; UDP; no checksum, which tshark does not check.
            packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            packet.extend([from, to, length, 0].map(u16::to_be_bytes).concat());
            packet.extend(frame);
        }
    }
    packet
}
