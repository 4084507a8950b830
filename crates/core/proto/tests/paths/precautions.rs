//! Precautions of the protocol. A test can leave each one out.

/// Precautions of the protocol. For each except `refuse_late`, a test leaves the precaution out, and finds a wrong or
/// lost byte or an end that waits for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precautions {
    /// The sender looks at the grant again after it has published its switch.
    pub(crate) look_at_grant_again: bool,
    /// The sender takes this switch back by compare-exchange.
    pub(crate) unswitch_by_exchange: bool,
    /// The receiver enters by compare-exchange, because the sender may take its switch back.
    pub(crate) enter_by_exchange: bool,
    /// A receiver that revokes also claims the switch by compare-exchange.
    pub(crate) revoke_enters: bool,
    /// A sender that leaves the VI before the receiver has entered cancels its switch, and sends no ToTcp.
    pub(crate) cancel_before_entry: bool,
    /// The sender does not cancel its switch once FIN is on the VI.
    pub(crate) keep_after_fin: bool,
    /// New bytes wait until the sender has drained the returned bytes.
    pub(crate) hold_back: bool,
    /// At TCP's end the receiver looks at the switch again.
    pub(crate) look_at_end: bool,
    /// A sender that leaves the socket to the kernel refuses to drain.
    pub(crate) refuse: bool,
    /// The sender refuses only at the end of its fallback.
    pub(crate) refuse_late: bool,
    /// At TCP's end the receiver looks on the VI for bytes that the sender has not put on TCP.
    pub(crate) rescue: bool,

    /// Returned bytes stay on the VI until the sender has drained them.
    pub(crate) stay_until_drained: bool,
    /// A receiver that finds returned bytes on the VI skips those that TCP has brought.
    pub(crate) skip_what_came: bool,
    /// The receiver keeps the VI's bytes if its time limit for the sender expires.
    pub(crate) keep_when_impatient: bool,
    /// The receiver does so even while the sender takes its bytes back.
    pub(crate) keep_when_taken_slowly: bool,
    /// The receiver does so even while the sender drains.
    pub(crate) keep_when_drained_slowly: bool,
    /// A receiver that falls back waits for a sender that is taking its bytes back.
    pub(crate) await_taking_back: bool,
    /// The receiver notices a sender's death even if TCP has unread bytes.
    pub(crate) see_death_behind_bytes: bool,
    /// After it has noticed a death, the receiver looks at the VI once more.
    pub(crate) look_at_vi_again: bool,
    /// If a thread dies just after it has returned bytes, no other thread reads them on the VI.
    pub(crate) finish_return: bool,
    /// A reader that comes to ToTcp during a fallback of its family answers the sender.
    pub(crate) answer_as_reader: bool,
    /// No step of a fallback is taken in the middle of another thread's read.
    pub(crate) one_at_a_time: bool,
    /// A receiver that has claimed a switch still reads TCP up to the switch first.
    pub(crate) tcp_first: bool,
    /// A receiver that enters a switch which a fallback has claimed does not overwrite the revoke.
    pub(crate) keep_revoke: bool,
    /// A receiver that is back on TCP does not revoke.
    pub(crate) revoke_what_runs: bool,

    /// Between hosts: only the receiver claims the switch, never a NIC.
    pub(crate) receiver_claims: bool,
    /// The receiver waits until its claim is decided.
    pub(crate) await_claim: bool,
    /// A sender that is revoked before the claim arrives cancels its switch.
    pub(crate) cancel_unclaimed: bool,
    /// The receiver waits until its revoke is confirmed.
    pub(crate) await_confirmation: bool,
    /// A NIC stores the revoke before it looks at the switch. It sends this switch before the confirmation.
    pub(crate) revoke_before_look: bool,
    pub(crate) switch_before_confirmation: bool,
    /// The receiver waits for the sender's verdict on the returned bytes.
    pub(crate) await_verdict: bool,
    /// The receiver's readers also wait for the verdict.
    pub(crate) hold_reads: bool,
    pub(crate) consumed_before_returned: bool,
    /// TCP's end is the stream's end only after the sender's NIC has reported that everything has been sent.
    pub(crate) await_gone: bool,
    /// The NIC reports this last.
    pub(crate) gone_is_last: bool,
}

impl Precautions {
    pub(crate) const ALL: Precautions = Precautions {
        look_at_grant_again: true,
        unswitch_by_exchange: true,
        enter_by_exchange: true,
        revoke_enters: true,
        cancel_before_entry: true,
        keep_after_fin: true,
        hold_back: true,
        look_at_end: true,
        refuse: true,
        refuse_late: true,
        rescue: true,

        stay_until_drained: true,
        skip_what_came: true,
        keep_when_impatient: true,
        keep_when_taken_slowly: true,
        keep_when_drained_slowly: true,
        await_taking_back: true,
        see_death_behind_bytes: true,
        look_at_vi_again: true,
        finish_return: true,
        answer_as_reader: true,
        one_at_a_time: true,
        tcp_first: true,
        keep_revoke: true,
        revoke_what_runs: true,

        receiver_claims: true,
        await_claim: true,
        cancel_unclaimed: true,
        await_confirmation: true,
        revoke_before_look: true,
        switch_before_confirmation: true,
        await_verdict: true,
        hold_reads: true,
        consumed_before_returned: true,
        await_gone: true,
        gone_is_last: true,
    };
}
