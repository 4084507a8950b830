//! Plays the catalogue's scenarios and prints what came of them: `small`, `large`, or those whose names contain a word.

use sovia_scale::{heading, large, line, run, small};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |set: &str, name: &str| {
        words.is_empty() || words.iter().any(|word| word == set || name.contains(word.as_str()))
    };
    println!("{}", heading());
    let sets = [("small", small()), ("large", large())];
    for scenario in sets.iter().flat_map(|(set, all)| all.iter().filter(|s| chosen(set, &s.name))) {
        println!("{}", line(scenario, &run(scenario)));
    }
}
