//! Looks at every statement of the table with small and huge histories, stale and fresh statistics, sessions that were there
//! before and new ones, and over ten executions. Done once for all tests.

use std::collections::BTreeMap;

use bongsu_store::{Store, testing};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::sync::OnceCell;

use super::plan::Plan;
use super::statements::{On, STATEMENTS, Statement};

/// The first five executions may be planned for their parameters, the sixth for any. What a tenth does, the seventh does.
const EXECUTIONS: usize = 7;

/// What is there when the first statistics are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// None are, as on a new partition.
    Never,
    Nothing,
    Work,
}

/// A history to come: `broadcasts` × `devices` deliveries.
struct Scenario {
    name: &'static str,
    first: First,
    broadcasts: u32,
    devices: u32,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario { name: SMALL, first: First::Work, broadcasts: 2, devices: 5_000 },
    Scenario {
        name: "10,000 deliveries, not analysed before",
        first: First::Never,
        broadcasts: 2,
        devices: 5_000,
    },
    Scenario { name: EMPTY, first: First::Nothing, broadcasts: 10, devices: 20_000 },
    Scenario { name: HUGE, first: First::Work, broadcasts: 10, devices: 60_000 },
];
pub const EMPTY: &str = "200,000 deliveries, analysed when empty";
const BEFORE: &str = "before it";
const EARLY_STALE: &str = "a session from before it, stale statistics";
const LATE_STALE: &str = "a new session, stale statistics";
const EARLY_FRESH: &str = "a session from before it, fresh statistics";
const LATE_FRESH: &str = "a new session, fresh statistics";
pub const SMALL: &str = "10,000 deliveries, analysed when nearly empty";
pub const HUGE: &str = "600,000 deliveries, analysed when nearly empty";

/// One execution and where it was seen.
#[derive(Debug)]
pub struct Seen {
    pub statement: &'static Statement,
    pub scenario: &'static str,
    pub when: &'static str,
    pub execution: usize,
    /// Whether there was work.
    pub busy: bool,
    /// Or why it failed, as by running into its time limit.
    pub plan: Result<Plan, String>,
}

#[derive(Debug, Default)]
pub struct Survey(Vec<Seen>);

/// What was seen, by whichever test asks first.
pub async fn survey() -> &'static Survey {
    static SURVEY: OnceCell<Survey> = OnceCell::const_new();
    SURVEY
        .get_or_init(|| async {
            // One after another: a transaction that runs elsewhere keeps what was rolled back from being cleared away.
            let mut survey = Survey::default();
            for scenario in &SCENARIOS {
                survey.run(scenario).await;
            }
            survey
        })
        .await
}

impl Survey {
    async fn run(&mut self, scenario: &Scenario) {
        let mut database = Database::new().await;
        let work_first = scenario.first == First::Work;
        if work_first {
            database.run(include_str!("work.sql")).await;
        }
        if scenario.first != First::Never {
            database.run("ANALYZE").await;
        }
        let mut early = Session::open(&database.store).await;
        self.look(scenario, BEFORE, work_first, &mut early).await;

        if !work_first {
            database.run(include_str!("work.sql")).await;
        }
        database.run(&format!("CALL history({}, {})", scenario.broadcasts, scenario.devices)).await;
        early.forget_plans().await;
        self.look(scenario, EARLY_STALE, true, &mut early).await;
        let mut late = Session::open(&database.store).await;
        self.look(scenario, LATE_STALE, true, &mut late).await;
        database.run("VACUUM (ANALYZE)").await; // and what was rolled back is gone
        self.look(scenario, EARLY_FRESH, true, &mut early).await;
        let mut late = Session::open(&database.store).await;
        self.look(scenario, LATE_FRESH, true, &mut late).await;
        database.store.close().await;
    }

    async fn look(&mut self, scenario: &Scenario, when: &'static str, busy: bool, session: &mut Session) {
        for statement in STATEMENTS {
            for execution in 1..=EXECUTIONS {
                let plan = session.explain(statement).await;
                let seen = Seen { statement, scenario: scenario.name, when, execution, busy, plan };
                let enough = seen.full() && !seen.faults().is_empty();
                self.0.push(seen);
                if enough {
                    break; // a plan that reads everything takes its time
                }
            }
        }
    }

    pub fn seen(&self, name: &str) -> impl Iterator<Item = &Seen> {
        self.0.iter().filter(move |seen| seen.statement.name == name)
    }

    /// Pages looked at, for each time: the least of its executions, as those before leave something lying about.
    pub fn pages(&self, name: &str, counts: impl Fn(&Seen) -> bool) -> BTreeMap<&str, u64> {
        let mut pages = BTreeMap::new();
        for seen in self.seen(name).filter(|seen| seen.busy && counts(seen)) {
            let looked_at = seen.plan.as_ref().map_or(u64::MAX, |plan| plan.buffers);
            let least = pages.entry(seen.when).or_insert(looked_at);
            *least = looked_at.min(*least);
        }
        pages
    }

    /// Fails unless every execution of these statements that `counts` read what they are about and nothing else.
    pub fn never_flips(&self, names: &[&str], counts: impl Fn(&Seen) -> bool) {
        let mut faults: BTreeMap<String, String> = BTreeMap::new();
        for seen in names.iter().flat_map(|name| self.seen(name)).filter(|seen| counts(seen)) {
            for fault in seen.faults() {
                let places = faults.entry(format!("{}: {fault}", seen.statement.name)).or_default();
                *places += &format!("\n    {}, {}, execution {}", seen.scenario, seen.when, seen.execution);
            }
        }
        let lines: Vec<_> = faults.iter().map(|(fault, places)| format!("\n{fault}{places}")).collect();
        assert!(lines.is_empty(), "{}", lines.concat());
    }
}

impl Seen {
    /// Whether statistics were taken after everything was there.
    pub fn fresh(&self) -> bool {
        [EARLY_FRESH, LATE_FRESH].contains(&self.when)
    }

    /// Whether the history was there: what is wrong with a plan before shows when the session has kept it.
    pub fn full(&self) -> bool {
        self.when != BEFORE
    }

    /// Whether the tables are so large that reading one of them is never right.
    pub fn large(&self) -> bool {
        self.full() && [EMPTY, HUGE].contains(&self.scenario)
    }

    fn faults(&self) -> Vec<String> {
        match &self.plan {
            Ok(plan) => plan.faults(self.statement),
            Err(error) => vec![error.clone()],
        }
    }
}

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

/// A lane and a connection of the pool, with every statement prepared.
pub struct Session {
    lane: PgConnection,
    pool: PgConnection,
}

impl Session {
    pub async fn open(store: &Store) -> Self {
        let lane = store.test_lane().await.unwrap();
        let pool = store.test_pool().acquire().await.unwrap().detach();
        let mut session = Self { lane, pool };
        for Statement { name, sql, on, .. } in STATEMENTS {
            session.run(*on, &format!("PREPARE {name} AS {sql}")).await;
        }
        session
    }

    /// As a lane does every two seconds.
    async fn forget_plans(&mut self) {
        self.run(On::Lane, "DISCARD PLANS").await;
    }

    /// Executes it, and takes back what it did.
    pub async fn explain(&mut self, statement: &Statement) -> Result<Plan, String> {
        let Statement { name, on, parameters, .. } = statement;
        let parameters = if parameters.is_empty() { String::new() } else { format!("({parameters})") };
        self.run(*on, "BEGIN").await;
        let sql = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {name}{parameters}");
        let answer = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(self.on(*on)).await;
        self.run(*on, "ROLLBACK").await;
        let Json(answer): Json<serde_json::Value> = answer.map_err(|error| error.to_string())?.get(0);
        Ok(Plan::read(&answer))
    }

    fn on(&mut self, on: On) -> &mut PgConnection {
        match on {
            On::Lane => &mut self.lane,
            On::Pool => &mut self.pool,
        }
    }

    async fn run(&mut self, on: On, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.on(on)).await.expect(sql);
    }
}
