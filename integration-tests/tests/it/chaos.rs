//! Crash trials, a few of them: `bongsu chaos` runs as many as asked.

use bongsu_cli::chaos::live::LiveArgs;
use bongsu_cli::chaos::{self, Args};
use bongsu_proto::v1::Guarantee;

use crate::processes::BONGSU;

async fn trials(guarantee: Guarantee, seed: u64) -> chaos::Report {
    let executable = Some(BONGSU.into());
    let args = Args {
        trials: 4,
        seed: Some(seed),
        devices: 1_500,
        guarantee,
        full_scale: false,
        executable,
        live: LiveArgs::default(),
    };
    chaos::trials(args, |line| eprintln!("{line}")).await.unwrap_or_else(|broken| panic!("{broken:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_killed_and_frozen_at_random_moments_lose_nothing_and_repeat_only_what_was_in_flight() {
    let report = trials(Guarantee::AtLeastOnce, 21).await;
    assert!(report.kills > 0 && report.duplicates <= report.duplicates_allowed, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_processes_killed_and_frozen_at_random_moments_repeat_nothing_at_all() {
    let report = trials(Guarantee::AtMostOnce, 21).await;
    assert!(report.kills > 0 && report.duplicates == 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_get_everything_by_stream_or_by_push_whatever_happens_to_processes_and_clients() {
    let live = LiveArgs { live: true, clients: 80, redis: false };
    let args = Args {
        trials: 2,
        seed: Some(3),
        devices: 200,
        guarantee: Guarantee::AtLeastOnce,
        full_scale: false,
        executable: Some(BONGSU.into()),
        live,
    };
    let report = chaos::live::trials(args, |line| eprintln!("{line}")).await;
    let report = report.unwrap_or_else(|broken| panic!("{broken:#}"));
    let got = report.by_stream + report.by_push + report.by_both;
    assert!(report.acts >= 2 && got == report.broadcasts * 200, "{report:?}");
}
