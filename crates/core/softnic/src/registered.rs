//! Counts registered callbacks and signals, which must run even if no thread of the program polls.

use std::sync::Arc;

/// The count: each registration holds a reference.
#[derive(Debug, Default)]
pub(crate) struct Registrations(Arc<()>);

/// A callback or signal, which counts as registered until it is dropped or ended.
pub(crate) struct Registered<F> {
    callback: F,
    _one: Arc<()>,
}

impl Registrations {
    pub(crate) fn add<F>(&self, callback: F) -> Registered<F> {
        Registered { callback, _one: self.0.clone() }
    }

    pub(crate) fn any(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<F> Registered<F> {
    pub(crate) fn end(self) -> F {
        self.callback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_or_is_dropped_is_registered_no_longer() {
        let all = Registrations::default();
        assert!(!all.any());
        let (one, other) = (all.add(1), all.add(2));
        assert_eq!(one.end(), 1);
        assert!(all.any());
        drop(other);
        assert!(!all.any());
    }
}
