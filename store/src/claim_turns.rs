//! Whose turn it is: a claim asks shard by shard, so that each of its statements looks at one.
//!
//! What a sender can take is split evenly over the shards that have not been asked; what one does not have goes to those
//! after it, and then once more to those that had as much as they were asked for. The next claim begins with the next
//! shard, so that none is always asked when nothing is wanted any more. With one shard, all of it is one statement.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::claim::LeasedBatch;
use crate::ids::{BatchId, ProviderId, Shard};
use crate::shards::Shards;

/// A retry may be seen so long after it fell due: its transaction took as long, or a provider was parked that nobody here knew of.
const DUE_OVERLAP: Duration = Duration::from_secs(2);
const EVER: Duration = Duration::from_secs(1_000_000_000);

/// How much a sender can take for one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    pub provider: ProviderId,
    /// Batches at most, from each lane: fresh work, due retries, leases that ran out.
    pub batches: i32,
    /// Deliveries: a batch is taken while fewer are. Due retries get at most half.
    pub deliveries: i32,
    /// Ranks below are not looked at: what was claimed lately leaves dead index entries there.
    pub floor: i64,
    /// Where the sender has work enough: only what goes before some of that.
    pub beside: Option<Beside>,
}

/// What goes before work in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// The greatest rank of the work in hand: fresh work above it has time.
    pub rank: i64,
    /// Whether due retries are looked for, too.
    pub retries: bool,
}

/// What a sender remembers from one claim to the next.
#[derive(Debug)]
pub(crate) struct Turns {
    first: usize,
    /// The greatest rank of fresh work claimed here. Providers have one virtual time, which the shard that is ahead moves:
    /// in those behind, work lies below the floor.
    reached: HashMap<(Shard, ProviderId), i64>,
    /// The last batch that was claimed of those whose rank is the floor. Many have the same: all that came to one user each between
    /// two heartbeats; and where the sender falls behind, all that came since. No more come, since whatever is ranked after the
    /// floor was published has a greater one.
    passed: HashMap<(Shard, ProviderId), (i64, BatchId)>,
    /// When there was last asked for retries, and all were had that were due.
    no_more_due: HashMap<(Shard, ProviderId), Instant>,
}

/// One claim.
#[derive(Debug)]
pub(crate) struct Round {
    shards: Shards,
    waiting: VecDeque<Shard>,
    /// They had all that they were asked for, and perhaps more.
    again: VecDeque<Shard>,
    left: Vec<Want>,
}

impl Turns {
    pub fn new() -> Self {
        // Senders that start together do not all begin with the same.
        Self {
            first: usize::from(rand::random::<u16>()),
            reached: HashMap::new(),
            passed: HashMap::new(),
            no_more_due: HashMap::new(),
        }
    }

    /// The shards, from the one whose turn it is.
    pub fn order(&mut self, shards: Shards) -> VecDeque<Shard> {
        let mut order: VecDeque<Shard> = shards.all().collect();
        order.rotate_left(self.first % order.len().max(1));
        self.first = self.first.wrapping_add(1);
        order
    }

    pub fn begin(&mut self, shards: Shards, wants: &[Want]) -> Round {
        Round { shards, waiting: self.order(shards), again: VecDeque::new(), left: wants.to_vec() }
    }

    /// Which shard is asked next, and for what.
    pub fn next(&self, round: &mut Round) -> Option<(Shard, Vec<Want>)> {
        round.left.retain(|want| want.deliveries > 0 && want.batches > 0);
        if round.left.is_empty() {
            return None;
        }
        if round.waiting.is_empty() {
            round.waiting = std::mem::take(&mut round.again);
        }
        let shard = round.waiting.pop_front()?;
        let sharing = i32::try_from(round.waiting.len()).unwrap_or(i32::MAX).saturating_add(1);
        let share = |all: i32| (all - 1) / sharing + 1;
        let wants = round.left.iter().map(|want| Want {
            batches: share(want.batches),
            deliveries: share(want.deliveries),
            floor: match round.shards {
                Shards(1) => want.floor,
                _ => want.floor.min(self.reached.get(&(shard, want.provider)).copied().unwrap_or(i64::MIN)),
            },
            ..*want
        });
        Some((shard, wants.collect()))
    }

    /// After which batch, of those whose rank is the floor, there is something to look for.
    pub fn passed(&self, shard: Shard, want: &Want) -> i64 {
        let passed = self.passed.get(&(shard, want.provider)).filter(|(rank, _)| *rank == want.floor);
        passed.map_or(i64::MIN, |(_, id)| id.0)
    }

    /// How long ago retries may have fallen due that nobody has taken: since there were last no more, and a moment. What was passed
    /// over, for its broadcast was paused then or somebody else held its row, a look below the floor finds.
    pub fn due_within(&self, shard: Shard, want: &Want) -> Duration {
        let asked = self.no_more_due.get(&(shard, want.provider)).filter(|_| want.floor > i64::MIN);
        asked.map_or(EVER, |asked| asked.elapsed() + DUE_OVERLAP)
    }

    /// Notes what the shard had of what it was asked for.
    pub fn took(
        &mut self,
        round: &mut Round,
        shard: Shard,
        asked: &[Want],
        batches: &[LeasedBatch],
        asked_at: Instant,
    ) {
        let mut more = false;
        for asked in asked {
            let Some(left) = round.left.iter_mut().find(|want| want.provider == asked.provider) else {
                continue;
            };
            let taken = batches.iter().filter(|batch| batch.provider == asked.provider);
            let (count, size) = taken.clone().fold((0, 0), |(n, s), batch| (n + 1, s + batch.size));
            left.batches -= count;
            left.deliveries -= size;
            let full = count >= asked.batches || size >= asked.deliveries;
            more |= full && left.batches > 0 && left.deliveries > 0;
            let retries = taken.clone().filter(|batch| batch.attempt > 1);
            let (due, due_size) = retries.fold((0, 0), |(n, s), batch| (n + 1, s + batch.size));
            let no_more = due < asked.batches && 2 * due_size < asked.deliveries;
            if no_more && asked.beside.is_none_or(|beside| beside.retries) {
                self.no_more_due.insert((shard, asked.provider), asked_at);
            }
            // Not what somebody held before: it may have come from far ahead.
            let fresh = taken.filter(|batch| batch.attempt == 1 && batch.reclaims == 0);
            let at_floor = fresh.clone().filter(|batch| batch.rank == asked.floor);
            if let Some(last) = at_floor.map(|batch| batch.id).max() {
                self.passed.insert((shard, asked.provider), (asked.floor, last));
            }
            if let Some(rank) = fresh.map(|batch| batch.rank).max() {
                let reached = self.reached.entry((shard, asked.provider)).or_insert(rank);
                *reached = rank.max(*reached);
            }
        }
        if more {
            round.again.push_back(shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BroadcastId;

    fn want(deliveries: i32) -> Want {
        Want { provider: ProviderId(1), batches: 64, deliveries, floor: 1_000, beside: None }
    }

    fn batch(shard: Shard, rank: i64) -> LeasedBatch {
        LeasedBatch {
            id: BatchId(1),
            shard,
            epoch: 1,
            broadcast: BroadcastId(1),
            provider: ProviderId(1),
            attempt: 1,
            failures: 0,
            rank,
            size: 500,
            reclaims: 0,
            ranged: true,
        }
    }

    /// Claims up to `deliveries` from shards that have so many batches of 500; returns what each was asked for, in order.
    fn claim(turns: &mut Turns, has: &mut [usize], deliveries: i32) -> Vec<(Shard, i32)> {
        let mut round = turns.begin(Shards(i16::try_from(has.len()).unwrap()), &[want(deliveries)]);
        let mut asked = vec![];
        while let Some((shard, wants)) = turns.next(&mut round) {
            let has = &mut has[usize::try_from(shard).unwrap()];
            let wanted = usize::try_from(wants[0].deliveries).unwrap();
            let taken = wanted.div_ceil(500).min(*has);
            *has -= taken;
            asked.push((shard, wants[0].deliveries));
            turns.took(&mut round, shard, &wants, &vec![batch(shard, 7); taken], Instant::now());
        }
        asked
    }

    fn from(first: usize) -> Turns {
        Turns { first, ..Turns::new() }
    }

    #[test]
    fn one_shard_is_asked_once_for_all_of_it() {
        let mut turns = from(0);
        assert_eq!(claim(&mut turns, &mut [100], 2_500), [(0, 2_500)]);
        assert_eq!(claim(&mut turns, &mut [2], 2_500), [(0, 2_500)], "it had less");
        let mut round = turns.begin(Shards(1), &[want(1)]);
        assert_eq!(turns.next(&mut round), Some((0, vec![want(1)])), "the floor is that of the provider");
    }

    #[test]
    fn shards_share_a_claim_and_take_turns_in_being_the_first() {
        let mut turns = from(3);
        let mut has = [100; 4];
        assert_eq!(claim(&mut turns, &mut has, 4_000), [(3, 1_000), (0, 1_000), (1, 1_000), (2, 1_000)]);
        assert_eq!(claim(&mut turns, &mut has, 300), [(0, 75)], "a batch is more than was wanted of all");
        assert_eq!(claim(&mut turns, &mut has, 300), [(1, 75)]);
    }

    #[test]
    fn what_some_do_not_have_is_asked_of_the_others() {
        let mut turns = from(0);
        assert_eq!(
            claim(&mut turns, &mut [100, 0, 0, 0], 4_000),
            [(0, 1_000), (1, 1_000), (2, 1_500), (3, 3_000), (0, 3_000)]
        );
        assert_eq!(claim(&mut turns, &mut [0; 4], 4_000).len(), 4, "each once where there is nothing");
    }

    #[test]
    fn a_shard_that_is_behind_is_looked_at_from_where_it_is() {
        let mut turns = from(0);
        claim(&mut turns, &mut [1, 0], 1_000);
        let mut floors = vec![];
        let mut round = turns.begin(Shards(2), &[want(1_000)]);
        while let Some((shard, wants)) = turns.next(&mut round) {
            floors.push((shard, wants[0].floor));
            turns.took(&mut round, shard, &wants, &[], Instant::now());
        }
        assert_eq!(floors, [(1, i64::MIN), (0, 7)]);
    }

    #[test]
    fn of_the_rank_that_is_the_floor_what_was_claimed_is_passed_over_and_no_other() {
        let mut turns = from(0);
        let claim = |turns: &mut Turns, batches: &[(i64, i64, i32)]| {
            let mut round = turns.begin(Shards(1), &[want(1_000)]);
            let (shard, wants) = turns.next(&mut round).unwrap();
            let passed = turns.passed(shard, &wants[0]);
            let batches: Vec<_> = batches
                .iter()
                .map(|(id, rank, reclaims)| LeasedBatch {
                    id: BatchId(*id),
                    size: 1,
                    reclaims: *reclaims,
                    ..batch(shard, *rank)
                })
                .collect();
            turns.took(&mut round, shard, &wants, &batches, Instant::now());
            passed
        };
        assert_eq!(
            claim(&mut turns, &[(7, 1_000, 0), (5, 1_000, 0), (9, 1_000, 1), (8, 1_001, 0)]),
            i64::MIN
        );
        assert_eq!(
            claim(&mut turns, &[(10, 1_001, 0)]),
            7,
            "neither one of a greater rank nor somebody else's lease"
        );
        assert_eq!(claim(&mut turns, &[]), 7);
        let (elsewhere, higher) =
            (turns.passed(1, &want(1)), turns.passed(0, &Want { floor: 1_001, ..want(1) }));
        assert_eq!((elsewhere, higher), (i64::MIN, i64::MIN));
    }

    #[test]
    fn retries_are_looked_for_since_there_were_no_more_and_by_a_look_below_the_floor_all_of_them() {
        let mut turns = from(0);
        let mut claim = |floor, beside, retries: usize| {
            let want = Want { floor, beside, batches: 3, ..want(1_000) };
            let mut round = turns.begin(Shards(1), &[want]);
            let (shard, wants) = turns.next(&mut round).unwrap();
            let within = turns.due_within(shard, &wants[0]);
            let retry = LeasedBatch { attempt: 2, size: 1, ..batch(shard, 7) };
            turns.took(&mut round, shard, &wants, &vec![retry; retries], Instant::now());
            within
        };
        let without_retries = Some(Beside { rank: 9, retries: false });
        assert_eq!(claim(7, None, 3), EVER);
        assert_eq!(claim(7, without_retries, 0), EVER, "there may be more than the three");
        assert_eq!(claim(7, None, 2), EVER);
        let since = claim(7, None, 0);
        assert!((DUE_OVERLAP..EVER).contains(&since), "{since:?}");
        assert_eq!(claim(i64::MIN, None, 0), EVER);
    }
}
