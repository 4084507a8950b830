//! What every provider must do, as cases that run against any [`Nic`].
//!
//! A case has two roles, server and client, to be run at the same time by two threads or two
//! processes; each asserts what it sees, and panics where that is wrong. How the two are started
//! is the provider's business, as is a watchdog. A provider calls [`cases`] with its NIC type and
//! runs them all.

mod connections;
mod end;
mod errors;
mod many;
mod protection;
mod transfers;
mod waiting;

use crate::{NetAddress, Nic};
use core::time::Duration;
pub use end::End;

/// Long enough for whatever is to happen soon; only a failure waits this long.
pub const SOON: Option<Duration> = Some(Duration::from_secs(10));

/// What a role gets.
#[derive(Debug)]
pub struct Context<'n, N: Nic> {
    /// The role's own NIC.
    pub nic: &'n N,
    /// Where the server waits. The discriminator is of this run of the case alone.
    pub server: NetAddress,
}

impl<N: Nic> Context<'_, N> {
    /// The client's own address.
    pub fn client(&self) -> NetAddress {
        NetAddress::new(&self.nic.attributes().local_address, b"client")
    }
}

/// A case.
#[derive(Debug)]
pub struct Case<N: Nic> {
    /// What is to hold.
    pub name: &'static str,
    /// The role that waits for connections.
    pub server: fn(&Context<'_, N>),
    /// The role that requests them.
    pub client: fn(&Context<'_, N>),
}

macro_rules! cases {
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        vec![$($(Case {
            name: stringify!($name),
            server: $module::$name::server::<N>,
            client: $module::$name::client::<N>,
        }),+),+]
    };
}

/// Every case.
pub fn cases<N: Nic>() -> Vec<Case<N>> {
    cases! {
        transfers {
            every_size_arrives_whole,
            segments_gather_and_scatter,
            order_is_kept,
            immediate_data_travels,
            receives_posted_before_connecting_count,
        }
        connections {
            nobody_waits_is_no_match,
            a_request_can_be_rejected,
            a_request_times_out,
            attributes_must_match,
            addresses_and_attributes_are_told,
            a_vi_connects_again,
            several_wait_at_one_address,
            many_vis_between_two,
        }
        errors {
            too_long_a_message_breaks,
            no_posted_receive_breaks,
            disconnecting_flushes_and_breaks_the_far_side,
            what_was_sent_before_the_end_arrives,
            illegal_posts_are_refused,
            malformed_descriptors_end_in_error,
        }
        protection {
            foreign_memory_is_not_sent,
            foreign_memory_is_not_received_into,
            handles_and_tags_are_checked,
        }
        many {
            more_receives_than_any_ring,
            a_queue_takes_what_it_promises,
            sends_without_room_wait_their_turn,
        }
        waiting {
            empty_queues_say_so,
            a_wait_times_out,
            a_sleeper_is_woken_by_a_message,
            a_sleeper_is_woken_by_the_end,
            done_does_not_block_behind_wait,
            threads_share_a_vi,
            ping_pong,
        }
    }
}
