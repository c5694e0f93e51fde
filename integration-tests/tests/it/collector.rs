//! A collector of traces that keeps what it is sent, and a receiver of webhooks that keeps which trace it was called for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status};

/// A span that was sent, ids in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub service: String,
    pub name: String,
    pub trace: String,
    pub span: String,
    pub parent: String,
    /// Values as text.
    pub attributes: BTreeMap<String, String>,
}

pub struct Collector {
    pub url: String,
    spans: Arc<Mutex<Vec<Sent>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans = Arc::new(Mutex::new(vec![]));
        let service = TraceServiceServer::new(Keeper(spans.clone()));
        let serving = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Self { url, spans, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn spans(&self) -> Vec<Sent> {
        self.spans.lock().unwrap().clone()
    }
}

struct Keeper(Arc<Mutex<Vec<Sent>>>);

#[tonic::async_trait]
impl TraceService for Keeper {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut kept = self.0.lock().unwrap();
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let service = attributes(resource.attributes).remove("service.name").unwrap_or_default();
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                kept.push(Sent {
                    service: service.clone(),
                    name: span.name,
                    trace: hex(&span.trace_id),
                    span: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    attributes: attributes(span.attributes),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attributes(pairs: Vec<opentelemetry_proto::tonic::common::v1::KeyValue>) -> BTreeMap<String, String> {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let text = |value| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => format!("{other:?}"),
    };
    pairs.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}

/// A webhook over HTTP/1.1 that accepts everything.
pub struct Receiver {
    pub address: SocketAddr,
    calls: Arc<Mutex<Vec<Option<String>>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(vec![]));
        let shared = calls.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let calls = shared.clone();
                // A caller that goes away ends it.
                tokio::spawn(async move { serve(stream, &calls).await });
            }
        });
        Self { address, calls, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// The traceparent of each call, where it had one.
    pub fn calls(&self) -> Vec<Option<String>> {
        self.calls.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, calls: &Mutex<Vec<Option<String>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut trace) = (0, None);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            match line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value)) {
                Some((name, value)) if name == "content-length" => length = value.parse().unwrap(),
                Some((name, value)) if name == "traceparent" => trace = Some(value.to_owned()),
                _ if line.is_empty() => break,
                _ => {}
            }
        }
        stream.read_exact(&mut vec![0; length]).await?;
        calls.lock().unwrap().push(trace);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}
