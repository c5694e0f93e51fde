//! A database with work and history in it, and the sessions that run statements there.

use bongsu_store::{Store, testing};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use super::plan::Plan;
use super::statements::{On, STATEMENTS, Statement};

/// A database of its own, with the names that parameters use.
pub struct Database {
    pub store: Store,
    connection: PgConnection,
}

impl Database {
    pub async fn new() -> Self {
        let url = testing::fresh_database().await;
        let store = Store::new(&url, 4, "test").unwrap();
        let connection = PgConnection::connect(&url).await.unwrap();
        let mut database = Self { store, connection };
        database.run(include_str!("names.sql")).await;
        database.run(include_str!("history.sql")).await;
        database
    }

    /// Without the time limits of a store.
    pub async fn run(&mut self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.unwrap();
    }
}

/// A lane of each kind and a connection of the pool, with every statement prepared.
pub struct Session {
    lane: PgConnection,
    keyed: PgConnection,
    pool: PgConnection,
}

impl Session {
    pub async fn open(store: &Store) -> Self {
        let lane = store.test_lane().await.unwrap();
        let keyed = store.test_keyed_lane().await.unwrap();
        let pool = store.test_pool().acquire().await.unwrap().detach();
        let mut session = Self { lane, keyed, pool };
        for Statement { name, sql, on, .. } in STATEMENTS {
            session.run(*on, &format!("PREPARE {name} AS {sql}")).await;
        }
        session
    }

    /// As a lane does every two seconds.
    pub async fn forget_plans(&mut self) {
        for on in [On::Lane, On::Keyed] {
            self.run(on, "DISCARD PLANS").await;
        }
    }

    /// Has the session plan it so many times, as for an execution.
    pub async fn plan(&mut self, statement: &Statement, times: usize) {
        let plan = format!("EXPLAIN {};", statement.execute());
        self.run(statement.on, &plan.repeat(times)).await;
    }

    /// Executes it, and takes back what it did.
    pub async fn explain(&mut self, statement: &Statement) -> Result<Plan, String> {
        let on = statement.on;
        self.run(on, "BEGIN").await;
        let sql = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {}", statement.execute());
        let answer = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(self.on(on)).await;
        self.run(on, "ROLLBACK").await;
        let Json(answer): Json<serde_json::Value> = answer.map_err(|error| error.to_string())?.get(0);
        Ok(Plan::read(&answer))
    }

    fn on(&mut self, on: On) -> &mut PgConnection {
        match on {
            On::Lane => &mut self.lane,
            On::Keyed => &mut self.keyed,
            On::Pool => &mut self.pool,
        }
    }

    async fn run(&mut self, on: On, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.on(on)).await.expect(sql);
    }
}
