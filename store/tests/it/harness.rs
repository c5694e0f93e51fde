//! A fresh database for each test, and what tests look at beside the API.

use bongsu_store::{Store, testing};

/// Connections a test may use at a time.
const CONNECTIONS: u32 = 16;

/// A store on a fresh database of its own.
pub async fn store() -> Store {
    Store::new(&testing::fresh_database().await, CONNECTIONS, "test").expect("a valid URL")
}

/// Two stores on one fresh database, as two processes have them.
pub async fn two_stores() -> [Store; 2] {
    let url = testing::fresh_database().await;
    [(); 2].map(|()| Store::new(&url, CONNECTIONS, "test").expect("a valid URL"))
}

/// A store on an empty database, without the schema.
pub async fn empty_store() -> Store {
    Store::new(&testing::empty_database().await, CONNECTIONS, "test").expect("a valid URL")
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
