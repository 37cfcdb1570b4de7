//! Names of hosts come to mean other addresses while the proxy runs.

use std::rc::Rc;

use super::Proxy;
use crate::names::Question;
use crate::pool::Failure;
use crate::settings::{ANY_DATABASE, Host, Settings, renewed};

impl Proxy {
    /// The names of the settings are looked up from now on.
    pub(super) fn ask_for_names(&mut self) {
        if let Err(error) = self.names.ask(Question::of(&self.settings)) {
            tracing::error!(%error, "names of hosts are not looked up again");
        }
    }

    /// There may be an answer.
    pub(super) fn names_are_looked_up(&mut self) {
        let found = self.names.answers();
        let mut settings = Settings::clone(&self.settings);
        let mut is_new = false;
        for (name, database) in &mut settings.databases {
            let hosts = renewed(&database.hosts, &found);
            if hosts != database.hosts {
                tracing::info!(database = name, hosts = %shown(&hosts), "hosts have other addresses");
                (database.hosts, is_new) = (hosts, true);
            }
        }
        if !is_new {
            return;
        }
        self.settings = Rc::new(settings);
        for number in 0..self.pools.len() as u32 {
            self.move_pool(number);
        }
    }

    /// Servers at addresses that are not those of the pool's database any more get no new transactions. That one of them
    /// lets the proxy in is not waited for.
    fn move_pool(&mut self, number: u32) {
        let settings = Rc::clone(&self.settings);
        let pool = &mut self.pools[number as usize];
        let databases = &settings.databases;
        let found = databases
            .get(&pool.key.database)
            .or(databases.get(ANY_DATABASE));
        let Some(database) = found.filter(|found| found.hosts != pool.database.hosts) else {
            return;
        };
        let before = std::mem::replace(&mut pool.database.hosts, database.hosts.clone());
        if !before.iter().any(|host| database.hosts.contains(host)) {
            // New clients are greeted as new servers say.
            pool.welcome = None;
        }
        pool.failed.clear();
        (pool.refusal, pool.rests_until) = (None, None);
        let is_left = |host: &Host| !database.hosts.contains(host);
        self.retire_if(number, |server| is_left(&server.host));
        for id in self.servers.ids() {
            let Some(server) = self.servers.get(id) else {
                continue;
            };
            if server.pool == number && !server.is_ready() && is_left(&server.host) {
                let Host { name, .. } = &server.host;
                let told = format!("{} is no address of {name} any more", server.host);
                self.not_in(id, Failure::Told(told));
            }
        }
        self.open_servers(number);
    }
}

fn shown(hosts: &[Host]) -> String {
    let hosts = hosts.iter().map(Host::to_string);
    hosts.collect::<Vec<_>>().join(", ")
}
