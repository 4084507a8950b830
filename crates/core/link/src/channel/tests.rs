//! Two channels, joined by a network in software or by hand.

mod epochs;
mod network;
mod script;
