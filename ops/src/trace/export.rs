//! The way to the collector, which says when it does not lead there: once, not with each batch of spans.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// An exporter whose failures are logged.
#[derive(Debug)]
pub(super) struct Announced<E> {
    exporter: E,
    /// Host and port.
    collector: Option<String>,
    failing: AtomicBool,
}

impl<E> Announced<E> {
    pub(super) fn new(exporter: E, collector: Option<String>) -> Self {
        Self { exporter, collector, failing: AtomicBool::new(false) }
    }
}

impl<E: SpanExporter> SpanExporter for Announced<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        let collector = self.collector.as_deref().unwrap_or_default();
        match &exported {
            Ok(()) if self.failing.swap(false, Ordering::Relaxed) => {
                tracing::info!(collector, "the collector takes traces again");
            }
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(collector, %error, "the collector takes no traces; they are dropped");
            }
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
