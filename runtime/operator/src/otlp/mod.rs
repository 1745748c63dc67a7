//! Spans of tasks to an OpenTelemetry collector, as OTLP over HTTP. The library opens the spans; here the standard
//! variables say where they go:
//!
//! - `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` with `/v1/traces` behind it;
//! - `OTEL_EXPORTER_OTLP_PROTOCOL`: `http/json`, or `http/protobuf`;
//! - `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`: spans hold what was said;
//! - everything else that the `opentelemetry` crates read: headers, timeout, batches, sampler, resource.
//!
//! A build without the feature `otlp` sends nothing and says so.

#[cfg(feature = "otlp")]
mod exporter;

use axum::http::HeaderMap;
use herm::{Error, Result};

#[cfg(feature = "otlp")]
pub(crate) use exporter::{continuing, dropped, layer, shutdown};

/// How spans are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// What the environment says of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtlpSettings {
    pub(crate) encoding: Encoding,
    /// Whether what was said is sent along.
    pub(crate) content: bool,
}

impl OtlpSettings {
    /// As the environment of this process says; `None` where spans go nowhere.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let said = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        // A variable for traces goes before the one for everything.
        let of_traces = |name: &str| {
            let special = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            said(&special).map(|value| (special, value)).or_else(|| {
                let general = format!("OTEL_EXPORTER_OTLP_{name}");
                said(&general).map(|value| (general, value))
            })
        };
        let is_true = |name: &str| said(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let goes_nowhere = is_true("OTEL_SDK_DISABLED") || said("OTEL_TRACES_EXPORTER").as_deref() == Some("none");
        if goes_nowhere || of_traces("ENDPOINT").is_none() {
            return Ok(None);
        }
        let encoding = match of_traces("PROTOCOL") {
            None => Encoding::Json,
            Some((_, said)) if said == "http/json" => Encoding::Json,
            Some((_, said)) if said == "http/protobuf" => Encoding::Protobuf,
            Some((name, said)) => {
                return Err(Error::invalid(format!("{name}={said} is not supported"))
                    .hint("set it to http/json or http/protobuf, and the endpoint to the collector's port for HTTP"));
            }
        };
        if let Some((name, headers)) = of_traces("HEADERS")
            && !headers.split_terminator(',').all(|pair| pair.contains('='))
        {
            return Err(Error::invalid(format!("{name} is not a list of NAME=VALUE")).hint("separate them by commas"));
        }
        let content = is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Some(Self { encoding, content }))
    }
}

/// Whether spans of a server are to hold what was said.
pub(crate) fn captures_content() -> bool {
    cfg!(feature = "otlp") && matches!(OtlpSettings::from_environment(), Ok(Some(OtlpSettings { content: true, .. })))
}

/// The trace that a caller began, as its request names it.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "no trace is continued in this build"))]
pub(crate) struct CallerTrace {
    parent: String,
    state: Option<String>,
}

impl CallerTrace {
    /// What `traceparent` and `tracestate` say; none without the first.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Some(Self { parent: text("traceparent")?, state: text("tracestate") })
    }
}

/// No collector in this build.
#[cfg(not(feature = "otlp"))]
mod nothing {
    use super::CallerTrace;

    /// The work, as it is.
    pub(crate) fn continuing<W: Future>(_: Option<&CallerTrace>, work: W) -> W {
        work
    }

    /// Nothing is sent, so nothing is dropped.
    pub(crate) fn dropped() -> u64 {
        0
    }

    /// Nothing is left to be sent.
    pub(crate) fn shutdown() {}
}

#[cfg(not(feature = "otlp"))]
pub(crate) use nothing::{continuing, dropped, shutdown};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>> {
        let find = |name: &str| variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
        OtlpSettings::read(find)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

    #[test]
    fn spans_go_where_the_environment_names_an_endpoint_and_nowhere_else() {
        let (json, protobuf) = (Encoding::Json, Encoding::Protobuf);
        let settings = |encoding, content| Some(OtlpSettings { encoding, content });
        let content = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "TRUE");
        for (variables, expected) in [
            (vec![], None),
            (vec![content, (PROTOCOL, "grpc")], None),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            (vec![ENDPOINT], settings(json, false)),
            (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost/traces")], settings(json, false)),
            (vec![ENDPOINT, ("OTEL_SDK_DISABLED", "true")], None),
            (vec![ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], None),
            (vec![ENDPOINT, content], settings(json, true)),
            (vec![ENDPOINT, (PROTOCOL, "http/protobuf")], settings(protobuf, false)),
            (
                vec![ENDPOINT, (PROTOCOL, "grpc"), ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")],
                settings(json, false),
            ),
        ] {
            assert_eq!(read(&variables).unwrap(), expected, "{variables:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_the_name_of_the_variable() {
        for (name, value, said) in [
            (PROTOCOL, "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported"),
            (
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                "http/xml",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/xml is not supported",
            ),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,c", "OTEL_EXPORTER_OTLP_HEADERS is not a list of NAME=VALUE"),
        ] {
            assert_eq!(read(&[ENDPOINT, (name, value)]).unwrap_err().message(), said);
        }
    }
}
