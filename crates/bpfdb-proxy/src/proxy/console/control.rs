//! Commands that change something.

use super::super::Proxy;
use super::super::ending::Ending;
use super::Outcome;
use super::command::Command;
use crate::io::slab::Id;
use crate::wire::{reply, rows};

/// What an operator waits for; the database, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// There is no server, or PAUSE was taken back.
    Paused(Option<String>),
    /// No server is left that was to be closed.
    Closed(Option<String>),
}

type Answer = Result<Outcome, String>;

impl Proxy {
    pub(super) fn control(&mut self, id: Id, command: Command) -> Answer {
        let tag = match command {
            Command::Show(_) => return Ok(Outcome::Done),
            Command::Set(name, value) => return self.set_one(id, &name, &value),
            Command::Pause(database) => return self.pause(id, database),
            Command::WaitClose(database) => {
                self.awaited.push((id, Awaited::Closed(database)));
                return Ok(Outcome::Later);
            }
            Command::Suspend => return Err("SUSPEND is not supported".into()),
            Command::Reload => {
                self.reload()?;
                "RELOAD"
            }
            Command::Shutdown(ending) => {
                match ending {
                    Ending::No => self.ends = true,
                    ending => self.begin_ending(ending)?,
                }
                "SHUTDOWN"
            }
            Command::Resume(database) => {
                self.resume_database(database.as_deref())?;
                "RESUME"
            }
            Command::Reconnect(database) => {
                for number in self.pools_of(database.as_deref()) {
                    self.retire(number);
                }
                "RECONNECT"
            }
            Command::Kill(database) => {
                let database = named(database)?;
                self.held.paused.insert(database.clone());
                self.hold_pools();
                self.kill(&database, "admin forced disconnect");
                "KILL"
            }
            Command::Mirror(database, mirror) => {
                let tag = if mirror.is_some() {
                    "MIRROR"
                } else {
                    "UNMIRROR"
                };
                self.set_mirror(&database, mirror.clone())?;
                let mirror = mirror.unwrap_or_default();
                self.held.mirrors.insert(database, mirror);
                tag
            }
            Command::Disable(database) => {
                self.held.disabled.insert(named(database)?);
                "DISABLE"
            }
            Command::Enable(database) => {
                self.held.disabled.remove(&named(database)?);
                "ENABLE"
            }
        };
        Ok(self.done(id, tag))
    }

    fn done(&mut self, id: Id, tag: &str) -> Outcome {
        if let Some(client) = self.clients.get_mut(id) {
            rows::complete(&mut client.output, tag);
        }
        Outcome::Done
    }

    fn set_one(&mut self, id: Id, name: &str, value: &str) -> Answer {
        self.change(name, value).map_err(|told| {
            tracing::warn!(told, "SET");
            "SET failed".to_owned()
        })?;
        self.held.settings.insert(name.into(), value.into());
        Ok(self.done(id, &format!("SET {name}={value}")))
    }

    fn pause(&mut self, id: Id, database: Option<String>) -> Answer {
        match &database {
            None if self.held.all_paused => return Err("already suspended/paused".into()),
            None => self.held.all_paused = true,
            Some(database) => {
                self.held.paused.insert(database.clone());
            }
        }
        self.hold_pools();
        self.awaited.push((id, Awaited::Paused(database)));
        Ok(Outcome::Later)
    }

    fn resume_database(&mut self, database: Option<&str>) -> Result<(), String> {
        match database {
            None if self.ending.pauses() => return Err("pooler is shutting down".into()),
            None if !self.held.all_paused => {
                return Err("pooler is not paused/suspended".into());
            }
            None => self.held.all_paused = false,
            Some(database) if !self.held.paused.remove(database) => {
                return Err(format!("database {database} is not paused"));
            }
            Some(_) => {}
        }
        self.hold_pools();
        Ok(())
    }

    /// Has no database a server, as behind PAUSE?
    pub(crate) fn are_all_paused(&self) -> bool {
        self.is_there(&Awaited::Paused(None))
    }

    pub(crate) fn is_there(&self, awaited: &Awaited) -> bool {
        let servers = |database: &Option<String>| {
            let pools = self.pools_of(database.as_deref());
            let is_of = move |id: &Id| pools.contains(&self.servers[*id].pool);
            self.servers.ids().into_iter().filter(is_of)
        };
        match awaited {
            Awaited::Paused(database) => {
                let is_paused = match database {
                    Some(database) => self.held.is_paused(database),
                    None => self.held.all_paused,
                };
                !is_paused || servers(database).next().is_none()
            }
            Awaited::Closed(database) => !servers(database).any(|id| self.servers[id].retires),
        }
    }

    /// Those that wait for something that is so now.
    pub(crate) fn look_at_awaited(&mut self) {
        for (id, awaited) in std::mem::take(&mut self.awaited) {
            let is_there = self.is_there(&awaited);
            let Some(client) = self.clients.get_mut(id) else {
                continue;
            };
            if !is_there {
                self.awaited.push((id, awaited));
                continue;
            }
            let tag = match awaited {
                Awaited::Paused(_) => "PAUSE",
                Awaited::Closed(_) => "WAIT_CLOSE",
            };
            rows::complete(&mut client.output, tag);
            reply::ready(&mut client.output);
            self.flush_client(id);
            // What has come meanwhile.
            self.work.push_back(super::super::Work::Client(id));
        }
    }
}

fn named(database: Option<String>) -> Result<String, String> {
    database.ok_or_else(|| "a database is required".to_owned())
}
