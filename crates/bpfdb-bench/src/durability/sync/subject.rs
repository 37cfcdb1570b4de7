//! Who is asked.

use std::ops::Range;

use anyhow::Result;

use super::postgres;
use super::sqlite::Sqlite;
use super::{SIZE, Way, requests};
use crate::durability::Setup;
use crate::plan::Plan;
use crate::postgres::Postgres;
use crate::tcp::{Answer, Load, Server, fill};

pub(super) enum Subject {
    /// bpfdb, or Redis.
    Server(Box<Server>),
    Postgres(Postgres),
    Sqlite(Sqlite),
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Server(server) => &server.name,
            Self::Postgres(postgres) => &postgres.name,
            Self::Sqlite(sqlite) => &sqlite.name,
        }
    }

    /// `None`: it cannot do that. Neither pgbench nor SQLite's client send requests before they
    /// have had the reply to the one before.
    pub(super) fn run(&self, plan: &Plan, load: Load) -> Result<Option<Answer>> {
        match self {
            Self::Server(server) => load
                .run(server, plan.tcp_keys, requests(plan, load))
                .map(Some),
            _ if load.pipeline > 1 => Ok(None),
            Self::Postgres(server) => postgres::run(server, plan, load).map(Some),
            Self::Sqlite(sqlite) => sqlite.run(plan).map(Some),
        }
    }
}

pub(super) struct Subjects {
    /// bpfdb, each Redis, and the others.
    pub(super) all: Vec<Subject>,
    redis: usize,
    /// Why others are not there.
    pub(super) missing: Vec<String>,
}

impl Subjects {
    /// All of them, with their records. Others than servers are asked on loopback only.
    pub(super) fn start(setup: &Setup<'_>, way: Way) -> Result<Self> {
        let namespaces = way.namespaces()?;
        let keys = setup.plan.tcp_keys;
        let folder = |name: &str| setup.place.disk(name);
        let always = ["--appendfsync", "always"];
        let mut servers =
            vec![setup.bpfdb_between(&namespaces, "off", &folder("sync"), &always)?];
        for (number, program) in setup.redis.iter().enumerate() {
            let settings = [&["--appendonly", "yes"][..], &always].concat();
            let folder = folder(&format!("sync-redis-{number}"));
            servers.push(Setup::redis_between(
                &namespaces,
                program,
                &folder,
                &settings,
            )?);
        }
        for server in &servers {
            fill(server, keys, SIZE)?;
        }
        let mut subjects = Self {
            all: (servers.into_iter())
                .map(|server| Subject::Server(Box::new(server)))
                .collect(),
            redis: setup.redis.len(),
            missing: Vec::new(),
        };
        if way == Way::Remote {
            return Ok(subjects);
        }
        subjects.add(
            postgres::start(&folder("postgres"), keys).map(Subject::Postgres),
            "PostgreSQL",
        );
        subjects.add(
            Sqlite::new(&folder("sqlite"), keys).map(Subject::Sqlite),
            "SQLite",
        );
        Ok(subjects)
    }

    /// What is not installed is left out.
    fn add(&mut self, subject: Result<Subject>, name: &str) {
        match subject {
            Ok(subject) => self.all.push(subject),
            Err(error) => self
                .missing
                .push(format!("{name}: not measured: {error:#}")),
        }
    }

    /// Which of them are Redis.
    pub(super) fn redis(&self) -> Range<usize> {
        1..1 + self.redis
    }
}
