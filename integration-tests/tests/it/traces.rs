//! One trace from a caller's request to the provider's doorstep, whichever processes do the work.

use bongsu_ops::trace::TraceArgs;
use bongsu_proto::v1::{CreateBroadcastRequest, UserAudience, audience};
use provider_sim::Behaviour;
use tonic::Request;

use crate::collector::{Collector, Receiver, Sent};
use crate::world::{World, quick, to, to_everyone, until};

/// A caller's trace, and its span in it.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const DEVICES: usize = 20;

/// Services that trace only what callers trace, and a receiver that all calls go to.
async fn traced(collector: &str, receiver: &Receiver) -> World {
    let trace = TraceArgs { otlp_endpoint: Some(collector.parse().unwrap()), trace_sample_ratio: 0.0 };
    let of_intake = trace.clone();
    let mut world =
        World::with_intake(Behaviour::default(), move |config| config.telemetry.trace = of_intake).await;
    let webhook = format!("push=http://{}/push", receiver.address).parse().unwrap();
    world
        .add_sender(|config| {
            quick(config);
            config.webhooks = vec![webhook];
            config.telemetry.trace = trace;
        })
        .await;
    world.import_good(DEVICES).await;
    world
}

/// As a caller whose span is sampled, or not.
async fn create(world: &mut World, request: CreateBroadcastRequest, sampled: bool) -> i64 {
    let mut request = Request::new(request);
    let flags = u8::from(sampled);
    let traceparent = format!("00-{TRACE}-{SPAN}-{flags:02x}").parse().unwrap();
    request.metadata_mut().insert("traceparent", traceparent);
    world.broadcasts.create_broadcast(request).await.unwrap().into_inner().broadcast.unwrap().id
}

fn named<'a>(spans: &'a [Sent], name: &str) -> Vec<&'a Sent> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_trace_goes_from_its_request_through_fan_out_to_one_call_of_each_batch() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let mut world = traced(&collector.url, &receiver).await;
    let id = create(&mut world, to_everyone("k"), true).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, DEVICES as i64);
    // The end of a process sends what is left.
    world.stop().await;

    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    let [asked] = named(&spans, "CreateBroadcast")[..] else { panic!("{spans:#?}") };
    assert_eq!((asked.service.as_str(), asked.parent.as_str()), ("bongsu-intake", SPAN));
    assert_eq!(asked.attributes["bongsu.broadcast_id"], id.to_string());
    let pages = named(&spans, "fan_out.page");
    assert!(!pages.is_empty() && pages.iter().all(|page| page.parent == asked.span), "{spans:#?}");
    let [call] = named(&spans, "provider.call")[..] else { panic!("one of the batch: {spans:#?}") };
    assert_eq!((call.service.as_str(), &call.parent), ("bongsu-sender", &asked.span));
    assert_eq!(
        (&*call.attributes["bongsu.provider"], &*call.attributes["bongsu.answer"]),
        ("push", "accepted")
    );

    let told: Vec<String> = receiver.calls().into_iter().flatten().collect();
    assert_eq!(told, [format!("00-{TRACE}-{}-01", call.span)], "the receiver goes on with the call's span");
    assert_eq!(receiver.calls().len(), DEVICES);
    let said = format!("{spans:?}");
    assert!(!said.contains("good-") && !said.contains("봉수") && !said.contains("불이"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_list_is_traced_too_and_what_a_caller_does_not_sample_is_not() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let mut world = traced(&collector.url, &receiver).await;
    let list = |user: &str| audience::Kind::Users(UserAudience { user_ids: vec![user.into()] });
    let unsampled = create(&mut world, to("unsampled", list("good-1")), false).await;
    let untraced = world.create(to("untraced", list("good-2"))).await.id;
    let sampled = create(&mut world, to("sampled", list("good-3")), true).await;
    for id in [unsampled, untraced, sampled] {
        assert_eq!(world.finish(id).await.counts.unwrap().sent, 1);
    }
    world.stop().await;

    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(spans.len(), 2, "{names:?}");
    let sampled = sampled.to_string();
    assert!(spans.iter().all(|span| span.attributes["bongsu.broadcast_id"] == sampled), "{spans:#?}");
    assert_eq!(receiver.calls().into_iter().flatten().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_not_there_holds_up_neither_work_nor_the_end() {
    // Its listener is closed before anybody connects.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let receiver = Receiver::start().await;
    let mut world = traced(&format!("http://{nowhere}"), &receiver).await;
    let id = create(&mut world, to_everyone("k"), true).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, DEVICES as i64);
    let sender = world.take_sender();
    let stopping = tokio::spawn(sender.stop());
    until("the sender has ended", async || stopping.is_finished()).await;
    world.stop().await;
}
