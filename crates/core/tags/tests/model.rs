//! Runs random sequences of receives, messages, probes and cancels, and compares them with a model on plain vectors.

use proptest::prelude::*;
use sovia_tags::{Label, Matcher, Pattern, Posted};

#[derive(Debug, Clone, Copy)]
enum Step {
    Post(Pattern),
    Arrive(Label),
    Peek(Pattern),
    Claim(Pattern),
    /// Cancels the receive or message with this number, counted from the newest.
    Cancel(usize),
    Discard(usize),
}

/// Uses few sources and tags, so that many messages match. The masks cover all, some or no bits.
fn pattern() -> impl Strategy<Value = Pattern> {
    let ignore =
        prop_oneof![3 => Just(0), 1 => Just(u64::MAX), 1 => Just(1), 1 => Just(1 << 63 | 2)];
    (proptest::option::weighted(0.7, 0u32..3), tag(), ignore)
        .prop_map(|(source, tag, ignore)| Pattern { source, tag, ignore })
}

fn tag() -> impl Strategy<Value = u64> {
    (0u64..4, any::<bool>()).prop_map(|(low, high)| low | u64::from(high) << 63)
}

fn label() -> impl Strategy<Value = Label> {
    (0u32..3, tag()).prop_map(|(source, tag)| Label { source, tag })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => pattern().prop_map(Step::Post),
        6 => label().prop_map(Step::Arrive),
        1 => pattern().prop_map(Step::Peek),
        1 => pattern().prop_map(Step::Claim),
        1 => (0usize..20).prop_map(Step::Cancel),
        1 => (0usize..20).prop_map(Step::Discard),
    ]
}

/// Implements the matching rules literally.
fn takes(pattern: Pattern, label: Label) -> bool {
    let same_source = pattern.source.is_none() || pattern.source == Some(label.source);
    let same_tag = (0..64).all(|bit| {
        pattern.ignore >> bit & 1 == 1 || pattern.tag >> bit & 1 == label.tag >> bit & 1
    });
    same_source && same_tag
}

fn take<T: Copy>(from: &mut Vec<T>, which: impl Fn(&T) -> bool) -> Option<T> {
    let at = from.iter().position(which)?;
    Some(from.remove(at))
}

proptest! {
    #[test]
    fn every_receive_and_message_is_matched_as_in_the_model(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut matcher = Matcher::new();
        let mut receives: Vec<(Pattern, usize)> = Vec::new();
        let mut messages: Vec<(Label, usize)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Post(pattern) => {
                    let expected = match take(&mut messages, |(label, _)| takes(pattern, *label)) {
                        Some((label, message)) => Posted::Matched(number, label, message),
                        None => {
                            receives.push((pattern, number));
                            Posted::Waits
                        }
                    };
                    if messages.is_empty() && expected == Posted::Waits && number % 2 == 0 {
                        matcher.wait(pattern, number);
                    } else {
                        prop_assert_eq!(matcher.post(pattern, number), expected);
                    }
                }
                Step::Arrive(label) => {
                    let is_it = |(pattern, _): &(Pattern, usize)| takes(*pattern, label);
                    // Some receives take several messages.
                    let (is_last, stays) = (number % 2 == 0, |receive: usize| receive.is_multiple_of(5));
                    let found = receives.iter().find(|it| is_it(it)).map(|(_, receive)| *receive);
                    let expected = match found {
                        Some(receive) if stays(receive) && !is_last => found,
                        _ => take(&mut receives, is_it).map(|(_, receive)| receive),
                    };
                    let met = if number % 3 == 0 && !found.is_some_and(stays) {
                        matcher.arrive(label)
                    } else {
                        matcher.arrive_at(label, |receive| stays(*receive).then_some((*receive, is_last)))
                    };
                    prop_assert_eq!(met, expected);
                    if expected.is_none() {
                        messages.push((label, number));
                        matcher.keep(label, number);
                    }
                }
                Step::Peek(pattern) => {
                    let expected = messages.iter().find(|(label, _)| takes(pattern, *label));
                    let seen = matcher.peek(pattern).map(|(label, message)| (label, *message));
                    prop_assert_eq!(seen, expected.copied());
                }
                Step::Claim(pattern) => {
                    let expected = take(&mut messages, |(label, _)| takes(pattern, *label));
                    prop_assert_eq!(matcher.claim(pattern), expected);
                }
                Step::Cancel(back) => {
                    let which = receives.iter().rev().nth(back).map(|(_, receive)| *receive);
                    let is = |receive: usize| Some(receive) == which;
                    receives.retain(|(_, receive)| !is(*receive));
                    prop_assert_eq!(matcher.cancel(|_, receive| is(*receive)), which);
                }
                Step::Discard(back) => {
                    let which = messages.iter().rev().nth(back).copied();
                    let is = |message: usize| which.is_some_and(|(_, it)| it == message);
                    messages.retain(|(_, message)| !is(*message));
                    prop_assert_eq!(matcher.discard(|_, message| is(*message)), which);
                }
            }
            prop_assert_eq!(matcher.receives(), receives.len());
            prop_assert_eq!(matcher.messages(), messages.len());
        }
    }
}
