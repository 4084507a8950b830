//! Look-ups of the real functions of all hooks, at the program's start.

use crate::real::Real;
use crate::symbols;

/// Looks up the real function of every hook. Calls of `dlsym` for all of them would take a third of the time that the
/// library adds to a program's start. So this function first searches the objects itself. The program's start is the time
/// for this, because a later `dlsym` would allocate memory and take the loader's lock.
pub(crate) fn resolve_all() {
    symbols::for_each_later_object(&mut |object| {
        all().try_for_each(|real| real.look_up_in(object))
    });
    for real in all() {
        real.address();
    }
}

/// Returns the real functions of all hooks.
fn all() -> impl Iterator<Item = &'static Real> {
    [
        crate::asynchronous::reals::ALL,
        crate::children::reals::ALL,
        crate::creating::reals::ALL,
        crate::creating::several::reals::ALL,
        crate::credentials::reals::ALL,
        crate::descriptors::reals::ALL,
        crate::limits::reals::ALL,
        crate::memory::reals::ALL,
        crate::poll::reals::ALL,
        crate::process::reals::ALL,
        crate::process::variadic::ALL,
        crate::raw::reals::ALL,
        crate::receive::reals::ALL,
        crate::rings::reals::ALL,
        crate::send::reals::ALL,
        crate::signals::reals::ALL,
        crate::sockets::reals::ALL,
        crate::spawning::reals::ALL,
        crate::stdio::reals::ALL,
        crate::waiting::reals::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

#[cfg(test)]
mod tests;
