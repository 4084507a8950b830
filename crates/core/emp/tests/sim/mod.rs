//! The engine on a simulated network: what it promises, case by case, and by chance.

mod chance;
mod faults;
mod many;
mod specification;
mod world;
