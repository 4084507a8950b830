//! Programs that do not keep to what is agreed on.

pub(crate) const TESTS: &[(&str, fn())] = &[];
