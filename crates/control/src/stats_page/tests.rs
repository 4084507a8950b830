//! Tests that a reader gets the written values, and that wrong values are refused or harmless.

use super::*;
use crate::StatsPage;
use core::sync::atomic::AtomicU64;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const SHAPE: Shape = Shape {
    number: 0,
    records_at: 4096,
    stride: 256,
    count: 70,
    used_at: 512,
    processes_at: 4096 + 70 * 256,
    process_slots: 15,
    totals_at: 4096 + 70 * 256 + 128,
};
const FILE_LEN: u64 = 4096 + 70 * 256 + 128 + StatsPage::SIZE as u64;

const FIELDS: [Field; 9] = [
    Field::half(Word::Generation, 20),
    Field::half(Word::Phase, 24),
    Field::bit(Word::HasMet, 28, 1 << 13),
    Field::whole(Word::BytesSent, 32),
    Field::whole(Word::PastBytesSent, 40),
    Field::whole(Word::AddressesOf, 48),
    Field::half(Word::Ports, 56),
    Field::half(Word::Stays, 60),
    Field::whole(Word::Configuration, 64),
];

/// Returns the first page of a file with this schema.
fn head(shape: &Shape, fields: &[Field]) -> [u8; HEAD] {
    let words = [const { AtomicU64::new(0) }; SCHEMA_WORDS];
    Schema::write(&words, shape, 77, "0.1.0", fields);
    assert!(Schema::add_file(&words, File { fd: 3080, inode: 99 }));
    let mut head = [0; HEAD];
    for (i, word) in words.into_iter().enumerate() {
        head[AT + i * 8..][..8].copy_from_slice(&word.into_inner().to_ne_bytes());
    }
    head
}

fn put(bytes: &mut [u8], at: usize, value: u64, len: usize) {
    bytes[at..at + len].copy_from_slice(&value.to_ne_bytes()[..len]);
}

#[test]
fn what_is_written_is_read() {
    let mut head = head(&SHAPE, &FIELDS);
    put(&mut head, 512 + 8, 1 << 5, 8);
    let schema = Schema::read(&head, FILE_LEN).unwrap();
    assert_eq!((schema.shape, schema.locks, schema.library()), (SHAPE, 77, "0.1.0"));
    assert!(Schema::files(&head).eq([File { fd: 3080, inode: 99 }]));
    let read = |at: u64, out: &mut [u8]| {
        let mut processes = [0; 16 * 8];
        put(&mut processes, 0, 5, 4);
        put(&mut processes, 8 + 3 * 8, 1234, 4);
        let at = (at - u64::from(SHAPE.processes_at)) as usize;
        out.copy_from_slice(&processes[at..at + out.len()]);
        true
    };
    assert_eq!(schema.processes(read), [ProcessEntry { slot: 3, pid: 1234 }]);
    assert!(schema.used(&head).eq([69]));
    assert_eq!(schema.position_of(69), (4096 + 69 * 256 + 20, 52));

    let mut record = vec![0; 256];
    put(&mut record, 20, 7, 4);
    put(&mut record, 24, Phase::Attached as u64, 4);
    put(&mut record, 28, 1 << 13, 4);
    put(&mut record, 32, 5, 8);
    put(&mut record, 40, 10, 8);
    put(&mut record, 48, 8, 8);
    put(&mut record, 56, 6379 << 16 | 80, 4);
    put(&mut record, 60, u64::from(crate::Reason::Rule as u32 + 1), 4);
    let configuration = Configuration {
        window: 32,
        threshold: 16,
        handling: Handling::Notify,
        transfer: Transfer::Copy,
    };
    put(&mut record, 64, configuration.word(), 8);
    let content = Record::read(&schema, &record[20..72]).unwrap();
    assert_eq!((content.generation, content.phase), (7, Phase::Attached));
    assert_eq!((content.traffic.bytes_sent, content.unsettled.bytes_sent), (15, 5));
    assert_eq!(content.stays, Some(crate::Reason::Rule));
    assert_eq!(content.configuration, Some(configuration));
    let (local, peer) = content.addresses.unwrap();
    assert_eq!((local.port(), peer.port()), (80, 6379));

    // The addresses of the slot's last connection do not belong to the present connection.
    put(&mut record, 48, 7, 8);
    assert_eq!(Record::read(&schema, &record[20..72]).unwrap().addresses, None);
    // If the present connection has had no VI, the counts belong to an earlier connection of the slot.
    put(&mut record, 28, 0, 4);
    assert_eq!(Record::read(&schema, &record[20..72]).unwrap().traffic.bytes_sent, 0);
    put(&mut record, 24, Phase::Free as u64, 4);
    assert_eq!(Record::read(&schema, &record[20..72]), None);
}

#[test]
fn addresses_keep_their_family() {
    for text in ["127.0.0.1:6379", "[::1]:80", "[2001:db8::7]:1"] {
        let address: core::net::SocketAddr = text.parse().unwrap();
        let (high, low) = pack_address(&address);
        let ip = core::net::Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
        assert_eq!(ip.to_canonical(), address.ip());
    }
}

#[test]
fn files_shorter_than_their_schema_says_are_refused() {
    let changes: [fn(&mut Shape); 7] = [
        |shape| shape.stride = u32::MAX,
        |shape| shape.count = 200,
        |shape| shape.count = u32::MAX,
        |shape| shape.used_at = HEAD as u32 - 8,
        |shape| shape.process_slots = 1000,
        |shape| shape.processes_at = u32::MAX,
        |shape| shape.totals_at += 1,
    ];
    assert!(Schema::read(&head(&SHAPE, &FIELDS), FILE_LEN).is_ok());
    for change in changes {
        let mut shape = SHAPE;
        change(&mut shape);
        assert_eq!(
            Schema::read(&head(&shape, &FIELDS), FILE_LEN),
            Err(Fault::Nonsense),
            "{shape:?}"
        );
    }
    for fields in
        [&[][..], &[Field::whole(Word::Cookie, 252)], &[Field::half(Word::Phase, 1 << 31)]]
    {
        assert_eq!(Schema::read(&head(&SHAPE, fields), FILE_LEN), Err(Fault::Nonsense));
    }
    assert_eq!(Schema::read(&[0; HEAD], FILE_LEN), Err(Fault::Magic));
    let mut later = head(&SHAPE, &FIELDS);
    put(&mut later, AT + 8, 9, 4);
    assert_eq!(Schema::read(&later, FILE_LEN), Err(Fault::Version(9)));
}

#[test]
fn a_familys_files_are_as_many_as_there_is_room_for() {
    let words = [const { AtomicU64::new(0) }; SCHEMA_WORDS];
    let added = (0..1000).filter(|&fd| Schema::add_file(&words, File { fd, inode: 1 })).count();
    assert!((100..1000).contains(&added), "{added}");
}

#[test]
fn words_keep_their_numbers() {
    assert!(Word::ALL.is_sorted());
    assert!(Word::ALL.iter().all(|&word| Word::of(word as u16) == Some(word)));
    assert_eq!(Word::of(0), None);
}

proptest! {
    /// A reader stops and stays within the given bytes, even if a process has written random values.
    #[test]
    fn nonsense_is_harmless(
        seeds in proptest::collection::vec((0usize..HEAD / 8, any::<u64>()), 0..24),
        record in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut head = head(&SHAPE, &FIELDS);
        for (at, word) in seeds {
            put(&mut head, at * 8, word, 8);
        }
        if let Ok(schema) = Schema::read(&head, FILE_LEN) {
            prop_assert!(schema.used(&head).count() <= RECORDS_MAX as usize);
            let processes = schema.processes(|_, bytes| {
                bytes.fill(0x7f);
                true
            });
            prop_assert!(processes.len() <= PROCESS_SLOTS as usize);
            for n in schema.used(&head).take(4) {
                let (at, len) = schema.position_of(n);
                prop_assert!(len <= SPAN_MAX && at + len as u64 <= FILE_LEN);
            }
            let _ = (Record::read(&schema, &record), schema.library().len());
        }
        let _: Vec<File> = Schema::files(&head).collect();
    }
}
