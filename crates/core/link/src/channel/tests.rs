//! Two channels, joined by a network in software.

mod network;
