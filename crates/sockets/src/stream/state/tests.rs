//! Tests every combination of the arguments on which the results depend.

use super::*;

/// Flags that can change a result.
const KNOWN: [u32; 11] = [
    flag::CORRUPT,
    flag::EOF,
    flag::SHUT_RD,
    flag::SHUT_WR,
    flag::PEER_GONE,
    flag::DEAD,
    flag::KERNEL_SOCKET,
    flag::ENDED,
    flag::ERROR,
    flag::RESET,
    flag::WITHHELD,
];

/// Returns every combination of the flags in [`KNOWN`].
fn sets() -> impl Iterator<Item = u32> {
    (0..1u32 << KNOWN.len()).map(|set| {
        let of = |(i, flag): (usize, &u32)| if set >> i & 1 != 0 { *flag } else { 0 };
        KNOWN.iter().enumerate().map(of).fold(0, |sum, flag| sum | flag)
    })
}

/// Returns all flags that can change no result: those that are not in [`KNOWN`].
fn others() -> u32 {
    !KNOWN.iter().fold(0, |sum, flag| sum | flag)
}

/// Row of a table of expected results. The row applies if at least one of its flags is set, or if its flags are 0.
/// Also, its list of other arguments must be empty or contain the present ones. The last value is the expected
/// result.
type Row<'t, K, A> = (u32, &'t [K], A);

/// Compares the results of all combinations with a table. The first row that applies to a combination has the
/// expected result. Fails if a row is used for no combination.
fn compare<K: Copy + PartialEq + core::fmt::Debug, A: Copy + PartialEq + core::fmt::Debug>(
    combinations: impl Iterator<Item = (u32, K)>,
    answer: impl Fn(u32, K) -> A,
    table: &[Row<'_, K, A>],
) {
    let mut needed = vec![false; table.len()];
    for (flags, key) in combinations {
        let applies = |(any, keys, _): &Row<'_, K, A>| {
            (*any == 0 || flags & any != 0) && (keys.is_empty() || keys.contains(&key))
        };
        let row = table.iter().position(applies).expect("a row for every combination");
        needed[row] = true;
        assert_eq!(answer(flags, key), table[row].2, "flags {flags:#x}, {key:?}: row {row}");
        assert_eq!(answer(flags | others(), key), table[row].2, "{flags:#x} with the others");
    }
    assert!(needed.iter().all(|needed| *needed), "{needed:?}");
}

#[test]
fn receives_without_bytes_do_what_the_table_says() {
    // The second column is `has_asked`: true if the caller has found out whether the peer has gone.
    let table: &[Row<'_, bool, Receives>] = &[
        (flag::EOF, &[], Receives::End),
        (flag::CORRUPT, &[], Receives::Fails),
        (
            flag::PEER_GONE | flag::SHUT_RD | flag::KERNEL_SOCKET | flag::DEAD,
            &[false],
            Receives::Asks,
        ),
        (flag::PEER_GONE, &[true], Receives::Gone),
        (flag::SHUT_RD, &[true], Receives::End),
        (0, &[], Receives::Waits),
    ];
    let combinations = sets().flat_map(|flags| [false, true].map(|asked| (flags, asked)));
    compare(combinations, receives, table);
}

#[test]
fn sends_go_where_the_table_says() {
    use Receiver::{HasLeft, HasShut, Listens, Revokes};
    let txs = [Tx::Tcp, Tx::Vi, Tx::Back];
    let receivers = [Listens, HasShut, HasLeft, Revokes];
    let any = |tx| receivers.map(|receiver| (tx, receiver));
    let off_vi: Vec<_> = any(Tx::Tcp).into_iter().chain(any(Tx::Back)).collect();
    // The second column has the sender's path and the receiver's state.
    let table: &[Row<'_, (Tx, Receiver), Sends>] = &[
        (flag::CORRUPT, &[], Sends::Over),
        (0, &off_vi, Sends::OnTcp),
        (flag::SHUT_WR | flag::PEER_GONE, &[], Sends::Over),
        (0, &[(Tx::Vi, HasShut)], Sends::Over),
        (0, &[(Tx::Vi, HasLeft)], Sends::Left),
        (0, &[(Tx::Vi, Revokes)], Sends::Revoked),
        (0, &[(Tx::Vi, Listens)], Sends::OverVi),
    ];
    let keys: Vec<_> = txs.into_iter().flat_map(any).collect();
    let combinations = sets().flat_map(|flags| keys.iter().map(move |&key| (flags, key)));
    compare(combinations, |flags, (tx, receiver)| sends(flags, tx, receiver), table);
}

#[test]
fn events_that_need_no_kernel_socket_are_those_of_three_flags() {
    let words = |events: i16| {
        let names = [
            (libc::POLLIN, "IN"),
            (libc::POLLRDNORM, "RDNORM"),
            (libc::POLLOUT, "OUT"),
            (libc::POLLWRNORM, "WRNORM"),
            (libc::POLLERR, "ERR"),
            (libc::POLLHUP, "HUP"),
            (libc::POLLRDHUP, "RDHUP"),
        ];
        let there = names.iter().filter(|(bit, _)| events & bit != 0);
        assert_eq!(events & !names.iter().fold(0, |sum, (bit, _)| sum | bit), 0);
        there.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    };
    for flags in sets() {
        let is = |flag| flags & flag != 0;
        let expected = match (is(flag::CORRUPT), is(flag::RESET), is(flag::ERROR)) {
            (true, true, _) => "IN RDNORM OUT WRNORM ERR HUP RDHUP",
            (true, false, _) => "IN RDNORM OUT WRNORM ERR HUP",
            (false, true, true) => "ERR HUP RDHUP",
            (false, true, false) => "HUP RDHUP",
            (false, false, true) => "ERR",
            (false, false, false) => "",
        };
        assert_eq!(words(events(flags)), expected, "{flags:#x}");
        assert_eq!(events(flags | others()), events(flags), "{flags:#x} with the others");
    }
}

#[test]
fn flags_outside_the_masks_change_no_answer() {
    for flags in sets() {
        for asked in [false, true] {
            assert_eq!(receives(flags, asked), receives(flags & RECEIVES, asked), "{flags:#x}");
        }
        for receiver in [Receiver::Listens, Receiver::HasShut] {
            let of = |flags| sends(flags, Tx::Vi, receiver);
            assert_eq!(of(flags), of(flags & SENDS), "{flags:#x}");
        }
        // EVENTS need not contain RESET, because RESET is never set without PEER_GONE.
        let of_events = EVENTS | flag::RESET;
        assert_eq!(events(flags), events(flags & of_events), "{flags:#x}");
    }
    assert_eq!(WAKES & !EVENTS, 0, "a thread is woken for something that is no event");
}
