//! PostgreSQL: upserts by a prepared statement. With the default settings every commit waits
//! for the disk (`synchronous_commit` and `fsync` are on).

use std::path::Path;

use anyhow::Result;

use crate::plan::Plan;
use crate::postgres::{Pgbench, Postgres, Script};
use crate::tcp::{Answer, Load};

const FILL: &str = "\
CREATE TABLE records (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO records SELECT 'key:' || lpad(n::text, 12, '0'), '0123456789abcdef'
    FROM generate_series(0, :last) AS n;
VACUUM ANALYZE records;
CHECKPOINT;
";

const UPSERT: Script = Script {
    weight: 1,
    text: "\
\\set n random(0, :last)
INSERT INTO records VALUES ('key:' || lpad(:n::text, 12, '0'), '0123456789abcdef')
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value;
",
};

/// A server with all records.
pub(super) fn start(data: &Path, keys: u32) -> Result<Postgres> {
    let postgres = Postgres::start(data, &[])?;
    postgres.execute(FILL, &[last(keys)])?;
    Ok(postgres)
}

pub(super) fn run(postgres: &Postgres, plan: &Plan, load: Load) -> Result<Answer> {
    let pgbench = Pgbench {
        connections: load.connections,
        threads: load.threads,
        seconds: plan.sync_time.as_secs().max(1),
        variables: &[last(plan.tcp_keys)],
        serializable: false,
    };
    Ok(postgres.run(pgbench, &[UPSERT])?.answer)
}

fn last(keys: u32) -> (&'static str, i64) {
    ("last", i64::from(keys) - 1)
}
