//! The live channel over real sockets, with a real Postgres. Who a user is says the test's own layer.

mod client;
mod ends;
mod faults;
mod limits;
mod streams;
mod tls;
mod world;
