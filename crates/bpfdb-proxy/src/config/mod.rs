//! Files of PgBouncer: read, and settings that change while the proxy runs.
//!
//! | section | |
//! |---|---|
//! | `[databases]` | a connection string for each; `*` for those that are not named |
//! | `[users]` | limits of single users, and `pool_mode` |
//! | `[peers]` | nothing of it has an effect |
//! | `[pgbouncer]` | its settings, with its defaults |
//! | `[bpfdb]` | what PgBouncer does not have |

mod ini;
mod table;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::settings::{Database, Hba, Settings, UserSettings, own_limit, users};
use ini::Entry;
use table::{Effect, OWN, PGBOUNCER};

/// The database by whose name clients come to the console.
pub const CONSOLE: &str = "pgbouncer";

/// What a file says.
#[derive(Debug, Default)]
pub struct File {
    pub settings: Settings,
    /// Settings of PgBouncer that have no effect here, each with its place.
    pub warnings: Vec<String>,
}

/// Settings as PgBouncer has them without a file.
fn defaults() -> Result<Settings> {
    let mut settings = Settings::default();
    for setting in PGBOUNCER.iter().chain(OWN) {
        let set = setting.set(&mut settings, setting.default);
        set.map_err(|told| Error::Settings(format!("{}: {told}", setting.name)))?;
    }
    settings.administration.others.clear();
    Ok(settings)
}

/// Reads a file of PgBouncer, and the file of passwords that it names.
///
/// # Errors
/// A file that cannot be read; a section, a setting or a value that is not known, with its place.
pub fn read(path: &Path) -> Result<File> {
    let mut file = File {
        settings: defaults()?,
        warnings: Vec::new(),
    };
    let entries = ini::read(path)?;
    // Where a Unix socket is that a database does not name is said anywhere.
    for entry in entries.iter().filter(|entry| entry.section != "databases") {
        file.take(entry)?;
    }
    for entry in entries.iter().filter(|entry| entry.section == "databases") {
        if entry.key == CONSOLE {
            return Err(entry.place.wrong("the name pgbouncer is the console's"));
        }
        let database = file.database(entry);
        let database = database.map_err(|error| entry.place.wrong(error))?;
        (file.settings.databases).insert(entry.key.clone(), database);
    }
    file.settings.administration.file = Some(path.to_owned());
    read_others(&mut file.settings)?;
    Ok(file)
}

/// Reads the files of passwords and of rules that settings name.
fn read_others(settings: &mut Settings) -> Result<()> {
    let administration = &settings.administration;
    if let Some(passwords) = &administration.auth_file {
        settings.users = read_users(passwords)?;
    }
    settings.hba = match &administration.auth_hba_file {
        _ if administration.uses_certificates => Some(Hba::of_certificates()),
        _ if !administration.uses_rules => None,
        Some(rules) => Some(read_rules(rules)?),
        None => {
            let told = "auth_type = hba needs auth_hba_file";
            return Err(Error::Settings(told.into()));
        }
    };
    Ok(())
}

/// The rules of a file.
pub fn read_rules(path: &Path) -> Result<Hba> {
    Hba::parse(&read_text(path)?, &path.display().to_string())
}

fn read_text(path: &Path) -> Result<String> {
    let read = fs::read_to_string(path);
    read.map_err(|error| Error::Settings(format!("cannot read {}: {error}", path.display())))
}

/// The users of a file of passwords.
pub fn read_users(path: &Path) -> Result<std::collections::HashMap<String, String>> {
    users(&read_text(path)?)
}

/// Of a database: known to PgBouncer, and without an effect here; the value that says what is done, and why the others
/// are not.
const WITHOUT_EFFECT: [(&str, &str, &str); 1] = [(
    "load_balance_hosts",
    "disable",
    "one host of a database is used at a time",
)];

impl File {
    fn take(&mut self, entry: &Entry) -> Result<()> {
        let Entry {
            section,
            key,
            value,
            place,
        } = entry;
        let (table, value) = match section.as_str() {
            "pgbouncer" => (PGBOUNCER, unquoted(value)),
            "bpfdb" => (OWN, value.as_str()),
            "peers" => {
                let why = "one process has all clients";
                let warning = format!("{place}: [peers] has no effect: {why}");
                self.warnings.push(warning);
                return Ok(());
            }
            "users" => {
                let user = user(value).map_err(|told| place.wrong(told))?;
                self.settings.administration.users.insert(key.clone(), user);
                return Ok(());
            }
            _ => return Err(place.wrong(format!("there is no section [{section}]"))),
        };
        let setting = table::find(table, key);
        let setting = setting.ok_or_else(|| place.wrong(format!("{key} is not known")))?;
        let set = setting.set(&mut self.settings, value);
        set.map_err(|told| place.wrong(format!("{key}: {told}")))?;
        if let Effect::None(why) = setting.effect
            && value != setting.default
        {
            let warning = format!("{place}: {key} has no effect: {why}");
            self.warnings.push(warning);
        }
        Ok(())
    }

    fn database(&mut self, entry: &Entry) -> Result<Database> {
        let pairs = crate::settings::pairs(&entry.value);
        let pairs = pairs.map_err(|error| Error::Settings(format!("database: {error}")))?;
        let without = |key: &str| WITHOUT_EFFECT.iter().find(|(name, ..)| *name == key);
        for (key, value) in &pairs {
            if let Some((_, done, why)) = without(key)
                && value != done
            {
                let warning = format!("{}: {key} has no effect: {why}", entry.place);
                self.warnings.push(warning);
            }
        }
        let pairs = pairs.into_iter().filter(|(key, _)| without(key).is_none());
        let pairs = pairs.collect();
        let folder = self.settings.unix_socket_dirs.first();
        let folder = folder.map_or_else(|| PathBuf::from("/tmp"), Clone::clone);
        Database::of(pairs, &folder.to_string_lossy())
    }
}

/// A row of the section `[users]`.
fn user(value: &str) -> Result<UserSettings> {
    let mut user = UserSettings::default();
    let pairs = crate::settings::pairs(value);
    for (key, value) in pairs.map_err(|error| Error::Settings(error.to_string()))? {
        let number = || {
            let wrong = |_| Error::Settings(format!("{key}: {value} is no number"));
            value.parse().map(Some).map_err(wrong)
        };
        let limit = || {
            let wrong = |told| Error::Settings(format!("{key}: {told}"));
            own_limit(&value).map_err(wrong)
        };
        match key.as_str() {
            "pool_mode" => user.pool_mode = Some(value.parse()?),
            "pool_size" => user.pool_size = number()?,
            "reserve_pool_size" => user.reserve_pool_size = number()?,
            "query_timeout" => user.query_timeout = limit()?,
            "query_wait_timeout" => user.query_wait_timeout = limit()?,
            "idle_transaction_timeout" => user.idle_transaction_timeout = limit()?,
            "transaction_timeout" => user.transaction_timeout = limit()?,
            "client_idle_timeout" => user.client_idle_timeout = limit()?,
            "max_user_connections" => user.max_user_connections = number()?,
            "max_user_client_connections" => user.max_user_client_connections = number()?,
            _ => return Err(Error::Settings(format!("{key} is not known"))),
        }
    }
    Ok(user)
}

/// PgBouncer's own files have values such as `''`.
fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    inner.unwrap_or(value)
}

/// Changes a setting while the proxy runs. `None`: it counts at the start only, and stays as it is.
///
/// # Errors
/// A setting that is not known, or a value that it does not have.
pub(crate) fn set(settings: &Settings, name: &str, value: &str) -> Result<Option<Settings>> {
    let found = table::find(PGBOUNCER, name).or_else(|| table::find(OWN, name));
    let setting = found.ok_or_else(|| Error::Settings(format!("{name} is not known")))?;
    let mut changed = settings.clone();
    let set = setting.set(&mut changed, value);
    set.map_err(|told| Error::Settings(format!("{name}: {told}")))?;
    if name.starts_with("auth_") {
        read_others(&mut changed)?;
    }
    Ok(setting.changeable.then_some(changed))
}

/// A setting as SHOW CONFIG has it: name, value, default, and whether it can be changed.
pub(crate) type Shown = (&'static str, String, &'static str, bool);

/// All settings by name.
pub(crate) fn all(settings: &Settings) -> Vec<Shown> {
    let mut rows = BTreeMap::new();
    for setting in PGBOUNCER.iter().chain(OWN) {
        let value = setting.shown(settings);
        let row = (setting.name, value, setting.default, setting.changeable);
        rows.insert(setting.name, row);
    }
    let file = settings.administration.file.as_ref();
    let file = file.map_or_else(String::new, |file| file.display().to_string());
    rows.insert("conffile", ("conffile", file, "", false));
    rows.into_values().collect()
}

/// `new` with what counts at the start only as `old` has it.
pub(crate) fn kept_at_start(mut new: Settings, old: &Settings) -> Settings {
    let settings = PGBOUNCER.iter().chain(OWN);
    for setting in settings.filter(|setting| !setting.changeable) {
        let before = setting.shown(old);
        if setting.shown(&new) != before {
            tracing::warn!(setting = setting.name, "takes force at the next start only");
        }
    }
    new.listen.clone_from(&old.listen);
    (new.unix_socket_dirs).clone_from(&old.unix_socket_dirs);
    new.cgroup.clone_from(&old.cgroup);
    new.always_slow = old.always_slow;
    let (to, from) = (&mut new.administration, &old.administration);
    (to.listen_port, to.unix_socket_mode) = (from.listen_port, from.unix_socket_mode);
    to.log_file.clone_from(&from.log_file);
    to.pid_file.clone_from(&from.pid_file);
    to.metrics = from.metrics;
    to.takeover_socket.clone_from(&from.takeover_socket);
    new
}

#[cfg(test)]
mod tests;
