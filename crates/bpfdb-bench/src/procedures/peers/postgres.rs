//! PostgreSQL: functions in PL/pgSQL, unlogged tables, prepared statements by pgbench. Once at
//! READ COMMITTED, where the functions lock what they must, and once at SERIALIZABLE, where
//! PostgreSQL finds out by itself, and pgbench repeats what has failed.
//!
//! pgbench does not keep replies, so what calls have done is taken from how many there were, and
//! from PostgreSQL's count of changed rows.

use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bpfdb_apps::voter::CONTESTANTS;
use tempfile::TempDir;

use super::expect_gain;
use super::scripts::{self, Variables};
use crate::plan::Plan;
use crate::postgres::{Pgbench, Postgres, Run};
use crate::procedures::calls::{BALANCE, VOTES_OF_PHONE, Work};
use crate::procedures::{CONNECTIONS, Calls, Contender, Measured, THREADS};

/// Nothing waits for a disk, nor is anything there that would be lost: files are in memory. Plans
/// are made once for each connection.
const SETTINGS: [&str; 9] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=4GB",
    "checkpoint_timeout=1h",
    "jit=off",
    "plan_cache_mode=force_generic_plan",
];
const BUFFERS: &str = "shared_buffers=2GB";
const BUFFERS_QUICK: &str = "shared_buffers=128MB";
const MEMORY: &str = "/dev/shm";

/// Sessions count what they have done when they end.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// One server at one level of isolation.
pub(super) struct Isolated {
    name: String,
    serializable: bool,
    server: Rc<Running>,
}

struct Running {
    postgres: Postgres,
    _data: TempDir,
}

/// At both levels.
pub(super) fn start(plan: &Plan) -> Result<[Isolated; 2]> {
    let data = tempfile::tempdir_in(MEMORY).context(MEMORY)?;
    let buffers = if plan.quick { BUFFERS_QUICK } else { BUFFERS };
    let settings = [&SETTINGS[..], &[buffers]].concat();
    let postgres = Postgres::start(data.path(), &settings)?;
    let name = postgres.name.clone();
    let server = Rc::new(Running {
        postgres,
        _data: data,
    });
    let isolated = |serializable| Isolated {
        name: match serializable {
            true => format!("{name} serializable"),
            false => name.clone(),
        },
        serializable,
        server: server.clone(),
    };
    Ok([false, true].map(isolated))
}

impl Contender for Isolated {
    fn name(&self) -> &str {
        &self.name
    }

    /// Pgbench has one transaction for a pipeline, and so no pipeline of calls.
    fn measure(&mut self, plan: &Plan, calls: Calls) -> Result<Option<Measured>> {
        if calls.pipeline > 1 {
            return Ok(None);
        }
        let variables = variables(plan);
        self.fill(calls.work, &variables)?;
        let before = Counts::of(&self.server.postgres, calls.work)?;
        let pgbench = Pgbench {
            connections: CONNECTIONS,
            threads: THREADS,
            seconds: plan.sync_time.as_secs().max(1),
            variables: &variables,
            serializable: self.serializable,
        };
        let run = (self.server.postgres).run(pgbench, scripts::of(calls.work))?;
        let after = Counts::of(&self.server.postgres, calls.work)?;
        check(calls.work, &run, &before, &after)?;
        let done: u64 = run.done.iter().sum();
        Ok(Some(Measured {
            answer: run.answer,
            repeated: self
                .serializable
                .then(|| 1000.0 * run.repeated as f64 / done as f64),
            by_the_daemon: None,
        }))
    }
}

impl Isolated {
    fn fill(&self, work: Work, variables: &Variables) -> Result<()> {
        let postgres = &self.server.postgres;
        postgres.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public;", &[])?;
        postgres.execute(scripts::schema(work), variables)
    }
}

fn variables(plan: &Plan) -> Variables {
    let keys = Work::keys(plan).into();
    [
        ("contestants", CONTESTANTS.into()),
        ("phones", plan.tcp_keys.into()),
        ("vote_limit", VOTES_OF_PHONE.into()),
        ("customers", keys),
        ("subscribers", keys),
        ("balance", BALANCE),
    ]
}

/// What calls add to, in each place where it can be seen; and rows that were changed, also by
/// attempts that were repeated.
struct Counts {
    sums: Vec<i64>,
    changed: Vec<i64>,
}

impl Counts {
    fn of(postgres: &Postgres, work: Work) -> Result<Self> {
        let start = Instant::now();
        let sessions =
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        while postgres.ask(sessions)?.trim() != "1" {
            ensure!(start.elapsed() < PATIENCE, "sessions of pgbench do not end");
            thread::sleep(PAUSE);
        }
        let numbers = |statement| -> Result<Vec<i64>> {
            let row = postgres.ask(statement)?;
            let number = |text: &str| text.parse().with_context(|| row.clone());
            row.trim().split('|').map(number).collect()
        };
        Ok(Self {
            sums: numbers(scripts::sums(work))?,
            changed: numbers(scripts::CHANGED)?,
        })
    }
}

/// Fails if the data is not what the calls must have made of it.
fn check(work: Work, run: &Run, before: &Counts, after: &Counts) -> Result<()> {
    let done: Vec<i64> = run.done.iter().map(|&done| done as i64).collect();
    let changed = after.changed.iter().zip(&before.changed);
    let changed: Vec<i64> = changed.map(|(after, before)| after - before).collect();
    let [savings, subscribers, facilities, inserted, deleted] = changed[..] else {
        anyhow::bail!("rows that were changed: {changed:?}");
    };
    let repeated = run.repeated as i64;
    match work {
        Work::SmallBank => {
            let grown = after.sums[0] - before.sums[0];
            scripts::check_bank(&done, savings, repeated, grown)
        }
        Work::Tatp => {
            ensure!(inserted > 0 && deleted > 0, "no forwardings: {changed:?}");
            // Of rows, the last ones were perhaps changed in vain.
            let gained = after.sums[0] - before.sums[0];
            let slack = (inserted - deleted - gained).abs();
            ensure!(slack <= repeated, "{changed:?}, and {gained} more rows");
            let updates = done[scripts::UPDATE_LOCATION] + facilities;
            let slack = (subscribers - updates).abs();
            ensure!(slack <= repeated, "{updates} updates, {changed:?}");
            ensure!(facilities > 0, "no facility was changed");
            Ok(())
        }
        _ => expect_gain(&before.sums, &after.sums, done[scripts::VALID_VOTE]),
    }
}
