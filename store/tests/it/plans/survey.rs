//! Looks at every statement of the table with small and huge histories, stale and fresh statistics, sessions that were there
//! before and new ones, and at its first and a late execution. Done once for all tests.

use std::collections::BTreeMap;

use tokio::sync::OnceCell;

use super::database::{Database, Session};
use super::plan::Plan;
use super::statements::{STATEMENTS, Statement};

/// Executions that are looked at. The first five may be planned for their parameters, the sixth for any; what a tenth does,
/// the seventh does. Those between are only planned, which counts as well.
const EXECUTIONS: [usize; 2] = [1, 7];

/// What is there when the first statistics are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// None are, as on a new partition.
    Never,
    Nothing,
    Work,
}

/// A history to come: `broadcasts` × `devices` deliveries.
#[derive(Debug)]
pub struct Scenario {
    name: &'static str,
    first: First,
    broadcasts: u32,
    devices: u32,
}

pub static SMALL: Scenario = Scenario {
    name: "10,000 deliveries, analysed when nearly empty",
    first: First::Work,
    broadcasts: 2,
    devices: 5_000,
};
static NEW: Scenario = Scenario {
    name: "10,000 deliveries, not analysed before",
    first: First::Never,
    broadcasts: 2,
    devices: 5_000,
};
pub static EMPTY: Scenario = Scenario {
    name: "200,000 deliveries, analysed when empty",
    first: First::Nothing,
    broadcasts: 10,
    devices: 20_000,
};
pub static HUGE: Scenario = Scenario {
    name: "600,000 deliveries, analysed when nearly empty",
    first: First::Work,
    broadcasts: 10,
    devices: 60_000,
};
static DAYS: Scenario = Scenario {
    name: "10 days of 100,000 settled deliveries beside one broadcast, analysed when nearly empty",
    first: First::Work,
    broadcasts: 1,
    devices: 100_000,
};
/// For a survey of its own: it takes minutes.
pub static VAST: Scenario = Scenario {
    name: "2,400,000 deliveries, analysed when nearly empty",
    first: First::Work,
    broadcasts: 12,
    devices: 200_000,
};

const BEFORE: &str = "before it";
const EARLY_STALE: &str = "a session from before it, stale statistics";
const LATE_STALE: &str = "a new session, stale statistics";
const EARLY_FRESH: &str = "a session from before it, fresh statistics";
const LATE_FRESH: &str = "a new session, fresh statistics";

/// One execution and where it was seen.
#[derive(Debug)]
pub struct Seen {
    pub statement: &'static Statement,
    pub scenario: &'static Scenario,
    pub when: &'static str,
    pub execution: usize,
    /// Whether there was work.
    pub busy: bool,
    /// Or why it failed, as by running into its time limit.
    pub plan: Result<Plan, String>,
}

#[derive(Debug, Default)]
pub struct Survey(Vec<Seen>);

/// What was seen beside histories that do not take long to make, by whichever test asks first.
pub async fn survey() -> &'static Survey {
    static SURVEY: OnceCell<Survey> = OnceCell::const_new();
    SURVEY.get_or_init(|| Survey::of([&SMALL, &NEW, &EMPTY, &HUGE, &DAYS])).await
}

impl Survey {
    pub async fn of(scenarios: impl IntoIterator<Item = &'static Scenario>) -> Self {
        // One after another: a transaction that runs elsewhere keeps what was rolled back from being cleared away.
        let mut survey = Self::default();
        for scenario in scenarios {
            survey.run(scenario).await;
        }
        survey
    }

    async fn run(&mut self, scenario: &'static Scenario) {
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

    async fn look(
        &mut self,
        scenario: &'static Scenario,
        when: &'static str,
        busy: bool,
        session: &mut Session,
    ) {
        for statement in STATEMENTS {
            let mut before = 0;
            for execution in EXECUTIONS {
                session.plan(statement, execution - before - 1).await;
                before = execution;
                let plan = session.explain(statement).await;
                let seen = Seen { statement, scenario, when, execution, busy, plan };
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

    /// Pages looked at with stale and with fresh statistics: the least of all executions, as those before leave something lying
    /// about, which cannot be cleared away while a transaction of another test runs, be it in another database.
    pub fn pages(&self, name: &str, counts: impl Fn(&Seen) -> bool) -> BTreeMap<bool, u64> {
        let mut pages = BTreeMap::new();
        for seen in self.seen(name).filter(|seen| seen.busy && counts(seen)) {
            let looked_at = seen.plan.as_ref().map_or(u64::MAX, |plan| plan.buffers);
            let least = pages.entry(seen.fresh()).or_insert(looked_at);
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
                *places +=
                    &format!("\n    {}, {}, execution {}", seen.scenario.name, seen.when, seen.execution);
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
        self.full() && self.scenario.broadcasts >= 10
    }

    /// Whether statistics had ever been taken of tables with something in them.
    pub fn known(&self) -> bool {
        self.full() && (self.fresh() || self.scenario.first == First::Work)
    }

    pub fn beside(&self, scenario: &Scenario) -> bool {
        self.scenario.name == scenario.name
    }

    fn faults(&self) -> Vec<String> {
        match &self.plan {
            Ok(plan) => plan.faults(self.statement),
            Err(error) => vec![error.clone()],
        }
    }
}
