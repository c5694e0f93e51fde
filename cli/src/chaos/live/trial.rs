//! One live trial: clients with their habits, broadcasts, what is done to the processes meanwhile, and the books at the end.

use std::time::{Duration, Instant};

use bongsu_proto::v1;
use tokio::task::JoinSet;

use super::super::plan::Scale;
use super::super::trial::{Directory, create, get};
use super::super::world::{GOOD, UNRECORDED, World};
use super::acts::{self, do_all};
use super::books::Books;
use super::plan::Plan;
use crate::live::crowd::Crowd;
use crate::live::network::Network;
use crate::live::record::Record;

/// How often it is looked whether a broadcast has ended.
const LOOK: Duration = Duration::from_millis(200);
/// How long a client waits for an answer: a frozen server gives none.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Until clients are connected at first.
const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// Until every client has everything, once all is over: inboxes are looked through every few seconds, and clients that were
/// sent away many times wait for long.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);

/// What a trial came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub mistakes: Vec<String>,
    /// Their names.
    pub acts: Vec<String>,
    pub broadcasts: u64,
    pub by_stream: u64,
    pub by_push: u64,
    pub by_both: u64,
    pub not_acknowledged: u64,
    pub came_again: u64,
    pub breaks: u64,
    pub calls: u64,
    pub duplicates: u64,
    pub allowed: u64,
    pub longest_absence: Duration,
    pub length: Duration,
}

/// Plays a plan; all users have a device, and the first ones a client.
pub async fn play(world: &mut World, plan: &Plan, users: u32, scale: Scale) -> anyhow::Result<Outcome> {
    world.fill_up().await?;
    world.behave(plan.latency, plan.transient, plan.seed, false).await?;
    let directory = Directory::default();
    let network = Network::new(world.live_urls()?, ANSWER_PATIENCE, None)?;
    acts::note(world, &directory, &network)?;
    let began = Instant::now();
    let crowd = connect(world, plan, network.clone()).await?;
    let mut outcome = Outcome { allowed: allowed(plan), ..Outcome::default() };
    outcome.acts = plan.acts.iter().map(|(_, act)| name(&format!("{act:?}"))).collect();

    let patience = scale.lease * 10 + plan.ack_timeout * 2 + Duration::from_secs(60);
    let played = tokio::time::timeout(patience, async {
        let mut sending = send_all(plan, &directory);
        do_all(world, plan, scale, &directory, &network).await?;
        let mut broadcasts = Vec::new();
        while let Some(ended) = sending.join_next().await {
            broadcasts.push(ended?);
        }
        anyhow::Ok(broadcasts)
    });
    let broadcasts = match played.await {
        Ok(broadcasts) => broadcasts?,
        Err(_) => {
            outcome.mistakes.push(format!("it was not complete after {} s", patience.as_secs()));
            let findings = world.store.conditions(bongsu_store::DEFAULT_RETENTION_DAYS).await?;
            outcome.mistakes.extend(findings.iter().map(|f| format!("{} {}", f.subject, f.detail)));
            return Ok(outcome);
        }
    };
    // What was pushed comes by stream all the same, to whoever is connected; and here all are in the end.
    let ids: Vec<i64> = broadcasts.iter().map(|broadcast| broadcast.id).collect();
    let has_all = |record: &Record| ids.iter().all(|id| record.receipt(*id).is_some());
    let all_have_all = |crowd: &Crowd| crowd.records().iter().all(has_all);
    if let Err(missing) = crowd.until("every broadcast at every client", CLIENT_PATIENCE, all_have_all).await
    {
        outcome.mistakes.push(missing.to_string());
    }
    outcome.length = began.elapsed();
    let records = crowd.leave().await;
    let provider = world.provider();
    let books = Books {
        broadcasts: &broadcasts,
        records: &records,
        deliveries: &provider.records().await?,
        stats: &provider.stats().await?,
        users,
        margin: plan.margin,
    };
    books.close(&world.store, &mut outcome).await?;
    Ok(outcome)
}

/// Connects the clients; those that come late, or have left, come by themselves.
async fn connect(world: &World, plan: &Plan, network: Network) -> anyhow::Result<Crowd> {
    let mut crowd = Crowd::new(network);
    for (user, habits) in plan.habits.iter().enumerate() {
        crowd.join(world.stack.live_token(&format!("good-{user}")), habits.clone());
    }
    let most = plan.habits.len() / 2;
    crowd.until("most being connected", CONNECT_PATIENCE, |crowd| crowd.connected() >= most).await?;
    Ok(crowd)
}

/// Creates each broadcast at its time, and waits until it has ended.
fn send_all(plan: &Plan, directory: &Directory) -> JoinSet<v1::Broadcast> {
    let mut sending = JoinSet::new();
    for when in plan.broadcasts.clone() {
        let (request, directory) = (request(plan), directory.clone());
        sending.spawn(async move {
            tokio::time::sleep(when).await;
            let id = create(&directory, &request).await;
            loop {
                // Whatever is down now comes back.
                match get(&directory, id).await {
                    Ok(broadcast) if broadcast.state() == v1::BroadcastState::Completed => return broadcast,
                    _ => tokio::time::sleep(LOOK).await,
                }
            }
        });
    }
    sending
}

fn request(plan: &Plan) -> v1::CreateBroadcastRequest {
    let topics = vec![GOOD.to_owned()];
    v1::CreateBroadcastRequest {
        idempotency_key: uuid::Uuid::new_v4().to_string(),
        title: "봉수".to_owned(),
        body: format!("trial {}", plan.seed),
        audience: Some(v1::Audience { kind: Some(v1::audience::Kind::Topics(v1::TopicAudience { topics })) }),
        routing: v1::Routing::LiveThenPush.into(),
        ack_timeout: prost_types::Duration::try_from(plan.ack_timeout).ok(),
        ..Default::default()
    }
}

/// Calls that may be made again.
fn allowed(plan: &Plan) -> u64 {
    let count = plan.acts.iter().filter(|(_, act)| act.may_duplicate()).count() as u64;
    count * u64::from(UNRECORDED)
}

/// `KillSender` of `KillSender { restart_after: 3s }`.
fn name(act: &str) -> String {
    act.split(' ').next().unwrap_or_default().to_owned()
}

impl Outcome {
    /// Adds what clients went through.
    pub fn add_records(&mut self, records: &[Record]) {
        for record in records {
            self.mistakes.extend(record.refused.as_ref().map(|why| format!("a client was refused: {why}")));
            self.breaks += u64::from(record.breaks);
            for (before, after) in record.connections.iter().zip(record.connections.iter().skip(1)) {
                let absence = before.to.and_then(|lost| after.from.duration_since(lost).ok());
                self.longest_absence = self.longest_absence.max(absence.unwrap_or_default());
            }
        }
    }
}
