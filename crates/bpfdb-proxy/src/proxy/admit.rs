//! The way in which a client authenticates, and what its answer is compared with.

use std::time::Instant;

use super::Proxy;
use crate::auth::certificate::common_name;
use crate::auth::client as auth;
use crate::auth::secrets::Whose;
use crate::awaited::{Expected, Own};
use crate::client::Stage;
use crate::config::CONSOLE;
use crate::hba::{AuthType, Method, Who};
use crate::io::slab::Id;
use crate::io::socket;
use crate::pool::Key;
use crate::server::Lookup;
use crate::settings::{ANY_DATABASE, Database};
use crate::wire::reply::{self, state};

/// Longer names PostgreSQL does not have: nothing is asked about them.
const NAME_MAX: usize = 63;

impl Proxy {
    /// A client has said who it is. `false`: no more is to be done for it now.
    pub(super) fn admit(&mut self, id: Id) -> bool {
        let client = &self.clients[id];
        let database = client.wanted.as_ref().map_or("", |key| &key.database);
        let who = Who {
            address: client.address,
            has_tls: client.socket.has_tls(),
            database,
            user: &client.user,
        };
        let told = match self.method(&who) {
            Some(Method::Prove(AuthType::Trust)) => return self.trust(id),
            Some(Method::Prove(way)) => return self.find_secret(id, way),
            Some(Method::Peer)
                if socket::peer_user(&client.socket).as_deref() == Some(who.user) =>
            {
                return self.trust(id);
            }
            Some(Method::Peer) => format!("Peer authentication failed for user \"{}\"", who.user),
            Some(Method::Cert) => {
                let Some(certificate) = client.socket.certificate() else {
                    let told = "connection requires a valid client certificate";
                    self.refuse(id, state::INVALID_AUTHORIZATION, told);
                    return false;
                };
                if common_name(certificate).as_deref() == Some(who.user) {
                    return self.trust(id);
                }
                let user = who.user;
                format!("certificate authentication failed for user \"{user}\"")
            }
            Some(Method::Reject) => format!("pg_hba.conf rejects connection for {}", shown(&who)),
            None => format!("no pg_hba.conf entry for {}", shown(&who)),
        };
        self.refuse(id, state::INVALID_AUTHORIZATION, &told);
        false
    }

    fn method(&self, who: &Who<'_>) -> Option<Method> {
        match &self.settings.hba {
            Some(rules) => rules.method(who),
            None => Some(Method::Prove(self.settings.auth_type)),
        }
    }

    /// A client need not authenticate. With a file of PgBouncer its user has to be known all the same, as there.
    fn trust(&mut self, id: Id) -> bool {
        let administration = &self.settings.administration;
        if administration.file.is_none() {
            return self.challenge(id, AuthType::Trust, None);
        }
        let takes_any = administration.anyone_may_look && self.settings.hba.is_none();
        if !takes_any {
            return self.find_secret(id, AuthType::Trust);
        }
        // Its own lists say which users may enter the console.
        let client = &self.clients[id];
        if client.console.is_some() || client.wanted.as_ref().is_some_and(|key| self.has_user(key))
        {
            return self.challenge(id, AuthType::Trust, None);
        }
        let told = "auth_type = any needs a database with a user of its own (user=)";
        self.refuse(id, state::INVALID_AUTHORIZATION, told);
        false
    }

    /// Are all clients of the database one user there?
    fn has_user(&self, key: &Key) -> bool {
        let entry = self.entry(&key.database);
        entry.is_some_and(|database| database.user.is_some())
    }

    /// A database in the settings, by the name that clients have for it. The console is none.
    pub(super) fn entry(&self, database: &str) -> Option<&Database> {
        let databases = &self.settings.databases;
        let entry = databases.get(database).or(databases.get(ANY_DATABASE));
        entry.filter(|_| database != CONSOLE)
    }

    /// The user that asks about passwords of clients of this database.
    fn auth_user(&self, database: &str) -> Option<&String> {
        let entry = self.entry(database);
        let own = entry.and_then(|entry| entry.auth_user.as_ref());
        own.or(self.settings.auth_user.as_ref())
    }

    /// The question about passwords of clients of this database.
    fn question(&self, database: &str) -> String {
        let entry = self.entry(database);
        let own = entry.and_then(|entry| entry.auth_query.as_ref());
        own.unwrap_or(&self.settings.auth_query).clone()
    }

    /// Whose password counts where this user comes to this database. `None`: nothing says it.
    pub(super) fn whose(&self, database: &str, user: &str) -> Option<Whose> {
        let settings = &self.settings;
        let is_in_file = settings.users.contains_key(user);
        let has_entry = database != CONSOLE && settings.databases.contains_key(database);
        let entry = self.entry(database);
        let asked = entry.and_then(|entry| entry.auth_dbname.as_deref());
        let asked = asked.or(settings.auth_dbname.as_deref());
        let asked = asked.or(has_entry.then_some(database));
        let asked = asked.filter(|_| !is_in_file);
        (is_in_file || asked.is_some()).then(|| Whose {
            database: asked.map(str::to_owned),
            query: asked.map(|_| self.question(database)),
            user: user.to_owned(),
        })
    }

    /// The same, of a client that is not admitted yet.
    pub(super) fn whose_secret(&self, id: Id) -> Option<Whose> {
        let client = self.clients.get(id)?;
        self.whose(&client.wanted.as_ref()?.database, &client.user)
    }

    /// What is kept of the client's password is known now; `None`: its user is not known.
    fn compare(&mut self, id: Id, way: AuthType, secret: Option<String>) -> bool {
        if way == AuthType::Trust && secret.is_none() {
            let told = format!("no such user: {}", self.clients[id].user);
            self.refuse(id, state::INVALID_AUTHORIZATION, &told);
            return false;
        }
        self.challenge(id, way, secret)
    }

    /// Asks the client for its password, which is compared with `secret`.
    pub(super) fn challenge(&mut self, id: Id, way: AuthType, secret: Option<String>) -> bool {
        let client = &mut self.clients[id];
        // As PostgreSQL: an empty password is none.
        client.secret_kept = secret.filter(|secret| !secret.is_empty());
        let way = auth::fitting(way, client.secret_kept.as_deref());
        let verdict = auth::begin(way, crate::auth::random, &mut client.output);
        self.judge(id, verdict)
    }

    /// What is known of the client's password: from the file, or from the database.
    fn find_secret(&mut self, id: Id, way: AuthType) -> bool {
        let client = &self.clients[id];
        let known = self.settings.users.get(&client.user);
        let database = client.wanted.as_ref().map_or("", |key| &key.database);
        let asks = self.auth_user(database);
        let asks = asks.filter(|asks| **asks != client.user && client.user.len() <= NAME_MAX);
        match (known, asks) {
            (None, Some(asks)) => {
                let asks = asks.clone();
                self.look_up(id, way, asks)
            }
            (known, _) => {
                let known = known.cloned();
                self.compare(id, way, known)
            }
        }
    }

    fn look_up(&mut self, id: Id, way: AuthType, user: String) -> bool {
        let whose = self.whose_secret(id);
        let kept = whose
            .as_ref()
            .and_then(|whose| self.secrets.get(whose, Instant::now()));
        if let Some(secret) = kept {
            return self.compare(id, way, secret);
        }
        let Some(database) = whose.and_then(|whose| whose.database) else {
            tracing::warn!(
                "auth_query: auth_dbname is not set, and the client's database has no entry"
            );
            return self.compare(id, way, None);
        };
        let key = Key {
            database,
            user,
            options: Vec::new(),
            is_mirror: false,
        };
        let pool = match self.pool(key) {
            Ok(pool) => pool,
            Err((state, told)) => {
                self.refuse(id, state, &told);
                return false;
            }
        };
        self.clients[id].stage = Stage::LooksUp { pool, way };
        self.pools[pool as usize].lookups.push_back(id);
        self.tell_wanted(pool);
        match self.take_free(pool) {
            Some(server) => self.give(server),
            None => self.open_servers(pool),
        }
        false
    }

    /// A server that is free for the next question about a password. `false`: there is none.
    pub(super) fn ask_next(&mut self, server: Id) -> bool {
        let pool = self.servers[server].pool;
        while let Some(id) = self.pools[pool as usize].lookups.pop_front() {
            self.tell_wanted(pool);
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            let Stage::LooksUp { way, .. } = client.stage else {
                continue;
            };
            let database = client.wanted.as_ref().map_or("", |key| &key.database);
            // The pool is that of the database that is asked.
            let whose = Whose {
                query: Some(self.question(database)),
                database: Some(self.pools[pool as usize].key.database.clone()),
                user: client.user.clone(),
            };
            if let Some(secret) = self.secrets.get(&whose, Instant::now()) {
                self.compare(id, way, secret);
                continue;
            }
            // A short statement_timeout of another client's, and what else may change the answer.
            if self.unfollow(server) {
                self.pools[pool as usize].lookups.push_front(id);
                self.tell_wanted(pool);
                return true;
            }
            let question = whose.query.as_deref().unwrap_or_default();
            let state = &mut self.servers[server];
            reply::question(&mut state.output, question, &whose.user);
            state.statements.doubt_unnamed();
            (state.resumes, state.speaks) = (false, false);
            state.lookup = Some(Lookup {
                client: id,
                whose,
                found: None,
                has_failed: false,
            });
            state.expected.push_back(Expected::Own(Own::Lookup));
            self.flush_server(server);
            return true;
        }
        false
    }

    /// The answer to a question about a password.
    pub(super) fn looked_up(&mut self, lookup: Lookup) {
        let Lookup {
            client: id,
            whose,
            found,
            has_failed,
        } = lookup;
        if has_failed {
            tracing::warn!(user = whose.user, "auth_query has failed");
        } else {
            let until = Instant::now() + self.settings.auth_query_cache;
            self.secrets.put(whose, found.clone(), until);
        }
        let Some(Stage::LooksUp { way, .. }) = self.clients.get(id).map(|client| &client.stage)
        else {
            return;
        };
        let way = *way;
        if has_failed {
            let told = "the database does not say what it keeps of passwords (auth_query)";
            self.refuse(id, state::CONNECTION_FAILURE, told);
        } else {
            self.compare(id, way, found);
        }
    }
}

/// A client as PostgreSQL's messages have it.
fn shown(who: &Who<'_>) -> String {
    let host = who.address.map_or("[local]".into(), |address| {
        address.to_canonical().to_string()
    });
    let encryption = if who.has_tls {
        "SSL encryption"
    } else {
        "no encryption"
    };
    format!(
        "host \"{host}\", user \"{}\", database \"{}\", {encryption}",
        who.user, who.database
    )
}
