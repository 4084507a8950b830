//! Searches that visit every state of a model.

use stateright::{Checker, HasDiscoveries, Model, Path};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

/// Visits every state, depth first. A breadth-first search would copy the path to a state for each of its
/// successors.
///
/// # Panics
/// Panics if a property does not hold. `describe` prints a path, usually the shortest, to a state that violates the
/// property.
#[track_caller]
pub(crate) fn visit_all<M>(model: M, describe: impl Fn(&Path<M::State, M::Action>) -> String)
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let start = Instant::now();
    let checker = model.clone().checker().threads(2).spawn_dfs().join();
    if let Some(text) = wrong(&checker, &describe) {
        // A breadth-first search finds a shorter path, if it finds a violation as well.
        let found = HasDiscoveries::AnyFailures;
        let shortest = model.checker().finish_when(found).spawn_bfs().join();
        panic!("not so: {}", wrong(&shortest, &describe).unwrap_or(text));
    }
    checker.assert_properties();
    // Shown in `--nocapture` runs.
    println!("{} states in {:?}", checker.unique_state_count(), start.elapsed());
}

/// Returns the name of a property that does not hold, and the path to the state that violates it.
fn wrong<M: Model>(
    checker: &impl Checker<M>,
    describe: impl Fn(&Path<M::State, M::Action>) -> String,
) -> Option<String>
where
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    checker.discoveries().into_iter().find_map(|(name, path)| {
        let is_wrong = checker.discovery_classification(name).to_string() == "counterexample";
        is_wrong.then(|| format!("{name}\n{:#?}\n{}", path.last_state(), describe(&path)))
    })
}
