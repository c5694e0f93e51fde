//! One private Postgres for the whole binary, one database for each test.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bongsu_ops::local_postgres::{LocalPostgres, Options};
use bongsu_store::{Store, create_database};

/// The migrated database that each test gets a copy of.
const TEMPLATE: &str = "bongsu_template";
/// Connections a test may use at a time.
const CONNECTIONS: u32 = 16;

/// A store on a fresh database of its own.
pub async fn store() -> Store {
    let postgres = postgres();
    let name = fresh_name();
    create_database(&postgres.url("postgres"), &name, Some(TEMPLATE)).await.expect("a copy of the template");
    Store::new(&postgres.url(&name), CONNECTIONS, "test").expect("a valid URL")
}

/// A store on an empty database, without the schema.
pub async fn empty_store() -> Store {
    let postgres = postgres();
    let name = fresh_name();
    create_database(&postgres.url("postgres"), &name, None).await.expect("an empty database");
    Store::new(&postgres.url(&name), CONNECTIONS, "test").expect("a valid URL")
}

fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a statement that returns one bigint (or a row of them: the first), to look at or to set what no API does: clocks.
pub async fn sql(store: &Store, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(store.test_pool()).await.expect(statement)
}

/// Waits for a condition that another process brings about, for at most half a minute.
pub async fn until(mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..1_500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the condition did not come true");
}

/// The cluster; it ends with this process, whichever way that ends.
fn postgres() -> &'static LocalPostgres {
    static POSTGRES: OnceLock<LocalPostgres> = OnceLock::new();
    POSTGRES.get_or_init(|| {
        // A thread of its own: the caller's may be one of a runtime, which must not block on another.
        std::thread::spawn(|| {
            let postgres = LocalPostgres::start(&Options::default()).expect("a private PostgreSQL");
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(make_template(&postgres));
            postgres
        })
        .join()
        .expect("the cluster starts")
    })
}

async fn make_template(postgres: &LocalPostgres) {
    create_database(&postgres.url("postgres"), TEMPLATE, None).await.expect("an empty database");
    let store = Store::new(&postgres.url(TEMPLATE), 1, "test").expect("a valid URL");
    store.migrate().await.expect("the migrations apply");
    store.close().await; // nobody may be connected to a template while it is copied
}
