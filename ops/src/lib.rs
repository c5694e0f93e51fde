//! How a Bongsu process runs: what every one of our binaries does before, beside and after its real work.
//!
//! * [`telemetry`] – logs to stderr, metrics in the Prometheus format, the process-wide TLS provider
//! * [`metric`] – what metrics are called and mean, [`trace`] – spans sent to a collector
//! * [`shutdown`] – SIGTERM and SIGINT as a cancellation token
//! * [`health`] – one state behind gRPC health and `/ready`
//! * [`admin`] – the HTTP port for probes and metrics
//! * [`grpc`] – bounds, reflection and bounded shutdown of a gRPC server
//! * [`access`] – who may call what, how much of it, and over which connections
//! * [`reload`] – files that are taken up again when they change
//! * [`local_postgres`] – a private PostgreSQL that cannot outlive us, for demo, dev and tests
//! * [`local_redis`] – a private Redis of the same kind
//! * [`open_files`] – room for connections
//! * [`parent`] – ending with the process that started us
//!
//! Depends on nothing else of ours and knows no SQL.

pub mod access;
pub mod admin;
pub mod api;
pub mod database_url;
pub mod grpc;
pub mod health;
pub mod local_postgres;
pub mod local_redis;
pub mod metric;
pub mod open_files;
pub mod parent;
pub mod reload;
pub mod shutdown;
pub mod telemetry;
pub mod trace;
