use super::*;

#[test]
fn a_receiver_reads_tcp_up_to_the_switch_and_no_further() {
    assert_eq!(source(0, 5), Source::Tcp);
    assert_eq!(source(CANCELLED, 5), Source::Tcp);
    assert_eq!(source(switch_word(7), 5), Source::TcpUpTo(2));
    assert_eq!(source(switch_word(5), 5), Source::Vi);
    assert_eq!(source(switch_word(4), 5), Source::Impossible);
    assert_eq!(source(switch_word(7) | ENTERED, 5), Source::TcpUpTo(2));
    assert_eq!(source(switch_word(5) | ENTERED, 5), Source::Vi);
    assert_eq!(source(ENTERED, 5), Source::Impossible, "nonsense, and no panic");
}

#[test]
fn words_are_taken_apart_as_they_were_put_together() {
    assert_eq!(Switch::from_word(0), Switch::Not);
    assert_eq!(Switch::from_word(switch_word(0)), Switch::At(0));
    assert_eq!(Switch::from_word(switch_word(9) | ENTERED), Switch::Entered(9));
    assert_eq!(Switch::from_word(CANCELLED), Switch::Cancelled);
    assert_eq!(Switch::from_word(ENTERED), Switch::Entered(0), "nonsense, and no panic");
    assert_eq!(Returned::from_word(0), Returned::Not);
    assert_eq!(Returned::from_word(returned_word(3)), Returned::Bytes(3));
    assert_eq!(Returned::from_word(REFUSED), Returned::Refused);
}

#[test]
fn a_sender_that_leaves_cancels_only_a_switch_that_is_not_entered() {
    assert_eq!(leave(Tx::Vi, switch_word(3), false, false), Leave::Cancel(switch_word(3)));
    assert_eq!(leave(Tx::Vi, switch_word(3), false, true), Leave::End);
    assert_eq!(leave(Tx::Vi, switch_word(3) | ENTERED, false, false), Leave::End);
    assert_eq!(leave(Tx::Vi, switch_word(3), true, false), Leave::Quietly);
    assert_eq!(leave(Tx::Tcp, 0, false, false), Leave::Quietly);
}

#[test]
fn a_sender_refuses_only_a_receiver_that_has_not_revoked() {
    assert_eq!(owed(Grant::Entered, 0), Owed::Refuse);
    assert_eq!(owed(Grant::Revoked, 0), Owed::Wait);
    assert_eq!(owed(Grant::Revoked, returned_word(0)), Owed::Nothing);
    assert_eq!(owed(Grant::Entered, returned_word(3)), Owed::Drain(3));
    assert_eq!(owed(Grant::Revoked, REFUSED), Owed::Nothing);
}

#[test]
fn fallback_returns_bytes_in_front_of_to_tcp_only_once() {
    assert_eq!(answer(Seen::ToTcp, 3), returned_word(3));
    assert_eq!(answer(Seen::Ended, 3), returned_word(0));
    assert_eq!(answer(Seen::Impatient, 3), returned_word(0));
    assert_eq!(rest(Seen::ToTcp, 3, 0), Rest::Returned);
    assert_eq!(rest(Seen::ToTcp, 3, returned_word(3)), Rest::Returned);
    assert_eq!(rest(Seen::ToTcp, 2, returned_word(3)), Rest::Kept, "a part has come on TCP");
    assert_eq!(rest(Seen::ToTcp, 3, REFUSED), Rest::Kept);
    assert_eq!(rest(Seen::ToTcp, 0, REFUSED), Rest::Plain);
    assert_eq!(rest(Seen::Ended, 3, 0), Rest::Kept);
    assert_eq!(rest(Seen::Ended, 0, 0), Rest::Plain);
    assert_eq!(rest(Seen::Impatient, 0, 0), Rest::Kept, "more may come");
}

#[test]
fn a_fallback_waits_for_what_the_sender_is_putting_on_tcp() {
    let entered = switch_word(3) | ENTERED;
    assert_eq!(on_tcp(Rx::Granted, 0, false, 0, false), Await::Nothing);
    assert_eq!(on_tcp(Rx::Granted, CANCELLED, false, 0, false), Await::TakenBack);
    assert_eq!(on_tcp(Rx::Vi, CANCELLED, false, 0, false), Await::TakenBack, "rescued");
    assert_eq!(on_tcp(Rx::Granted, CANCELLED, true, 0, false), Await::Nothing);
    assert_eq!(on_tcp(Rx::Back, entered, false, returned_word(2), false), Await::Drained);
    assert_eq!(on_tcp(Rx::Back, entered, false, returned_word(2), true), Await::Nothing);
    assert_eq!(on_tcp(Rx::Back, entered, false, returned_word(0), false), Await::Nothing);
    assert_eq!(on_tcp(Rx::Back, entered, false, REFUSED, false), Await::Nothing);
    assert!(revokes(Rx::Vi) && revokes(Rx::Granted));
    assert!(!revokes(Rx::Back) && !revokes(Rx::Tcp));
}

#[test]
fn what_tcp_did_not_bring_is_found_on_the_vi() {
    let taken = |taken_back| rescue(Rx::Granted, CANCELLED, taken_back, 0, false, 10, 13);
    assert_eq!(taken(false), Some(3));
    assert_eq!(taken(true), None);
    let entered = switch_word(10) | ENTERED;
    let returned = |word, drained| rescue(Rx::Back, entered, false, word, drained, 10, 13);
    assert_eq!(returned(returned_word(4), false), Some(3));
    assert_eq!(returned(returned_word(4), true), None);
    assert_eq!(returned(returned_word(0), false), None);
    assert_eq!(returned(REFUSED, false), None);
    assert_eq!(rescue(Rx::Vi, entered, false, returned_word(4), false, 10, 13), None);
}
