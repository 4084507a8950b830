//! The program that the device runs. It passes frames of one EtherType to the sockets, and all others to the kernel.

use crate::ethernet::HEADER;
use sovia_sys::bpf::{Instruction, SocketMap};

/// Offset of the EtherType in a header.
const ETHER_TYPE_AT: i16 = 12;

/// Returns the program. A frame of a queue without a socket also goes to the kernel.
pub(super) fn code(ether_type: u16, sockets: &SocketMap) -> Vec<Instruction> {
    const LOAD: u8 = 0x61;
    const LOAD_HALF: u8 = 0x69;
    const LOAD_CONSTANT: u8 = 0x18;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const IF_NOT_EQUAL: u8 = 0x55;
    const IF_GREATER: u8 = 0x2d;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    // Offsets in `struct xdp_md`.
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    const RECEIVE_QUEUE: i16 = 16;
    // A value for the source register: the constant is the descriptor of a map.
    const MAP: u8 = 1;
    const REDIRECT_MAP: i32 = 51;
    /// `XDP_PASS`.
    const TO_THE_KERNEL: i32 = 2;

    let instruction = |code, to: u8, from: u8, offset: i16, constant: i32| Instruction {
        code,
        registers: to | from << 4,
        offset,
        constant,
    };
    // The EtherType as this host loads it from a frame.
    let ether_type = i32::from(ether_type.to_be());
    vec![
        instruction(LOAD, 2, 1, DATA, 0),
        instruction(LOAD, 3, 1, DATA_END, 0),
        instruction(MOVE, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, HEADER as i32),
        // Jumps to the last two instructions if the header is incomplete, or has another EtherType.
        instruction(IF_GREATER, 4, 3, 8, 0),
        instruction(LOAD_HALF, 4, 2, ETHER_TYPE_AT, 0),
        instruction(IF_NOT_EQUAL, 4, 0, 6, ether_type),
        instruction(LOAD, 2, 1, RECEIVE_QUEUE, 0),
        // Loading a 64-bit constant takes the space of two instructions.
        instruction(LOAD_CONSTANT, 1, MAP, 0, sockets.raw()),
        instruction(0, 0, 0, 0, 0),
        // The result if the queue has no socket.
        instruction(SET, 3, 0, 0, TO_THE_KERNEL),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(SET, 0, 0, 0, TO_THE_KERNEL),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}
