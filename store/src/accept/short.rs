//! Accepting explicit lists that are short: those that wait at the same time are stored together, fanned out, in one
//! statement. Services that notify one user at a time ask for thousands a second, and what a statement costs beside its rows,
//! a round trip, a plan, a commit, is then most of it. Nobody waits for company: a group is what came while the last one was
//! being stored.

mod live;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use time::OffsetDateTime;
use tokio::sync::{Semaphore, oneshot};

use crate::broadcast::*;
use crate::connect::Lane;
use crate::counts::{Counts, LiveCounts};
use crate::error::{Result, StoreError};
use crate::fan_out::BATCH_DELIVERIES;
use crate::ids::{BroadcastId, DeviceId};
use crate::live::Told;

/// An audience of at most this many ids is short.
const SHORT: usize = 500;
/// Groups stored at a time: while one waits for its commit, the other one works.
const LANES: usize = 2;
/// Broadcasts, and ids in all their lists, in a group.
const MOST_BROADCASTS: usize = 64;
const MOST_IDS: usize = 1_000;

/// Those that wait, and the connections that store them.
#[derive(Debug)]
pub(crate) struct ShortLists {
    options: PgConnectOptions,
    waiting: Mutex<VecDeque<Waiting>>,
    free: Semaphore,
    /// Those that nobody uses; opened when first needed.
    lanes: Mutex<Vec<Lane>>,
}

#[derive(Debug)]
struct Waiting {
    new: NewBroadcast,
    tell: oneshot::Sender<Result<Option<Stored>>>,
}

/// What the database made of one.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub id: BroadcastId,
    created_at: OffsetDateTime,
    expires_at: OffsetDateTime,
    pub deliveries: i64,
    /// Who got an event.
    pub told: Told,
}

impl NewBroadcast {
    /// Whether it is fanned out as it is accepted.
    pub(super) fn is_short_list(&self) -> bool {
        // Whose start is to come has an audience only then, and what a rate keeps out of the queue is made by the fan-out.
        let at_once = self.schedule.is_none() && self.max_rate_per_second.is_none();
        at_once && (1..=SHORT).contains(&self.audience.listed())
    }
}

impl ShortLists {
    /// With connections like this.
    pub(crate) fn new(options: PgConnectOptions) -> Self {
        Self { options, waiting: Mutex::default(), free: Semaphore::new(LANES), lanes: Mutex::default() }
    }

    /// Stores one with its deliveries. None where its key stands already, or its expiry is out of range. It is stored, or not,
    /// also where the caller goes away.
    pub(super) async fn store(self: &Arc<Self>, new: &NewBroadcast) -> Result<Option<Stored>> {
        let (tell, told) = oneshot::channel();
        self.waiting().push_back(Waiting { new: new.clone(), tell });
        // A task of its own: a caller that goes away must not take those with it who wait for the same statement.
        tokio::spawn(Arc::clone(self).work());
        told.await.unwrap_or_else(|_| Err(StoreError::Unavailable("what stores short lists stopped".into())))
    }

    /// Opens the connections, so that the first caller does not wait for it.
    pub(crate) async fn open(&self) -> Result<()> {
        let Ok(_all) = self.free.acquire_many(LANES as u32).await else { return Ok(()) };
        for _ in 0..LANES {
            let mut lane = Lane::new(self.options.clone());
            lane.prepare(include_str!("../../queries/broadcast_insert_short.sql")).await?;
            self.lanes().push(lane);
        }
        Ok(())
    }

    /// Says goodbye to the server.
    pub(crate) async fn close(&self) {
        self.free.close();
        let lanes = std::mem::take(&mut *self.lanes());
        for mut lane in lanes {
            lane.close().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores what waits, unless others do it first.
    async fn work(self: Arc<Self>) {
        let Ok(_place) = self.free.acquire().await else {
            self.waiting().clear();
            return;
        };
        let lane = self.lanes().pop();
        let mut lane = lane.unwrap_or_else(|| Lane::new(self.options.clone()));
        loop {
            let group = take(&mut self.waiting());
            if group.is_empty() {
                break;
            }
            store_group(&mut lane, group).await;
        }
        self.lanes().push(lane);
    }
}

/// The next group: each key once in it.
fn take(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let (mut group, mut later) = (Vec::new(), VecDeque::new());
    let (mut keys, mut ids) = (BTreeSet::new(), 0);
    while let Some(next) = waiting.pop_front() {
        let listed = next.new.audience.listed();
        if group.len() == MOST_BROADCASTS || (ids > 0 && ids + listed > MOST_IDS) {
            waiting.push_front(next);
            break;
        }
        if keys.insert((next.new.client_id.clone(), next.new.idempotency_key.clone())) {
            ids += listed;
            group.push(next);
        } else {
            later.push_back(next);
        }
    }
    // They came before the rest.
    later.append(waiting);
    *waiting = later;
    group
}

/// Stores a group, and tells each of it what became of it.
async fn store_group(lane: &mut Lane, group: Vec<Waiting>) {
    let new: Vec<&NewBroadcast> = group.iter().map(|waiting| &waiting.new).collect();
    let in_use_before = lane.is_open();
    let mut stored = lane.run("accept", async |connection| insert(connection, &new).await).await;
    if in_use_before && matches!(stored, Err(StoreError::Unavailable(_))) {
        // That a connection was ended meanwhile, by a restart perhaps, shows at its next use only. What the first try may have
        // stored all the same, the second one finds by its key.
        stored = lane.run("accept", async |connection| insert(connection, &new).await).await;
    }
    match stored {
        Ok(stored) => {
            for (waiting, stored) in group.into_iter().zip(stored) {
                // Nobody listens where the caller went away.
                let _ = waiting.tell.send(Ok(stored));
            }
        }
        // One of them is to blame, and the others are not.
        Err(StoreError::Data(_)) if group.len() > 1 => {
            for waiting in group {
                Box::pin(store_group(lane, vec![waiting])).await;
            }
        }
        Err(error) => {
            for waiting in group {
                let _ = waiting.tell.send(Err(error.clone()));
            }
        }
    }
}

/// Inserts those whose keys do not stand yet, and makes their events, where any go out live, in the same transaction. Returns for
/// each of `new` what became of it.
async fn insert(connection: &mut PgConnection, new: &[&NewBroadcast]) -> Result<Vec<Option<Stored>>> {
    if !new.iter().any(|new| new.routing.is_live()) {
        // One statement is a transaction of its own.
        return insert_and_push(connection, new).await;
    }
    let mut tx = connection.begin().await?;
    let mut stored = insert_and_push(&mut tx, new).await?;
    live::make_events(&mut tx, new, &mut stored).await?;
    tx.commit().await?;
    Ok(stored)
}

/// Inserts those whose keys do not stand yet, with deliveries for the devices of those that push.
async fn insert_and_push(
    connection: &mut PgConnection,
    new: &[&NewBroadcast],
) -> Result<Vec<Option<Stored>>> {
    fn each<'a, T>(new: &[&'a NewBroadcast], part: impl Fn(&'a NewBroadcast) -> T) -> Vec<T> {
        new.iter().map(|new| part(new)).collect()
    }
    let (mut users, mut of_users, mut devices, mut of_devices) = (vec![], vec![], vec![], vec![]);
    for (new, n) in new.iter().zip(1_i64..) {
        match &new.audience {
            Audience::Users(list) => {
                users.extend(list.iter().inspect(|_| of_users.push(n)).map(String::as_str));
            }
            Audience::Devices(list) => {
                devices.extend(list.iter().inspect(|_| of_devices.push(n)).map(|DeviceId(id)| *id));
            }
            Audience::Everyone | Audience::Topics(_) => {}
        }
    }
    let kind = |new: &NewBroadcast| match new.audience {
        Audience::Devices(_) => AudienceKind::Devices,
        _ => AudienceKind::Users,
    };
    let seconds = |new: &NewBroadcast| match new.expiry {
        Expiry::After(ttl) => Some(ttl.as_secs_f64()),
        Expiry::At(_) => None,
    };
    let moment = |new: &NewBroadcast| match new.expiry {
        Expiry::After(_) => None,
        Expiry::At(moment) => Some(moment),
    };
    let data = |new: &NewBroadcast| serde_json::to_string(&new.message.data).unwrap_or_default();
    let (least, most) = EXPIRY_RANGE;
    let rows = sqlx::query_file!(
        "queries/broadcast_insert_short.sql",
        &each(new, |new| &*new.client_id) as _,
        &each(new, |new| &*new.idempotency_key) as _,
        &each(new, |new| &new.request_hash[..]) as _,
        &each(new, |new| &*new.message.title) as _,
        &each(new, |new| &*new.message.body) as _,
        &each(new, data),
        &each(new, |new| new.priority) as _,
        &each(new, kind) as _,
        &each(new, seconds) as _,
        &each(new, moment) as _,
        &each(new, |new| i32::try_from(new.audience.listed()).unwrap_or(i32::MAX)),
        &each(new, |new| new.guarantee) as _,
        &each(new, |new| new.priority.weight()),
        least.as_secs_f64(),
        most.as_secs_f64(),
        &users as _,
        &of_users,
        &devices,
        &of_devices,
        BATCH_DELIVERIES,
        &each(new, |new| new.trace_context.as_deref()) as _,
        &each(new, |new| new.routing) as _,
        &each(new, |new| new.ack_timeout.map(|timeout| timeout.as_secs_f64())) as _
    )
    .fetch_all(connection)
    .await?;
    let mut stored = vec![None; new.len()];
    for row in rows {
        let (id, created_at, expires_at, deliveries) =
            (row.id, row.created_at, row.expires_at, row.deliveries);
        if let Some(slot) = usize::try_from(row.n - 1).ok().and_then(|n| stored.get_mut(n)) {
            *slot = Some(Stored { id, created_at, expires_at, deliveries, told: vec![] });
        }
    }
    Ok(stored)
}

impl Stored {
    /// The broadcast that was stored.
    pub(super) fn broadcast(self, new: &NewBroadcast) -> Broadcast {
        let listed = i64::try_from(new.audience.listed()).unwrap_or(i64::MAX);
        let pushes = new.routing.pushes();
        Broadcast {
            id: self.id,
            idempotency_key: new.idempotency_key.clone(),
            message: new.message.clone(),
            audience: match new.audience {
                Audience::Devices(_) => AudienceSummary::Devices(listed),
                _ => AudienceSummary::Users(listed),
            },
            priority: new.priority,
            guarantee: new.guarantee,
            state: if pushes { BroadcastState::Delivering } else { BroadcastState::Completed },
            paused: false,
            max_rate_per_second: None,
            routing: new.routing,
            ack_timeout: new.ack_timeout,
            created_at: self.created_at,
            expires_at: self.expires_at,
            scheduled_at: None,
            settled_at: (!pushes).then_some(self.created_at),
            counts: Counts { total: self.deliveries, ..Counts::default() },
            live: LiveCounts { events: i64::try_from(self.told.len()).unwrap_or(i64::MAX), acknowledged: 0 },
            told: self.told,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(key: &str, users: usize) -> Waiting {
        let new = NewBroadcast {
            client_id: CLIENT_ID.into(),
            idempotency_key: key.into(),
            message: Message { title: "t".into(), body: String::new(), data: Default::default() },
            audience: Audience::users((0..users).map(|n| n.to_string()).collect()),
            priority: Priority::Normal,
            guarantee: Guarantee::AtLeastOnce,
            expiry: Expiry::After(DEFAULT_TTL),
            schedule: None,
            max_rate_per_second: None,
            routing: Routing::Push,
            ack_timeout: None,
            request_hash: [0; 32],
            trace_context: None,
        };
        Waiting { new, tell: oneshot::channel().0 }
    }

    fn groups(waiting: impl IntoIterator<Item = Waiting>) -> Vec<String> {
        let mut queue: VecDeque<_> = waiting.into_iter().collect();
        let mut groups = vec![];
        while !queue.is_empty() {
            let group = take(&mut queue);
            groups.push(group.iter().map(|w| w.new.idempotency_key.as_str()).collect());
        }
        groups
    }

    #[test]
    fn a_group_has_each_key_once_and_whoever_asks_twice_comes_with_the_next() {
        assert_eq!(groups(["a", "b", "a", "c", "b", "a"].map(|key| waiting(key, 1))), ["abc", "ab", "a"]);
    }

    #[test]
    fn a_group_is_bounded_by_its_broadcasts_and_by_the_ids_of_all_their_lists() {
        let lists = [("a", 500), ("b", 500), ("c", 1), ("d", 499), ("e", 500), ("f", 2)];
        assert_eq!(groups(lists.map(|(key, users)| waiting(key, users))), ["ab", "cde", "f"]);
        let many = groups((0..MOST_BROADCASTS + 1).map(|n| waiting(&n.to_string(), 1)));
        assert_eq!(many.len(), 2);
    }
}
