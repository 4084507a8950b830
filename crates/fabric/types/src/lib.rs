//! Structures of libfabric's interface in C's layout. Names and comments are those of libfabric's headers (`rdma/*.h`).
//! `abi/fi/tests/layout.rs` compares sizes and offsets with the headers.
//!
//! Two crates use these definitions: the provider that libfabric loads (`abi/fi`), and the user of libfabric
//! (`crates/fabric/ofi`). There is a module for each header.

#![allow(missing_docs, reason = "libfabric's manual pages are the documentation")]

mod atomic;
mod cm;
mod domain;
mod endpoint;
mod eq;
mod fabric;
mod prov;
mod rma;
mod tagged;

pub use atomic::{AtomicAttr, MsgAtomic, OpsAtomic};
pub use cm::OpsCm;
pub use domain::{AvAttr, FidAv, FidDomain, FidMr, MrAttr, OpsAv, OpsDomain, OpsMr};
pub use endpoint::{FidEp, Msg, OpsEp, OpsMsg};
pub use eq::{
    CntrAttr, CqAttr, CqEntry, CqErrEntry, EqAttr, FidCntr, FidCq, FidEq, OpsCntr, OpsCq, OpsEq,
};
pub use fabric::{
    DomainAttr, EpAttr, FabricAttr, Fid, FidFabric, Info, Ioc, Missing, Ops, OpsFabric, RxAttr,
    TxAttr, class, missing,
};
pub use prov::Provider;
pub use rma::{MsgRma, OpsRma, RmaIoc, RmaIov};
pub use sovia_sys::other_memory::Piece;
pub use tagged::{MsgTagged, OpsTagged};
