//! The queue against a model: whatever several senders, operators and clocks do in whatever order, the store records what the
//! model says, the invariants hold after each step, and in the end every delivery has its final state.
//!
//! * [`model`](self::expected) is what should be, [`machine`] does each step to both and compares, with [`schedule`] for what starts later
//! * more cases: `PROPTEST_CASES=1000 cargo test -p bongsu-store --test it model`

mod expected;
mod machine;
mod schedule;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

use machine::Machine;

/// One step; numbers choose among what is there, modulo how much that is.
#[derive(Debug, Clone)]
pub enum Step {
    Accept {
        at_most_once: bool,
        devices: usize,
    },
    /// Accepts one that starts later.
    Schedule {
        at_most_once: bool,
    },
    /// The time of all that are scheduled comes.
    Start,
    FanOut,
    Claim {
        sender: usize,
    },
    /// At most once: notes the next deliveries of a batch in hand.
    Mark {
        sender: usize,
        batch: usize,
        deliveries: usize,
    },
    /// Records answers of the next deliveries of a batch in hand, whether it is still this sender's or not.
    Record {
        sender: usize,
        batch: usize,
        answers: Vec<Answer>,
    },
    /// Closes a batch in hand, with what was answered so far.
    Close {
        sender: usize,
        batch: usize,
    },
    Renew {
        sender: usize,
    },
    Release {
        sender: usize,
    },
    /// The leases of a sender run out; `often`: for the third time.
    RunOut {
        sender: usize,
        often: bool,
    },
    RetriesDue,
    Pause {
        broadcast: usize,
    },
    Resume {
        broadcast: usize,
    },
    Cancel {
        broadcast: usize,
    },
    Expire {
        broadcast: usize,
    },
    Replay {
        broadcast: usize,
    },
    WithdrawConsent {
        device: usize,
    },
    Sweep,
    Complete,
}

#[derive(Debug, Clone, Copy)]
pub enum Answer {
    Sent,
    Retry,
    Dead,
    Lost,
    /// No call: put off for an acknowledgement, or seen live.
    Awaited,
    Seen,
}

const SENDERS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let sender = 0..SENDERS;
    let nth = 0..1_000_usize;
    let answer = prop_oneof![
        5 => Just(Answer::Sent), 2 => Just(Answer::Retry), 1 => Just(Answer::Dead), 1 => Just(Answer::Lost),
        1 => Just(Answer::Awaited), 1 => Just(Answer::Seen)
    ];
    prop_oneof![
        4 => (any::<bool>(), 1..6_usize).prop_map(|(at_most_once, devices)| Step::Accept { at_most_once, devices }),
        1 => any::<bool>().prop_map(|at_most_once| Step::Schedule { at_most_once }),
        1 => Just(Step::Start),
        4 => Just(Step::FanOut),
        8 => sender.clone().prop_map(|sender| Step::Claim { sender }),
        4 => (sender.clone(), nth.clone(), 1..4_usize)
            .prop_map(|(sender, batch, deliveries)| Step::Mark { sender, batch, deliveries }),
        12 => (sender.clone(), nth.clone(), prop::collection::vec(answer, 1..4))
            .prop_map(|(sender, batch, answers)| Step::Record { sender, batch, answers }),
        6 => (sender.clone(), nth.clone()).prop_map(|(sender, batch)| Step::Close { sender, batch }),
        2 => sender.clone().prop_map(|sender| Step::Renew { sender }),
        1 => sender.clone().prop_map(|sender| Step::Release { sender }),
        5 => (sender, any::<bool>()).prop_map(|(sender, often)| Step::RunOut { sender, often }),
        4 => Just(Step::RetriesDue),
        2 => nth.clone().prop_map(|broadcast| Step::Pause { broadcast }),
        2 => nth.clone().prop_map(|broadcast| Step::Resume { broadcast }),
        1 => nth.clone().prop_map(|broadcast| Step::Cancel { broadcast }),
        1 => nth.clone().prop_map(|broadcast| Step::Expire { broadcast }),
        2 => nth.clone().prop_map(|broadcast| Step::Replay { broadcast }),
        1 => nth.prop_map(|device| Step::WithdrawConsent { device }),
        4 => Just(Step::Sweep),
        2 => Just(Step::Complete),
    ]
}

#[test]
fn whatever_happens_in_whatever_order_the_books_balance_and_nothing_is_lost() {
    balances_on(1);
}

#[test]
fn whatever_happens_in_whatever_order_the_books_of_four_shards_balance() {
    balances_on(4);
}

fn balances_on(shards: i16) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config {
        // Each case has a database of its own; PROPTEST_CASES asks for another number.
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(16),
        max_shrink_iters: 200,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    };
    let steps = prop::collection::vec(step(), 10..60);
    TestRunner::new(config)
        .run(&steps, |steps| {
            runtime.block_on(async {
                let mut machine = Machine::new(SENDERS, shards).await;
                for step in &steps {
                    machine.step(step).await.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
                    machine.check().await.map_err(|e| TestCaseError::fail(format!("after {step:?}: {e}")))?;
                }
                machine.finish().await.map_err(|e| TestCaseError::fail(format!("at the end: {e}")))
            })
        })
        .unwrap();
}
