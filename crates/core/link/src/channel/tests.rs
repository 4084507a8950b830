//! Tests of two channels, joined by a simulated network or by hand.

mod epochs;
mod joined;
mod network;
mod script;
