//! The standard exporter, over the HTTP client that everything else here uses.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use herm::backend::HttpClient;
use herm::{Error, Result};
use http::header::RETRY_AFTER;
use http::{Request, Response};
use opentelemetry::context::FutureExt as _;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::{Layer, Registry};

use super::{CallerTrace, Encoding, OtlpSettings};

/// How long spans are gathered, unless `OTEL_BSP_SCHEDULE_DELAY` says.
const EVERY: Duration = Duration::from_secs(1);
/// How long a collector may send nothing, and how much of its answer is read.
const IDLE: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 64 << 10;
/// How long a server that stops waits for a collector.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// What hands the spans of herm to the exporter. Events of the log are not among them: their texts are for the operator.
pub(crate) fn layer(settings: OtlpSettings) -> Result<Box<dyn Layer<Registry> + Send + Sync>> {
    let failed = |source| Error::invalid("spans cannot be sent as the OTEL_… variables say").because(source);
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_protocol(match settings.encoding {
            Encoding::Json => Protocol::HttpJson,
            Encoding::Protobuf => Protocol::HttpBinary,
        })
        .with_http_client(CollectorClient::new()?)
        .build()
        .map_err(failed)?;
    let mut batches = BatchConfigBuilder::default();
    if std::env::var_os("OTEL_BSP_SCHEDULE_DELAY").is_none() {
        batches = batches.with_scheduled_delay(EVERY);
    }
    let processor = BatchSpanProcessor::builder(CountingExporter(exporter)).with_batch_config(batches.build()).build();
    let mut resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if !is_named() {
        resource = resource.with_service_name("herm");
    }
    let provider = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource.build()).build();
    let spans = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("herm"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false);
    let of_herm = |metadata: &tracing::Metadata<'_>| metadata.is_span() && metadata.target().starts_with("herm");
    // The first one stays: a process starts its log once.
    let _ = PROVIDER.set(provider);
    Ok(spans.with_filter(filter_fn(of_herm).with_max_level_hint(LevelFilter::INFO)).boxed())
}

/// Whether the environment names the service.
fn is_named() -> bool {
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    !said("OTEL_SERVICE_NAME").is_empty() || said("OTEL_RESOURCE_ATTRIBUTES").contains("service.name=")
}

/// How many spans were not sent.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Sends what is left. Blocks for a moment where the collector does not answer.
pub(crate) fn shutdown() {
    if let Some(provider) = PROVIDER.get()
        && let Err(error) = provider.shutdown_with_timeout(FLUSH_WITHIN)
    {
        tracing::warn!(%error, "the last spans were not sent");
    }
}

/// The work, whose spans continue the caller's trace where it named one.
pub(crate) fn continuing<W: Future>(caller: Option<&CallerTrace>, work: W) -> impl Future<Output = W::Output> {
    let none = Context::new();
    let context = match caller {
        Some(caller) => TraceContextPropagator::new().extract_with_context(&none, caller),
        None => none,
    };
    work.with_context(context)
}

impl Extractor for CallerTrace {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(&self.parent),
            "tracestate" => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Counts what does not arrive.
#[derive(Debug)]
struct CountingExporter(opentelemetry_otlp::SpanExporter);

impl SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        let sent = self.0.export(batch).await;
        if let Err(error) = &sent {
            DROPPED.fetch_add(count, Ordering::Relaxed);
            tracing::warn!(%error, count, "spans were not sent");
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.0.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// The exporter works on a thread of its own, outside the server's executor: requests are made on one that belongs to it.
#[derive(Debug)]
struct CollectorClient {
    http: HttpClient,
    executor: tokio::runtime::Runtime,
}

impl CollectorClient {
    fn new() -> Result<Self> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|source| Error::unavailable("no executor can be started").because(source))?;
        Ok(Self { http: HttpClient::new()?.idle_timeout(IDLE), executor })
    }

    async fn send(&self, request: Request<Bytes>) -> std::result::Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string().parse()?;
        let mut incoming = self.http.post(&url, parts.headers, body.to_vec()).await?;
        let mut response = Response::builder().status(incoming.status());
        if let Some(wait) = incoming.header(RETRY_AFTER.as_str()) {
            response = response.header(RETRY_AFTER, wait);
        }
        let mut answer = Vec::new();
        while let Some(piece) = incoming.chunk().await? {
            answer.extend_from_slice(piece.as_ref());
            if answer.len() > MAX_ANSWER {
                return Err("the collector's answer is too long".into());
            }
        }
        Ok(response.body(answer.into())?)
    }
}

#[async_trait::async_trait]
impl opentelemetry_http::HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> std::result::Result<Response<Bytes>, HttpError> {
        self.executor.block_on(self.send(request))
    }
}
