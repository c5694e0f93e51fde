//! Traces: spans sent to a collector by OTLP over gRPC, where one is configured. Without one, nothing here costs anything.
//!
//! Spans are made by hand where work crosses a process, and nowhere else: spans of libraries would be as many as calls. A
//! context is stored and sent on only where it is sampled, so that whoever finds one need not ask.

mod export;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tonic::metadata::MetadataMap;
use tonic::transport::{ClientTlsConfig, Uri};

use self::export::Announced;

/// How long the collector may take to answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of a process waits for its last spans.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);
/// The header, and the metadata, that a context travels in.
pub const TRACEPARENT: &str = "traceparent";

/// Whether and where a process sends traces. Flatten it into the service's own arguments.
#[derive(clap::Args, Clone, Debug)]
pub struct TraceArgs {
    /// The collector to send traces to, by OTLP over gRPC: http://collector:4317, or https:// for TLS; without it there are
    /// none. What OTEL_EXPORTER_OTLP_HEADERS has is sent along
    #[arg(long, env = "BONGSU_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<Uri>,

    /// The share of requests that begin a trace, 0 to 1. Those of callers who trace are traced if the caller's is
    #[arg(long, env = "BONGSU_TRACE_SAMPLE_RATIO", value_name = "SHARE", default_value_t = 0.1)]
    pub trace_sample_ratio: f64,
}

impl Default for TraceArgs {
    fn default() -> Self {
        Self { otlp_endpoint: None, trace_sample_ratio: 0.1 }
    }
}

impl TraceArgs {
    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        if !(0.0..=1.0).contains(&self.trace_sample_ratio) {
            let ratio = self.trace_sample_ratio;
            return Some(format!(
                "--trace-sample-ratio (BONGSU_TRACE_SAMPLE_RATIO) is {ratio}: give it 0 to 1"
            ));
        }
        let endpoint = self.otlp_endpoint.as_ref()?;
        if endpoint.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Some(
                "--otlp-endpoint (BONGSU_OTLP_ENDPOINT) has a password in it, which would be logged: give it as a header, in \
                 OTEL_EXPORTER_OTLP_HEADERS"
                    .to_owned(),
            );
        }
        let usable = matches!(endpoint.scheme_str(), Some("http" | "https")) && endpoint.host().is_some();
        (!usable).then(|| {
            "--otlp-endpoint (BONGSU_OTLP_ENDPOINT) is no http:// or https:// URL: give it scheme, host and port, such as \
             http://collector:4317"
                .to_owned()
        })
    }
}

/// What makes spans, or none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<On>>);

#[derive(Debug)]
struct On {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// A span that ends when it is dropped; or none.
#[derive(Debug, Default)]
pub struct Span(Option<opentelemetry_sdk::trace::Span>);

/// Which span work belongs to: a valid and sampled W3C traceparent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traceparent(SpanContext);

impl Tracer {
    /// Begins to send what is traced, if there is where to. Call it within the runtime, which carries the connection.
    ///
    /// # Errors
    ///
    /// When the endpoint is no URL. A collector that is not there is none: its spans are dropped, which is logged.
    pub fn start(args: &TraceArgs, service: &'static str) -> anyhow::Result<Self> {
        let Some(endpoint) = &args.otlp_endpoint else { return Ok(Self::default()) };
        let mut exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint.to_string())
            .with_timeout(EXPORT_TIMEOUT);
        if endpoint.scheme_str() == Some("https") {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_webpki_roots());
        }
        let exporter = exporter.build().context("--otlp-endpoint (BONGSU_OTLP_ENDPOINT)")?;
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", service),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ]);
        let ratio = Sampler::TraceIdRatioBased(args.trace_sample_ratio);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Announced::new(exporter, endpoint.authority().map(ToString::to_string)))
            .with_sampler(Sampler::ParentBased(Box::new(ratio)))
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("bongsu");
        tracing::info!(endpoint = endpoint.host(), ratio = args.trace_sample_ratio, "traces are sent");
        Ok(Self(Some(Arc::new(On { provider, tracer }))))
    }

    /// Whether there is where to send traces.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A span of a call that we answer: of the caller's trace if it has one, else perhaps of its own.
    pub fn answering(&self, method: &'static str, metadata: &MetadataMap) -> Span {
        let Some(on) = &self.0 else { return Span(None) };
        let parent = metadata.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        let context = parent.and_then(parse);
        let context = context.map(|span| Context::new().with_remote_span_context(span)).unwrap_or_default();
        let builder = on.tracer.span_builder(method).with_kind(SpanKind::Server);
        let span = Span(Some(builder.start_with_context(&on.tracer, &context)));
        span.with("rpc.system.name", "grpc").with("rpc.method", method)
    }

    /// A span of later work for `parent`, which began then; none without one.
    pub fn following(
        &self,
        name: &'static str,
        kind: Work,
        parent: Option<&Traceparent>,
        began: SystemTime,
    ) -> Span {
        let (Some(on), Some(Traceparent(parent))) = (&self.0, parent) else { return Span(None) };
        let context = Context::new().with_remote_span_context(parent.clone());
        let kind = match kind {
            Work::Internal => SpanKind::Internal,
            Work::Call => SpanKind::Client,
        };
        let builder = on.tracer.span_builder(name).with_kind(kind).with_start_time(began);
        Span(Some(builder.start_with_context(&on.tracer, &context)))
    }

    /// Sends what is left, for a few seconds at most, and nothing afterwards.
    pub async fn finish(&self) {
        let Some(on) = &self.0 else { return };
        let provider = on.provider.clone();
        // It blocks, while the connection needs this runtime.
        let finishing = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FINISH_TIMEOUT));
        if !matches!(tokio::time::timeout(FINISH_TIMEOUT, finishing).await, Ok(Ok(Ok(())))) {
            tracing::warn!("the last traces were not taken by the collector in time");
        }
    }
}

/// What a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Work of our own.
    Internal,
    /// A call to somebody else.
    Call,
}

impl Span {
    /// Says more of it. Never a token, never a text.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(key, value));
        }
    }

    fn with(mut self, key: &'static str, value: &'static str) -> Self {
        self.set(key, value);
        self
    }

    /// It did not go well: a code or a word, no message.
    pub fn failed(&mut self, why: impl Into<Cow<'static, str>>) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::error(why));
        }
    }

    /// What to hand on to whoever continues it: none where it is not sampled.
    pub fn traceparent(&self) -> Option<Traceparent> {
        let context = self.0.as_ref()?.span_context();
        context.is_sampled().then(|| Traceparent(context.clone()))
    }
}

impl Traceparent {
    /// Of a header, if it is valid and sampled.
    pub fn of(header: &str) -> Option<Self> {
        parse(header).filter(SpanContext::is_sampled).map(Self)
    }
}

impl std::fmt::Display for Traceparent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(span) = self;
        write!(f, "00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags().to_u8())
    }
}

fn parse(header: &str) -> Option<SpanContext> {
    struct Header<'a>(&'a str);
    impl Extractor for Header<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            (key == TRACEPARENT).then_some(self.0)
        }
        fn keys(&self) -> Vec<&str> {
            vec![TRACEPARENT]
        }
    }
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Header(header));
    let span = context.span().span_context().clone();
    span.is_valid().then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_handed_on_only_where_it_is_valid_and_sampled() {
        assert_eq!(Traceparent::of(SAMPLED).expect("valid").to_string(), SAMPLED);
        for header in [
            "",
            "00",
            &SAMPLED.replace("-01", "-00"),
            &SAMPLED.replace("0af7", "zzzz"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(Traceparent::of(header), None, "{header}");
        }
    }

    #[test]
    fn without_a_collector_there_are_no_spans_and_the_callers_context_goes_nowhere() {
        let tracer = Tracer::start(&TraceArgs::default(), "test").expect("off");
        let mut metadata = MetadataMap::new();
        metadata.insert(TRACEPARENT, SAMPLED.parse().expect("ASCII"));
        assert!(!tracer.is_on());
        assert_eq!(tracer.answering("Test", &metadata).traceparent(), None);
        let parent = Traceparent::of(SAMPLED);
        let span = tracer.following("call", Work::Call, parent.as_ref(), SystemTime::now());
        assert_eq!(span.traceparent(), None);
    }

    #[test]
    fn a_share_or_an_endpoint_that_makes_no_sense_is_refused_with_what_to_give() {
        let args = |ratio, endpoint: Option<&str>| TraceArgs {
            otlp_endpoint: endpoint.map(|url| url.parse().expect("a URI")),
            trace_sample_ratio: ratio,
        };
        assert_eq!(args(1.0, Some("https://collector.example:4317")).problem(), None);
        assert_eq!(args(0.0, None).problem(), None);
        for (wrong, part) in [
            (args(1.5, None), "--trace-sample-ratio"),
            (args(f64::NAN, None), "--trace-sample-ratio"),
            (args(0.1, Some("collector:4317")), "--otlp-endpoint"),
            (args(0.1, Some("ftp://collector")), "--otlp-endpoint"),
            (args(0.1, Some("http://user:hunter2@collector")), "OTEL_EXPORTER_OTLP_HEADERS"),
        ] {
            let problem = wrong.problem().expect("a problem");
            assert!(problem.contains(part) && !problem.contains("hunter2"), "{problem}");
        }
    }
}
