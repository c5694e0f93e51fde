//! One trial: a broadcast, what is done to the processes meanwhile, and what the books say at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bongsu_proto::v1;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::books::Books;
use super::plan::{Act, Cue, Plan, Scale, When};
use super::world::{ALL, GOOD, Provider, UNRECORDED, World, connect};

/// How often the world is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// A stream that is silent for so long is opened elsewhere.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a caller waits before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Who is in the audiences.
#[derive(Debug, Clone, Copy)]
pub struct Devices {
    pub good: u32,
    pub bad: u32,
}

/// What a trial came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub mistakes: Vec<String>,
    pub kills: u32,
    pub freezes: u32,
    pub calls: u64,
    pub duplicates: u64,
    pub unconfirmed: u64,
    pub allowed: u64,
    /// From each kill of a sender until its batches were in other hands.
    pub takeovers: Vec<Duration>,
    /// The longest time without an acceptance before the last one.
    pub longest_stall: Duration,
    pub length: Duration,
}

/// Where services are, as their clients would look them up.
#[derive(Debug, Clone, Default)]
pub struct Directory(Arc<Mutex<(String, Vec<String>)>>);

impl Directory {
    pub fn note(&self, world: &World) {
        let senders = world.senders.iter().map(|s| s.process.url()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (world.stack.intake.url(), senders);
    }

    fn intake(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn senders(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

/// Plays a plan.
pub async fn play(
    world: &mut World,
    plan: &Plan,
    devices: Devices,
    at_most_once: bool,
    scale: Scale,
) -> anyhow::Result<Outcome> {
    world.fill_up().await?;
    world.prepare_provider(plan).await?;
    let directory = Directory::default();
    directory.note(world);
    let provider = world.provider();
    let request = request(plan, at_most_once);
    let patience = scale.lease * 10 + Duration::from_secs(60);
    let began = Instant::now();

    let watching = {
        let (directory, request) = (directory.clone(), request.clone());
        tokio::spawn(async move {
            let id = create(&directory, &request).await;
            (id, follow(&directory, id).await)
        })
    };
    let longest_stall = Arc::new(AtomicU64::new(0));
    let stalls = tokio::spawn(measure_stalls(provider.clone(), longest_stall.clone()));
    let mut outcome = Outcome::default();
    let acting = act_all(world, plan, devices, &request, &directory, scale, &mut outcome);
    let played = tokio::time::timeout(patience, async {
        acting.await?;
        watching.await.context("watching")
    })
    .await;
    stalls.abort();
    let (id, last) = match played {
        Ok(played) => played?,
        Err(_) => {
            outcome.mistakes.push(format!("it was not complete after {} s", patience.as_secs()));
            let findings = world.store.conditions(bongsu_store::DEFAULT_RETENTION_DAYS).await?;
            outcome.mistakes.extend(findings.iter().map(|f| format!("{} {}", f.subject, f.detail)));
            return Ok(outcome);
        }
    };
    outcome.length = began.elapsed();
    outcome.longest_stall = Duration::from_millis(longest_stall.load(Ordering::Relaxed));

    let again = create(&directory, &request).await;
    if again != id {
        outcome.mistakes.push(format!("the key stands for broadcast {again}, and for {id} before"));
    }
    let broadcast = get(&directory, id).await?;
    let stats = provider.stats().await?;
    let bad = if plan.bad_devices { devices.bad } else { 0 };
    let books = Books {
        id,
        last: &last,
        broadcast: &broadcast,
        stats: &stats,
        at_most_once,
        dedupe: plan.dedupe,
        good: devices.good.into(),
        audience: i64::from(devices.good) + i64::from(bad),
        allowed: outcome.allowed,
    };
    outcome.mistakes.extend(books.mistakes(&world.store, &provider.records().await?).await?);
    outcome.calls = stats.calls;
    outcome.duplicates = stats.duplicates;
    outcome.unconfirmed = last.counts.unwrap_or_default().unconfirmed.unsigned_abs();
    Ok(outcome)
}

fn request(plan: &Plan, at_most_once: bool) -> v1::CreateBroadcastRequest {
    let topics = vec![if plan.bad_devices { ALL } else { GOOD }.to_owned()];
    let guarantee = if at_most_once { v1::Guarantee::AtMostOnce } else { v1::Guarantee::AtLeastOnce };
    v1::CreateBroadcastRequest {
        idempotency_key: uuid::Uuid::new_v4().to_string(),
        title: "봉수".to_owned(),
        body: format!("trial {}", plan.seed),
        audience: Some(v1::Audience { kind: Some(v1::audience::Kind::Topics(v1::TopicAudience { topics })) }),
        guarantee: guarantee.into(),
        ..Default::default()
    }
}

/// Does what the plan says, each act at its cue, one after the other.
async fn act_all(
    world: &mut World,
    plan: &Plan,
    devices: Devices,
    request: &v1::CreateBroadcastRequest,
    directory: &Directory,
    scale: Scale,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x5eed);
    let began = Instant::now();
    for Cue { when, act } in &plan.cues {
        match when {
            When::AfterCall(time) => tokio::time::sleep(time.saturating_sub(began.elapsed())).await,
            When::Accepted(share) => {
                let wanted = (f64::from(devices.good) * share) as u64;
                let provider = world.provider();
                while provider.stats().await?.accepted < wanted {
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        if act.may_duplicate() {
            outcome.allowed += u64::from(UNRECORDED);
        }
        let victim = rng.random_range(0..world.senders.len());
        match *act {
            Act::KillSender { restart_after } => {
                outcome.kills += 1;
                kill_sender(world, victim, restart_after, directory, outcome).await?;
            }
            Act::FreezeWithinLease { length } => {
                outcome.freezes += 1;
                freeze(world, victim, length).await;
            }
            Act::FreezeBeyondLease { more } => {
                outcome.freezes += 1;
                freeze(world, victim, scale.lease + more).await;
            }
            Act::DrainSender => {
                let mut leaving = world.senders.remove(victim);
                directory.note(world);
                crate::stack::stop_all(
                    [&mut leaving.process],
                    scale.call_timeout * 4 + Duration::from_secs(20),
                )
                .await;
                world.fill_up().await?;
            }
            Act::KillIntake => {
                outcome.kills += 1;
                world.restart_intake().await?;
            }
            Act::Pause { length } => pause(directory, request, length).await?,
        }
        directory.note(world);
    }
    Ok(())
}

async fn kill_sender(
    world: &mut World,
    victim: usize,
    restart_after: Duration,
    directory: &Directory,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut victim = world.senders.remove(victim);
    directory.note(world);
    victim.process.kill9().await.context("killing a sender")?;
    let killed = Instant::now();
    if world.batches_of(victim.id).await? > 0 {
        while world.batches_of(victim.id).await? > 0 {
            tokio::time::sleep(LOOK).await;
        }
        outcome.takeovers.push(killed.elapsed());
    }
    tokio::time::sleep(restart_after.saturating_sub(killed.elapsed())).await;
    world.fill_up().await
}

async fn freeze(world: &World, victim: usize, length: Duration) {
    world.freeze(victim, true);
    tokio::time::sleep(length).await;
    world.freeze(victim, false);
}

async fn pause(
    directory: &Directory,
    request: &v1::CreateBroadcastRequest,
    length: Duration,
) -> anyhow::Result<()> {
    let id = create(directory, request).await;
    loop {
        let intake = connect(&directory.intake()).await?;
        let paused = v1::PauseBroadcastRequest { broadcast_id: id };
        match intake.broadcasts().pause_broadcast(paused).await {
            Ok(_) => break,
            Err(status) if status.code() == tonic::Code::FailedPrecondition => return Ok(()), // it was over
            Err(_) => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
    tokio::time::sleep(length).await;
    let intake = connect(&directory.intake()).await?;
    let resume = v1::ResumeBroadcastRequest { broadcast_id: id };
    match intake.broadcasts().resume_broadcast(resume).await {
        // What was in flight when it was paused may have been its last.
        Err(status) if status.code() != tonic::Code::FailedPrecondition => Err(status.into()),
        _ => Ok(()),
    }
}

/// As a careful caller does: with the same key until there is an answer.
pub async fn create(directory: &Directory, request: &v1::CreateBroadcastRequest) -> i64 {
    loop {
        let answer = async {
            let intake = connect(&directory.intake()).await?;
            intake.call("create", intake.broadcasts().create_broadcast(request.clone())).await
        };
        if let Ok(v1::CreateBroadcastResponse { broadcast: Some(broadcast), .. }) =
            answer.await.map_err(anyhow::Error::from)
        {
            return broadcast.id;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

pub async fn get(directory: &Directory, id: i64) -> anyhow::Result<v1::Broadcast> {
    let intake = connect(&directory.intake()).await?;
    let request = v1::GetBroadcastRequest { broadcast_id: id };
    let answer = intake.call("get", intake.broadcasts().get_broadcast(request)).await?;
    answer.broadcast.context("the answer has no broadcast")
}

/// The last message of StreamStatus, at whichever senders live meanwhile.
async fn follow(directory: &Directory, id: i64) -> v1::BroadcastStatus {
    for n in 0.. {
        let senders = directory.senders();
        if let Some(url) = senders.get(n % senders.len().max(1))
            && let Ok(last) = follow_at(url, id).await
        {
            return last;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    unreachable!("it goes on until there is one")
}

async fn follow_at(url: &str, id: i64) -> anyhow::Result<v1::BroadcastStatus> {
    let sender = connect(url).await?;
    let request = v1::StreamStatusRequest { broadcast_id: id };
    // A frozen sender takes the call and never answers.
    let mut deliveries = sender.deliveries();
    let mut stream = tokio::time::timeout(SILENCE, deliveries.stream_status(request)).await??.into_inner();
    let mut last = None;
    while let Some(message) = tokio::time::timeout(SILENCE, stream.message()).await?? {
        last = message.status;
    }
    match last {
        Some(status) => Ok(status),
        None => bail!("the stream was empty"),
    }
}

/// Notes the longest time between two acceptances, in milliseconds, until it is aborted.
async fn measure_stalls(provider: Provider, longest: Arc<AtomicU64>) {
    let (mut accepted, mut since) = (0, Instant::now());
    while let Ok(stats) = provider.stats().await {
        if stats.accepted > accepted {
            if accepted > 0 {
                longest.fetch_max(since.elapsed().as_millis() as u64, Ordering::Relaxed);
            }
            (accepted, since) = (stats.accepted, Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
}
