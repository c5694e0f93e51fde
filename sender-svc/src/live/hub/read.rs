//! Reading inboxes, many users' at a time, and handing what is new to their streams.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{BroadcastId, Event, Result, Store, UserNo};
use tokio::time::Instant;

use super::super::metrics;
use super::super::render::Text;
use super::super::settings::QUEUE_EVENTS;
use super::Shared;
use super::connection::{Connection, Want};
use super::registry::Slice;

/// Users read for at a time.
const SLICE_USERS: usize = 256;
/// Events read at a time, over all users, and of each user at least.
const SLICE_EVENTS: usize = 4_096;
const USER_EVENTS_LEAST: usize = 8;
/// Before what could not be read is read again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// For how long a text is as it was read: a cancelled broadcast may be sent so much later.
const TEXT_FRESH: Duration = Duration::from_secs(3);
/// Texts kept at most, but for those of the slice at hand.
const TEXTS: usize = 4_096;

pub async fn run(shared: Arc<Shared>) {
    let mut texts = Texts::default();
    let mut troubled = false;
    loop {
        let slice = shared.registry().slice(SLICE_USERS);
        if slice.is_empty() {
            shared.read.notified().await;
            continue;
        }
        match read(&shared, &mut texts, &slice).await {
            Ok(()) => troubled = false,
            Err(error) => {
                if !troubled {
                    tracing::warn!("new notifications wait: they cannot be read: {error}");
                }
                troubled = true;
                shared.registry().put_back(&slice);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}

/// What a slice lacks.
#[derive(Default)]
struct Wanted<'a> {
    /// From the lowest cursor of each user's streams.
    after: Vec<(UserNo, i64)>,
    reading: Vec<(UserNo, &'a Connection)>,
    backlogs: Vec<(UserNo, &'a Connection)>,
    broadcasts: BTreeSet<BroadcastId>,
}

async fn read(shared: &Shared, texts: &mut Texts, slice: &Slice) -> Result<()> {
    let mut wanted = wanted(slice);
    let limit = (SLICE_EVENTS / wanted.after.len().max(1)).clamp(USER_EVENTS_LEAST, QUEUE_EVENTS);
    let events = if wanted.after.is_empty() {
        vec![]
    } else {
        shared.store.inbox_after(&wanted.after, limit as i64).await?
    };
    wanted.broadcasts.extend(events.iter().map(|event| event.broadcast));
    texts.fetch(&shared.store, &wanted.broadcasts).await?;
    let text = |event: &Event| texts.of(event.broadcast);

    let mut again = vec![];
    let mut sent = 0;
    for (user, stream) in &wanted.backlogs {
        sent += stream.hand_backlog(text).events;
        again.push(*user);
    }
    let mut by_user: HashMap<UserNo, &[Event]> = HashMap::new();
    for of_user in events.chunk_by(|a, b| a.user == b.user) {
        if let Some(event) = of_user.first() {
            by_user.insert(event.user, of_user);
        }
    }
    for (user, stream) in &wanted.reading {
        let Some(events) = by_user.get(user) else { continue };
        let handed = stream.hand(events, text);
        sent += handed.events;
        if handed.more && events.len() >= limit {
            again.push(*user);
        }
    }
    metrics::handed(sent);
    for (user, heard_at, _) in slice {
        if let Some(heard_at) = heard_at
            && by_user.contains_key(user)
        {
            metrics::lag(heard_at.elapsed());
        }
    }
    texts.forget();
    shared.registry().heard(again, Instant::now());
    Ok(())
}

fn wanted(slice: &Slice) -> Wanted<'_> {
    let mut wanted = Wanted::default();
    for (user, _, streams) in slice {
        let mut lowest: Option<i64> = None;
        for stream in streams {
            match stream.want() {
                Want::Nothing => {}
                Want::Backlog(events) => {
                    wanted.backlogs.push((*user, stream));
                    wanted.broadcasts.extend(events.iter().map(|event| event.broadcast));
                }
                Want::After(cursor) => {
                    wanted.reading.push((*user, stream));
                    lowest = Some(lowest.map_or(cursor, |lowest| lowest.min(cursor)));
                }
            }
        }
        wanted.after.extend(lowest.map(|cursor| (*user, cursor)));
    }
    wanted
}

/// Texts of broadcasts, for as long as a broadcast that goes to many is under way.
#[derive(Default)]
struct Texts {
    kept: HashMap<BroadcastId, (Instant, Option<Arc<Text>>)>,
}

impl Texts {
    /// Reads those that are not fresh.
    async fn fetch(&mut self, store: &Store, broadcasts: &BTreeSet<BroadcastId>) -> Result<()> {
        let fresh = |id| self.kept.get(id).is_some_and(|(at, _)| at.elapsed() < TEXT_FRESH);
        let lacking: Vec<BroadcastId> = broadcasts.iter().filter(|id| !fresh(id)).copied().collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let mut contents = store.live_contents(&lacking).await?;
        for id in lacking {
            let text = contents.remove(&id).map(|content| Arc::new(Text::new(content)));
            self.kept.insert(id, (now, text));
        }
        Ok(())
    }

    /// None where the broadcast is gone.
    fn of(&self, broadcast: BroadcastId) -> Option<Arc<Text>> {
        self.kept.get(&broadcast).and_then(|(_, text)| text.clone())
    }

    fn forget(&mut self) {
        if self.kept.len() > TEXTS {
            self.kept.retain(|_, (at, _)| at.elapsed() < TEXT_FRESH);
        }
        if self.kept.len() > TEXTS {
            self.kept.clear();
        }
    }
}
