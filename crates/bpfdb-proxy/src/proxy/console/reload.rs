//! Settings change while the proxy runs: by RELOAD, by SIGHUP, by SET.

use std::rc::Rc;

use super::super::Proxy;
use crate::auth::secrets::Secrets;
use crate::config;
use crate::io::tls;
use crate::settings::{ANY_DATABASE, Settings, look_up};

impl Proxy {
    /// Reads again where the settings came from, and has them take force.
    pub(crate) fn reload(&mut self) -> Result<(), String> {
        let Some(read) = &mut self.source else {
            return Ok(());
        };
        let file = read().inspect_err(|told| tracing::error!(told, "the settings stay"))?;
        for warning in &file.warnings {
            tracing::warn!("{warning}");
        }
        let mut settings = config::kept_at_start(file.settings, &self.settings);
        settings.find_hosts(Some(&self.settings), look_up);
        self.put(settings)
            .inspect_err(|told| tracing::error!(told, "the settings stay"))?;
        self.held.settings.clear();
        self.held.mirrors.clear();
        tracing::info!("the settings were read again");
        Ok(())
    }

    /// What operators of a predecessor have said of the settings.
    pub(in super::super) fn change_as_said(&mut self) {
        for (name, value) in self.held.settings.clone() {
            if let Err(told) = self.change(&name, &value) {
                tracing::error!(name, value, told, "SET holds no more");
            }
        }
        for (database, mirror) in self.held.mirrors.clone() {
            let mirror = Some(mirror).filter(|mirror| !mirror.is_empty());
            if let Err(told) = self.set_mirror(&database, mirror) {
                tracing::error!(database, told, "MIRROR holds no more");
            }
        }
    }

    pub(super) fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        let changed = config::set(&self.settings, name, value);
        if let Some(settings) = changed.map_err(|error| error.to_string())? {
            self.put(settings)?;
        }
        Ok(())
    }

    fn put(&mut self, settings: Settings) -> Result<(), String> {
        let told = |error: crate::error::Error| error.to_string();
        settings.check().map_err(told)?;
        let asks = settings.asks_for_certificates();
        let client_tls = tls::for_clients(&settings.client_tls, asks).map_err(told)?;
        let server_tls = tls::for_servers(&settings.server_tls).map_err(told)?;
        (self.client_tls, self.server_tls) = (client_tls, server_tls);
        // The database is asked again.
        self.secrets = Secrets::default();
        let is_same_tls = settings.server_tls == self.settings.server_tls;
        self.settings = Rc::new(settings);
        self.ask_for_names();
        let ports = ports(&self.settings);
        if let Some(kernel) = &self.kernel
            && let Err(error) = kernel.know_ports(&ports)
        {
            tracing::warn!(%error, "the kernel does not serve a database");
        }
        for number in 0..self.pools.len() as u32 {
            self.put_into_pool(number, is_same_tls);
        }
        Ok(())
    }

    fn put_into_pool(&mut self, number: u32, is_same_tls: bool) {
        let settings = Rc::clone(&self.settings);
        let pool = &mut self.pools[number as usize];
        let databases = &settings.databases;
        let found = databases
            .get(&pool.key.database)
            .or(databases.get(ANY_DATABASE));
        let Some(database) = found else {
            let name = pool.key.database.clone();
            return self.kill(&name, "database configuration was removed");
        };
        let is_same = is_same_tls && database.is_same_place(&pool.database);
        pool.size = settings.size_for(database, &pool.key.user);
        pool.mode = settings.mode(database, &pool.key.user);
        pool.database = database.clone();
        if !is_same {
            // New clients are greeted as new servers say.
            pool.welcome = None;
            self.retire(number);
        }
        self.mirror_changed(number);
        self.tell_full(number);
        self.open_servers(number);
    }

    /// Switches the mirror of a database on, or off.
    pub(super) fn set_mirror(&mut self, name: &str, mirror: Option<String>) -> Result<(), String> {
        let mut settings = Settings::clone(&self.settings);
        let database = settings.databases.get_mut(name);
        database
            .ok_or_else(|| format!("no such database: {name}"))?
            .mirror = mirror;
        self.put(settings)
    }
}

/// Those of databases that are reached by TCP.
pub(in super::super) fn ports(settings: &Settings) -> Vec<u16> {
    let hosts = settings
        .databases
        .values()
        .flat_map(|database| &database.hosts);
    hosts
        .filter(|host| host.is_inet())
        .map(|host| host.port)
        .collect()
}
