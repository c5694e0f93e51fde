//! How a Bongsu process runs: what every one of our binaries does before, beside and after its real work.
//!
//! * [`telemetry`] – logs to stderr, metrics in the Prometheus format, the process-wide TLS provider
//! * [`shutdown`] – SIGTERM and SIGINT as a cancellation token
//! * [`health`] – one state behind gRPC health and `/ready`
//! * [`admin`] – the HTTP port for probes and metrics
//! * [`grpc`] – bounds, reflection and bounded shutdown of a gRPC server
//! * [`local_postgres`] – a private PostgreSQL that cannot outlive us, for demo, dev and tests
//! * [`parent`] – ending with the process that started us
//!
//! Depends on nothing else of ours and knows no SQL.

pub mod admin;
pub mod api;
pub mod database_url;
pub mod grpc;
pub mod health;
pub mod local_postgres;
pub mod parent;
pub mod shutdown;
pub mod telemetry;
