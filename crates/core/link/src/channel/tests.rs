//! Two channels, joined by a network in software or by hand.

mod epochs;
mod joined;
mod network;
mod script;
