//! Flags and capabilities, with libfabric's bits (`fabric.h`).

macro_rules! flags {
    ($($name:ident = $value:expr;)+) => { $(#[allow(missing_docs, reason = "libfabric's")] pub const $name: u64 = $value;)+ };
}

flags! {
    MSG = 1 << 1;
    RMA = 1 << 2;
    TAGGED = 1 << 3;
    ATOMIC = 1 << 4;
    READ = 1 << 8;
    WRITE = 1 << 9;
    RECV = 1 << 10;
    SEND = 1 << 11;
    REMOTE_READ = 1 << 12;
    REMOTE_WRITE = 1 << 13;
    MULTI_RECV = 1 << 16;
    REMOTE_CQ_DATA = 1 << 17;
    MORE = 1 << 18;
    PEEK = 1 << 19;
    FENCE = 1 << 21;
    COMPLETION = 1 << 24;
    INJECT = 1 << 25;
    INJECT_COMPLETE = 1 << 26;
    TRANSMIT_COMPLETE = 1 << 27;
    DELIVERY_COMPLETE = 1 << 28;
    MATCH_COMPLETE = 1 << 31;
    LOCAL_COMM = 1 << 51;
    REMOTE_COMM = 1 << 52;
    RMA_EVENT = 1 << 56;
    SOURCE = 1 << 57;
    DISCARD = 1 << 58;
    // libfabric uses this bit for FI_CLAIM, FI_DIRECTED_RECV and FI_SELECTIVE_COMPLETION.
    CLAIM = 1 << 59;
    DIRECTED_RECV = 1 << 59;
    SELECTIVE_COMPLETION = 1 << 59;
    CONTEXT = 1 << 59;
    CONTEXT2 = 1 << 52;
}

/// `FI_ADDR_UNSPEC` and `FI_ADDR_NOTAVAIL`.
pub const ADDRESS_NONE: u64 = u64::MAX;
