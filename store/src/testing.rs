//! Databases for tests: one server for a whole test binary, a migrated database of its own for each test.
//!
//! The server is a private one, unless `BONGSU_TEST_DATABASE_URL` names another; on that one, only databases that were made
//! here are touched, and they stay for whoever wants to look.

mod sabotage;

pub use crate::live::testing::make_events;
pub use sabotage::{Saboteur, Slots};

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bongsu_ops::local_postgres::{LocalPostgres, Options};

use crate::{Store, create_database};

/// The URL of a fresh database with the schema.
pub async fn fresh_database() -> String {
    let server = server().await;
    make(server, Some(&server.template)).await
}

/// The URL of a fresh database without it.
pub async fn empty_database() -> String {
    make(server().await, None).await
}

/// The URL of a database with the schema on a server of the test's own, which is at `server_url`.
pub async fn database_at(server_url: &str) -> String {
    let name = "bongsu";
    create_database(server_url, name, None).await.expect("a database for this test");
    let url = with_database(server_url, name);
    let store = Store::new(&url, 1, "test").expect("a valid URL");
    store.migrate().await.expect("the migrations apply");
    store.close().await;
    url
}

/// The server that this test binary uses.
struct Server {
    /// Ends with this process, whichever way that ends.
    private: Option<LocalPostgres>,
    /// A URL of the given server, whose database is replaced.
    given: Option<String>,
    /// The migrated database that tests get copies of.
    template: String,
}

impl Server {
    fn url(&self, database: &str) -> String {
        match (&self.private, &self.given) {
            (Some(private), _) => private.url(database),
            (None, Some(given)) => with_database(given, database),
            (None, None) => unreachable!("one of them is set"),
        }
    }
}

/// Puts another database into a `postgres://host/database?options` URL.
fn with_database(url: &str, database: &str) -> String {
    let (base, options) = url.split_once('?').map_or((url, String::new()), |(b, o)| (b, format!("?{o}")));
    let after_scheme = base.find("://").map_or(0, |at| at + 3);
    let host_end = base[after_scheme..].find('/').map_or(base.len(), |at| after_scheme + at);
    format!("{}/{database}{options}", &base[..host_end])
}

async fn make(server: &Server, template: Option<&str>) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("bongsu_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    create_database(&server.url("postgres"), &name, template).await.expect("a database for this test");
    server.url(&name)
}

async fn server() -> &'static Server {
    // On a thread without a runtime: it waits for the server, and needs a runtime of its own for the template.
    tokio::task::spawn_blocking(|| std::thread::spawn(started).join().expect("a PostgreSQL for the tests"))
        .await
        .expect("a PostgreSQL for the tests")
}

fn started() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let given = std::env::var("BONGSU_TEST_DATABASE_URL").ok().filter(|url| !url.is_empty());
        let private = match given {
            Some(_) => None,
            None => Some(LocalPostgres::start(&Options::default()).expect("a private PostgreSQL")),
        };
        let template = format!("bongsu_template_{}", std::process::id());
        let server = Server { private, given, template };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            create_database(&server.url("postgres"), &server.template, None).await.expect("the template");
            let store = Store::new(&server.url(&server.template), 1, "test").expect("a valid URL");
            store.migrate().await.expect("the migrations apply");
            store.close().await; // nobody may be connected to a template while it is copied
        });
        server
    })
}

/// Batches that are neither done nor in one of `states`, which no API shows.
pub async fn open_batches(store: &Store, states: &[&str]) -> i64 {
    let states: Vec<String> = states.iter().map(ToString::to_string).collect();
    sqlx::query_scalar("SELECT count(*) FROM batch WHERE state <> 'done' AND state::text <> ALL ($1)")
        .bind(states)
        .fetch_one(store.test_pool())
        .await
        .expect("batches are counted")
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn a_given_server_is_asked_for_another_database() {
        for (given, expected) in [
            ("postgres://u:p@db:5432/main?sslmode=disable", "postgres://u:p@db:5432/x?sslmode=disable"),
            ("postgres://localhost", "postgres://localhost/x"),
            ("postgres://localhost/?host=%2Ftmp%2Fa", "postgres://localhost/x?host=%2Ftmp%2Fa"),
        ] {
            assert_eq!(with_database(given, "x"), expected);
        }
    }
}
