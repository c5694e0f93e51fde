//! How many calls may be under way to a provider that has become slow: as few as keep it as busy as it can be.
//!
//! A provider that works off what it is sent in turn answers no sooner for having more of it, and beyond its time-out every call
//! is made in vain. One that is merely far away answers as many more as it is sent. Latency alone does not tell the two apart;
//! so the limit is lowered by a step, and stays there if as many are answered as before. If fewer are, it goes back, and the next
//! trial is some while later.

use std::time::Duration;

use tokio::time::Instant;

/// A provider that answers within this is not slow, and gets what it can take.
const SLOW: Duration = Duration::from_millis(500);
/// A window is as long as this, and as two answers take: after a step, one window goes by until its effect shows in the next …
const WINDOW_LEAST: Duration = Duration::from_secs(1);
/// … and ends no sooner than with so many answers, unless it has gone on for [`WINDOW_MOST`].
const ANSWERS_LEAST: u64 = 20;
const WINDOW_MOST: Duration = Duration::from_secs(30);
/// A step down leaves this share of the calls …
const DOWN: f64 = 0.75;
/// … or this one, where fewer than half of the calls that ended were answered: that is wrong at any speed.
const FAR_DOWN: f64 = 0.5;
/// A step has cost nothing if this share of the answers is left.
const AS_MANY: f64 = 0.9;
/// After a step down that has cost something, so many windows pass before the next.
const REST: u32 = 10;
/// Below it there is no step down.
const LEAST: usize = 4;

/// What was counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Calls that the provider answered.
    pub answered: u64,
    /// Calls that ended, also without an answer.
    pub ended: u64,
    /// How long all that ended took, in microseconds.
    pub took_us: u64,
}

/// The limit of one provider.
#[derive(Debug)]
pub struct Adapt {
    most: usize,
    limit: usize,
    began: Instant,
    at_beginning: Total,
    /// Answers per second before the last step down, whose effect is not known yet.
    before: Option<f64>,
    /// Calls from before the step may have ended in this window.
    settling: bool,
    rest: u32,
}

impl Adapt {
    pub fn new(most: usize, now: Instant) -> Self {
        Self {
            most,
            limit: most,
            began: now,
            at_beginning: Total::default(),
            before: None,
            settling: false,
            rest: 0,
        }
    }

    /// Looks at what was counted, every now and then, and gives the limit. `full`: the limit is what keeps further calls from
    /// beginning.
    pub fn look(&mut self, total: Total, full: bool, now: Instant) -> usize {
        let (length, ended) = (now - self.began, total.ended - self.at_beginning.ended);
        let took = Duration::from_micros((total.took_us - self.at_beginning.took_us) / ended.max(1));
        let long_enough = length >= WINDOW_LEAST.max(2 * took) && ended >= ANSWERS_LEAST;
        if !long_enough && length < WINDOW_MOST {
            return self.limit;
        }
        // By Little's law: answers counted within a window come in waves where calls began together.
        let answered = (total.answered - self.at_beginning.answered) as f64 / ended.max(1) as f64;
        let answers = answered * self.limit as f64 / took.as_secs_f64().max(0.001);
        (self.began, self.at_beginning) = (now, total);
        if !std::mem::take(&mut self.settling) || took < SLOW {
            self.judge(answers, answered, took, ended > 0 && full);
        }
        self.limit
    }

    fn judge(&mut self, answers: f64, answered: f64, took: Duration, full: bool) {
        self.rest = self.rest.saturating_sub(1);
        let before = self.before.take();
        if took < SLOW {
            self.raise();
        } else if full && answered < 0.5 {
            self.lower(FAR_DOWN);
        } else if before.is_some_and(|before| answers < before * AS_MANY) {
            self.raise();
            self.rest = REST;
        } else if full && self.rest == 0 && self.limit > LEAST {
            self.before = Some(answers);
            self.lower(DOWN);
        } else if !full {
            // Too few calls to learn anything from; whoever comes next begins from above again.
            self.raise();
        }
    }

    fn lower(&mut self, share: f64) {
        self.limit = ((self.limit as f64 * share) as usize).max(LEAST.min(self.most));
        self.settling = true;
    }

    fn raise(&mut self) {
        self.limit = ((self.limit as f64 / DOWN).ceil() as usize).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    /// A provider, and a sender that always has more to send.
    struct Model {
        adapt: Adapt,
        now: Instant,
        limit: usize,
        total: Total,
        /// When calls under way began.
        under_way: VecDeque<Instant>,
        /// Answers that it owes, in part.
        due: f64,
    }

    impl Model {
        fn new(most: usize) -> Self {
            let now = Instant::now();
            let (total, under_way) = (Total::default(), VecDeque::new());
            Self { adapt: Adapt::new(most, now), now, limit: most, total, under_way, due: 0.0 }
        }

        /// A tick of a provider that answers after `latency`, and no more than `capacity` a second.
        fn tick(&mut self, latency: Duration, capacity: f64) {
            self.now += TICK;
            self.due = (self.due + capacity * TICK.as_secs_f64()).min(capacity);
            while let Some(began) = self.under_way.front().copied()
                && self.due >= 1.0
                && self.now - began >= latency
            {
                self.under_way.pop_front();
                self.due -= 1.0;
                self.total.answered += 1;
                self.total.ended += 1;
                self.total.took_us += (self.now - began).as_micros() as u64;
            }
            while self.under_way.len() < self.limit {
                self.under_way.push_back(self.now);
            }
            self.limit = self.adapt.look(self.total, true, self.now);
        }

        fn answers_in(&mut self, time: Duration, latency: Duration, capacity: f64) -> u64 {
            let before = self.total.answered;
            for _ in 0..(time.as_millis() / TICK.as_millis()) {
                self.tick(latency, capacity);
            }
            self.total.answered - before
        }
    }

    #[test]
    fn a_provider_that_works_off_its_queue_gets_a_short_one_and_is_as_busy_as_before() {
        let mut model = Model::new(512);
        // 512 calls at 40 a second are answered after 12.8 s: later than the time-out.
        model.answers_in(Duration::from_secs(600), Duration::ZERO, 40.0);
        assert!(model.limit <= 40, "{}", model.limit);
        let answers = model.answers_in(Duration::from_secs(60), Duration::ZERO, 40.0);
        assert!(answers >= 60 * 40 * 9 / 10, "{answers}");
    }

    #[test]
    fn a_provider_that_is_only_far_away_keeps_nearly_all_of_its_calls() {
        let mut model = Model::new(512);
        let latency = Duration::from_secs(5);
        model.answers_in(Duration::from_secs(60), latency, 1e9);
        let answers = model.answers_in(Duration::from_secs(1_200), latency, 1e9);
        let all = 1_200 * 512 * 1_000 / (5_000 + 250);
        assert!(answers * 100 >= all * 90, "{answers} of {all}");
    }

    #[test]
    fn one_that_is_fast_again_gets_all_of_its_calls_again_soon() {
        let mut model = Model::new(512);
        model.answers_in(Duration::from_secs(600), Duration::ZERO, 40.0);
        model.answers_in(Duration::from_secs(30), Duration::from_millis(30), 1e9);
        assert_eq!(model.limit, 512);
    }

    #[test]
    fn where_every_call_times_out_there_are_fewer_and_fewer() {
        let start = Instant::now();
        let (mut adapt, mut total, mut limit) = (Adapt::new(512, start), Total::default(), 512);
        for n in 1..=200 {
            total.ended += limit as u64;
            total.took_us += 10_000_000 * limit as u64;
            limit = adapt.look(total, true, start + n * Duration::from_secs(10));
        }
        assert_eq!(limit, LEAST);
    }

    #[test]
    fn a_limit_that_nobody_reaches_is_left_as_it_is() {
        let start = Instant::now();
        let (mut adapt, mut total) = (Adapt::new(512, start), Total::default());
        for n in 1..=100 {
            total.ended += 30;
            total.answered += 30;
            total.took_us += 30 * 3_000_000;
            assert_eq!(adapt.look(total, false, start + n * Duration::from_secs(6)), 512);
        }
    }
}
