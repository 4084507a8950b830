//! Tests of the engine on a simulated network: single cases, and random programs.

mod chance;
mod faults;
mod many;
mod specification;
mod world;
