//! What operators, other programs and full servers do to a database, for tests of what we do then.

use std::collections::BTreeSet;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, SqlStr};

/// What sessions of ours are called, so that we never harm our own.
const APPLICATION: &str = "saboteur";
/// Whoever wants every connection must be faster than those who had them, and is within this.
const TAKE_ALL_WITHIN: Duration = Duration::from_secs(60);

/// A session of a superuser.
#[derive(Debug)]
pub struct Saboteur {
    options: PgConnectOptions,
    connection: PgConnection,
}

/// Connections held so that nobody else has them; free again when dropped.
#[derive(Debug)]
pub struct Slots(#[allow(dead_code)] Vec<PgConnection>);

impl Saboteur {
    pub async fn connect(url: &str) -> Self {
        let options = PgConnectOptions::from_str(url).expect("a valid URL").application_name(APPLICATION);
        let connection = options.connect().await.expect("the database answers");
        Self { options, connection }
    }

    /// Ends every session of others in this database.
    pub async fn end_sessions(&mut self) {
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name <> $1",
        )
        .bind(APPLICATION)
        .execute(&mut self.connection)
        .await
        .expect("a superuser may");
    }

    /// Takes every connection that the server has, those of others too.
    pub async fn take_all_slots(&mut self) -> Slots {
        let most: String = sqlx::query_scalar("SHOW max_connections")
            .fetch_one(&mut self.connection)
            .await
            .expect("a setting");
        let most: usize = most.parse().expect("a number");
        let taking = async {
            let mut slots = vec![];
            while slots.len() + 1 < most {
                match self.options.connect().await {
                    Ok(connection) => slots.push(connection),
                    Err(_) => self.end_sessions().await,
                }
            }
            Slots(slots)
        };
        tokio::time::timeout(TAKE_ALL_WITHIN, taking).await.expect("every connection of the server")
    }

    /// The server's processes beside its first one.
    pub async fn processes(&mut self) -> Vec<i32> {
        sqlx::query_scalar("SELECT pid FROM pg_stat_activity")
            .fetch_all(&mut self.connection)
            .await
            .expect("the database answers")
    }

    /// Changes something by hand.
    pub async fn run(&mut self, statement: &'static str) {
        sqlx::raw_sql(SqlStr::from_static(statement)).execute(&mut self.connection).await.expect(statement);
    }

    /// Opens a transaction with this statement, which takes a lock; it holds until [`Saboteur::release`].
    pub async fn hold(&mut self, statement: &'static str) {
        for sql in ["BEGIN", statement] {
            sqlx::raw_sql(SqlStr::from_static(sql)).execute(&mut self.connection).await.expect("a lock");
        }
    }

    /// Ends the transaction of [`Saboteur::hold`].
    pub async fn release(&mut self) {
        sqlx::raw_sql("ROLLBACK").execute(&mut self.connection).await.expect("the database answers");
    }

    /// The sessions of an application that wait for a lock now.
    pub async fn waiting(&mut self, application: &str) -> BTreeSet<i32> {
        let waiting: Vec<i32> = sqlx::query_scalar(
            "SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock'",
        )
        .bind(application)
        .fetch_all(&mut self.connection)
        .await
        .expect("the database answers");
        waiting.into_iter().collect()
    }
}
