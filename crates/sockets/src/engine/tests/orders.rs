//! Concurrent steps of two ends, in every order.
//!
//! Bytes arrive once and in order, an end comes after the last byte, and poll reports the truth. A program that is driven by
//! edges alone is woken whenever it could go on.

use super::steps::in_every_order;

macro_rules! orders {
    ($($(#[$attribute:meta])* $name:ident: $at:ident, $a:literal, $b:literal;)+) => {
        $(mod $name {
            use super::super::harness::At;
            use crate::conn::Role;

            $(#[$attribute])*
            #[test]
            fn from_the_connector() {
                super::in_every_order(At::$at, Role::Connector, $a, $b);
            }

            $(#[$attribute])*
            #[test]
            fn from_the_acceptor() {
                super::in_every_order(At::$at, Role::Acceptor, $a, $b);
            }
        })+
    };
}

orders! {
    ends_that_talk_come_to_the_vi: Tcp, "w4 r4 w4 r4 w4", "r4 w4 r4 w4 r4";
    ends_that_write_first_come_to_the_vi: Tcp, "w400 w40 r40 w4", "w400 w40 r40 w4";
    an_end_polls_on_its_way_to_the_vi: Tcp, "w4 p w4 p", "p w4 p r2 p";
    an_end_looks_on_its_way_to_the_vi: Granted, "w30 w30 w30", "k50 r40 k50 r20";
    an_end_falls_back_on_its_way_to_the_vi: Tcp, "w4 r4 w4 l t", "r4 w4 l r4 t";
    an_end_shuts_its_half_on_its_way_to_the_vi: Granted, "w30 f t", "r10 w30 r10 t";
    a_receiver_falls_back_while_its_peer_switches: Granted, "w10 w10 t", "r5 l r10 t";
    a_sender_falls_back_just_after_its_switch: Switched, "w100 l t w10", "r50 t r100";
    both_fall_back_just_after_a_switch: Switched, "w100 l t w10", "r50 l t r50";
    a_receiver_falls_back_while_its_peer_writes: Entered, "w10 w200 t w10", "l r50 t r300";
    a_sender_falls_back_while_its_peer_reads: Entered, "w100 l w10 t", "r50 t r100 p";
    both_fall_back: Entered, "w100 l t r50", "w100 l t r50";
    a_receiver_falls_back_from_a_full_window: Entered, "w40000 w40000 w70000 t", "r10000 l t r90000";
    both_fall_back_with_much_unread: Entered, "w70000 l t r9", "w70000 l t r9";
    a_receiver_falls_back_while_its_peer_shuts_its_half: Entered, "w100 f t t", "l r50 t r50";
    a_sender_falls_back_and_shuts_its_half: Entered, "w100 l f t", "w50 r100 t";
    both_fall_back_and_shut_their_halves: Entered, "w10 l f t", "w10 l f t";
    an_end_looks_while_its_peer_falls_back: Entered, "w100 w100 l t", "k150 r120 k100 t";
    both_poll_while_they_fall_back: Entered, "p w10 l p t", "p r5 l p t";
    an_end_polls_while_unread_bytes_come_on_tcp: Draining, "t w10 t", "p k500 r100 t p";
    an_end_shuts_its_half_while_unread_bytes_come_on_tcp: Draining, "t f t", "r10 t w10 r2000 f";
    a_sender_shuts_its_half_before_it_answers: Revoked, "w10 f t", "t r10 w10 t";
    an_end_falls_back_as_its_peer_has_left: Left, "w10 t r10", "l w10 t r10";
}

orders! {
    edges_suffice_from_tcp_on: Tcp, "E e t e", "E e t e";
    edges_suffice_where_one_end_begins_late: Tcp, "E e t", "w4 r4 t E e";
    edges_suffice_from_the_grant_on: Granted, "E e t e", "E e t e";
    edges_suffice_from_the_switch_on: Switched, "E e t e", "E e t e";
    edges_suffice_on_the_vi: Entered, "E e t e", "E e t e";
    edges_suffice_from_the_revocation_on: Revoked, "E e t e", "E e t e";
    edges_suffice_after_the_sender_has_left: Left, "E e t e", "E e t e";
    edges_suffice_while_unread_bytes_come_on_tcp: Draining, "E e t e", "E e t e";
    edges_suffice_on_tcp_again: Back, "E e t e", "E e t e";
    edges_suffice_while_the_receiver_falls_back: Entered, "E e t e", "E l e t";
    edges_suffice_while_both_fall_back: Entered, "E l e t", "E e t l";
    edges_suffice_on_the_way_there_and_back: Tcp, "E e l t", "E e t l e";
    edges_suffice_from_the_grant_on_beside_an_ended_direction: Granted, "E e t e", "f t r9000 t";
    edges_suffice_from_the_switch_on_beside_an_ended_direction: Switched, "E e t e", "f t r9000 t";
    edges_suffice_on_the_vi_beside_an_ended_direction: Entered, "E e t e", "f t r9000 t";
    edges_suffice_from_the_revocation_on_beside_an_ended_direction: Revoked, "E e t e", "f t r9000 t";
    edges_suffice_for_a_writer_whose_peer_comes_to_the_vi: Tcp, "E e t e e", "r9 w4 r9 w4 r9";
    edges_suffice_for_a_writer_whose_peer_is_full: Granted, "E e t e", "w300000 t r9000 t";
}
