//! Property test: any bytes either fail to parse, or parse and are emitted unchanged.

use proptest::prelude::*;
use sovia_emp::wire::Frame;
use sovia_link::wire::{Checksum, EndId, begin, seal};

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn parsed_frame_is_emitted_unchanged(
        kind in 47u8..59,
        to in 0u64..2,
        from in 0u64..2,
        body in prop::collection::vec(prop_oneof![Just(0u8), 0u8..4, any::<u8>()], 0..60),
    ) {
        let mut bytes = begin(kind, EndId(to), EndId(from)).to_vec();
        bytes.extend(body);
        seal(&mut bytes);
        if let Ok(frame) = Frame::parse(&bytes, Checksum::Crc) {
            let mut room = [0xff; 200];
            let len = frame.emit(&mut room, Checksum::Crc).unwrap();
            prop_assert_eq!(&room[..len], &bytes[..]);
        }
    }
}
