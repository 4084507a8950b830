//! What the protocol takes care of, each to be left out.

/// The precautions of the protocol. Each has a test that leaves it out and sees bytes go astray,
/// or an end wait for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precautions {
    /// The sender looks at the grant again after it has published its switch.
    pub(crate) look_at_grant_again: bool,
    /// That switch is taken back by compare-exchange.
    pub(crate) unswitch_by_exchange: bool,
    /// The receiver enters by compare-exchange, against a sender that takes its switch back.
    pub(crate) enter_by_exchange: bool,
    /// So does a receiver that revokes.
    pub(crate) revoke_enters: bool,
    /// A sender that leaves before the receiver has entered cancels, and sends no ToTcp.
    pub(crate) cancel_before_entry: bool,
    /// It does not cancel once FIN is on the VI.
    pub(crate) keep_after_fin: bool,
    /// New bytes wait until the returned ones have been drained.
    pub(crate) hold_back: bool,
    /// At TCP's end the receiver looks at the switch again.
    pub(crate) look_at_end: bool,
    /// A sender that goes its own way refuses to drain.
    pub(crate) refuse: bool,
    /// But only at the end of its retreat.
    pub(crate) refuse_late: bool,
    /// At TCP's end the receiver looks on the VI for bytes that were not all taken back.
    pub(crate) rescue: bool,

    /// What is returned stays on the VI until it is drained.
    pub(crate) stay_until_drained: bool,
    /// A receiver that finds it there passes over what TCP has brought.
    pub(crate) skip_what_came: bool,
    /// The receiver keeps reading the VI when its patience with a sender is over.
    pub(crate) keep_when_impatient: bool,
    /// So it does when its patience with a sender is over that takes its bytes back.
    pub(crate) keep_when_taken_slowly: bool,
    /// Likewise, with one that drains.
    pub(crate) keep_when_drained_slowly: bool,
    /// A receiver that retreats waits for a sender that is taking its bytes back.
    pub(crate) await_taking_back: bool,
    /// It sees a sender's death although TCP has unread bytes.
    pub(crate) see_death_behind_bytes: bool,
    /// Having seen it, it looks at the VI once more.
    pub(crate) look_at_vi_again: bool,
    /// Where a thread has died that had just returned bytes, they are not read on the VI.
    pub(crate) finish_return: bool,
    /// A reader that comes to ToTcp while its family retreats answers the sender.
    pub(crate) answer_as_reader: bool,
    /// Its steps are not taken in the middle of their reads.
    pub(crate) one_at_a_time: bool,
    /// Having claimed a switch it reads TCP up to it all the same.
    pub(crate) tcp_first: bool,
    /// A receiver that enters a switch which a retreat has claimed does not overwrite its revoke.
    pub(crate) keep_revoke: bool,
    /// A receiver that is back on TCP does not revoke.
    pub(crate) revoke_what_runs: bool,

    /// Between hosts: the receiver claims the switch, and no NIC.
    pub(crate) receiver_claims: bool,
    /// It waits until that is decided.
    pub(crate) await_claim: bool,
    /// A sender that is revoked before that cancels.
    pub(crate) cancel_unclaimed: bool,
    /// The receiver waits until its revoke is confirmed.
    pub(crate) await_confirmation: bool,
    /// A NIC stores the revoke before it looks at the switch that it tells before the confirmation.
    pub(crate) revoke_before_look: bool,
    pub(crate) switch_before_confirmation: bool,
    /// The receiver waits until it is decided whether what it returned is drained.
    pub(crate) await_verdict: bool,
    /// Meanwhile its readers wait.
    pub(crate) hold_reads: bool,
    pub(crate) consumed_before_returned: bool,
    /// TCP's end is not the stream's until the sender's NIC says that all is told.
    pub(crate) await_gone: bool,
    /// It says so last.
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
