//! Clients and their shadows: what is copied, and what is lost ([`crate::mirror`]).

use std::time::{Duration, Instant};

use postgres_protocol::message::frontend;

use super::{Proxy, Work};
use crate::auth::random;
use crate::awaited::Expected;
use crate::client::{Client, Stage};
use crate::io::slab::Id;
use crate::io::stream::Stream;
use crate::mirror::{Mirror, Mirrored, Shadow};
use crate::pool::{Key, Pool};
use crate::server::{Copying, IDLE};
use crate::settings::ANY_DATABASE;

/// Requests that a shadow sends at once, at most.
const AT_ONCE_MAX: usize = 256;
/// A mirror that was not there is left alone for so long.
const REST: Duration = Duration::from_secs(1);

/// A mirror as it is at this moment.
pub(super) struct MirrorNow {
    pub(super) database: String,
    /// Empty: there is none any more.
    pub(super) mirror: String,
    pub(super) shadows: usize,
    /// The longest of its shadows.
    pub(super) lag: Duration,
    pub(super) figures: Mirror,
}

impl Pool {
    /// The database that gets the same.
    pub(crate) fn mirror(&self) -> Option<&str> {
        let mirror = self.database.mirror.as_deref();
        mirror.filter(|_| !self.key.is_mirror)
    }
}

impl Proxy {
    /// Clients that are connected: without shadows.
    pub(super) fn connected_clients(&self) -> usize {
        self.clients.len() - self.shadows
    }

    pub(super) fn is_shadow(&self, id: Id) -> bool {
        let client = self.clients.get(id);
        client.is_some_and(|client| client.shadow.is_some())
    }

    pub(super) fn is_mirrored(&self, client: &Client) -> bool {
        let pool = client.pool.map(|pool| &self.pools[pool as usize]);
        pool.is_some_and(|pool| pool.mirror().is_some())
    }

    /// A message of a client goes to its server, and to its shadow if its transaction is mirrored.
    pub(super) fn mirror(&mut self, id: Id, server: Id, size: usize) {
        let client = &self.clients[id];
        if !self.is_mirrored(client) {
            return;
        }
        let server = &self.servers[server];
        let is_own = |expected: &Expected| matches!(expected, Expected::Own(_));
        let begins = !client.is_open && server.status == IDLE && server.expected.iter().all(is_own);
        if begins {
            self.begin_mirrored(id);
        }
        self.copy(id, size);
    }

    /// Bytes at the front of a client's input go to its shadow.
    pub(super) fn copy(&mut self, id: Id, bytes: usize) {
        let client = &self.clients[id];
        let Mirrored {
            shadow: Some(shadow),
            takes: true,
        } = client.mirrored
        else {
            return;
        };
        let bytes = bytes.min(client.input.len());
        if let Some((client, copy)) = self.clients.two(id, shadow) {
            copy.input.extend_from_slice(&client.input[..bytes]);
            self.was_put(id, shadow, bytes);
        }
    }

    /// So many bytes were put into the queue of a client's shadow.
    pub(super) fn was_put(&mut self, id: Id, shadow: Id, bytes: usize) {
        if let Some(state) = &mut self.clients[shadow].shadow {
            state.put(bytes);
        }
        self.account(shadow);
        if !self.make_room(shadow) {
            return self.lose(id, shadow);
        }
        self.feed(shadow);
    }

    /// A shadow has something to send when mirrors have their turn.
    fn feed(&mut self, shadow: Id) {
        if let Some(state) = self.clients.get_mut(shadow)
            && let Some(state) = &mut state.shadow
            && !std::mem::replace(&mut state.is_fed, true)
        {
            self.looking.fed.push(shadow);
            self.looking_begins();
        }
    }

    /// A transaction of a client begins: is it mirrored?
    pub(super) fn begin_mirrored(&mut self, id: Id) {
        let shadow = self.shadow_of(id);
        let fresh = shadow.filter(|shadow| self.is_fresh(id, *shadow));
        let state = fresh.and_then(|shadow| self.clients[shadow].shadow.as_mut());
        if let Some(state) = state {
            state.begin();
        } else {
            self.count_lost(id, 1);
        }
        self.clients[id].mirrored = Mirrored {
            shadow,
            takes: fresh.is_some(),
        };
    }

    /// Has a shadow what its client's session has? After a loss it gets that when it has nothing else to do.
    fn is_fresh(&mut self, id: Id, shadow: Id) -> bool {
        let is_stale = |state: &Shadow| state.is_stale;
        if !self.clients[shadow].shadow.as_ref().is_some_and(is_stale) {
            return true;
        }
        if self.is_behind(shadow) {
            return false;
        }
        self.look_at_unnamed(id);
        let Some((client, copy)) = self.clients.two(id, shadow) else {
            return false;
        };
        copy.parameters.clone_from(&client.parameters);
        copy.names = client.names.copy();
        if let Some(state) = &mut copy.shadow {
            state.is_stale = false;
        }
        if let Some(server) = copy.server {
            self.ask_for_parameters(shadow, server);
        }
        self.clients.get(shadow).is_some()
    }

    /// The shadow of a client, which is made if there is none. `None`: the mirror is not there.
    fn shadow_of(&mut self, id: Id) -> Option<Id> {
        let client = &self.clients[id];
        let pool = &self.pools[client.pool? as usize];
        let mirror = pool.mirror()?;
        if let Some(shadow) = client.mirrored.shadow
            && let Some(copy) = self.clients.get(shadow)
            && let Some(number) = copy.pool
        {
            if self.pools[number as usize].key.database == mirror {
                return Some(shadow);
            }
            self.end_shadow(id);
            return self.shadow_of(id);
        }
        let key = Key {
            database: mirror.to_owned(),
            is_mirror: true,
            ..pool.key.clone()
        };
        let database = pool.key.database.clone();
        let rests = self.mirrors.get(&database);
        let rests = rests.and_then(|mirror| mirror.rests_until);
        if rests.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let made = self.make_shadow(id, key, database.clone());
        if let Err(told) = &made {
            tracing::warn!(database, told, "there is no mirror");
            self.rest_mirror(database);
        }
        made.ok()
    }

    /// With all that its client's session has by now; state that the session has beyond that it lacks.
    fn make_shadow(&mut self, id: Id, key: Key, database: String) -> Result<Id, String> {
        self.look_at_unnamed(id);
        let socket = Stream::nowhere().map_err(|error| error.to_string())?;
        let number = self.pool(key).map_err(|(_, told)| told)?;
        let pool = &mut self.pools[number as usize];
        pool.clients += 1;
        let client = &self.clients[id];
        let mut copy = Client::new(socket, client.address, i32::from_ne_bytes(random()));
        copy.stage = Stage::Ready;
        copy.user.clone_from(&client.user);
        copy.parameters.clone_from(&client.parameters);
        copy.names = client.names.copy();
        (copy.pool, copy.mode) = (Some(number), pool.mode);
        copy.shadow = Some(Shadow::new(database));
        self.shadows += 1;
        Ok(self.clients.insert(copy))
    }

    fn rest_mirror(&mut self, database: String) {
        let mirror = self.mirrors.entry(database).or_default();
        mirror.rests_until = Some(Instant::now() + REST);
    }

    fn is_over_full(&self, shadow: Id) -> bool {
        let copy = self.clients.get(shadow);
        let state = copy.and_then(|copy| copy.shadow.as_ref());
        let mirror = state.and_then(|state| self.mirrors.get(&state.database));
        mirror.is_some_and(|mirror| mirror.queued > self.settings.mirror_queue)
    }

    /// Is there room for what the queues of a shadow's mirror have? Shadows whose clients are gone are lost for it.
    fn make_room(&mut self, shadow: Id) -> bool {
        while self.is_over_full(shadow) {
            let Some(left) = self.oldest_left(shadow) else {
                return false;
            };
            if let Some(state) = self.clients[left].shadow.as_mut() {
                state.gives_way = true;
            }
            self.leave(left);
            if left == shadow {
                break;
            }
        }
        true
    }

    /// Of the same mirror, the shadow whose client is gone for longest. One that has a server keeps it: without it the
    /// mirror would do for no client what it has begun.
    fn oldest_left(&mut self, shadow: Id) -> Option<Id> {
        let database = &self.clients[shadow].shadow.as_ref()?.database;
        let is_of = |id: &Id| {
            let found = self.clients.get(*id).and_then(|copy| copy.shadow.as_ref());
            let waits = |id: &Id| self.clients[*id].server.is_none();
            found.is_some_and(|found| found.database == *database) && waits(id)
        };
        let at = self.left_shadows.iter().position(is_of)?;
        self.left_shadows.remove(at)
    }

    /// The client of a shadow is gone.
    fn shadow_is_left(&mut self, shadow: Id) {
        if let Some(state) = self
            .clients
            .get_mut(shadow)
            .and_then(|copy| copy.shadow.as_mut())
        {
            state.is_left(size_of::<Client>());
        }
        self.account(shadow);
        // Most of them go by themselves.
        if self.left_shadows.len() > 2 * self.shadows {
            let clients = &self.clients;
            self.left_shadows.retain(|id| clients.get(*id).is_some());
        }
        self.left_shadows.push_back(shadow);
        self.work.push_back(Work::Client(shadow));
        self.make_room(shadow);
    }

    /// There is no room for the transaction of a client. What the mirror has begun with is rolled back there.
    fn lose(&mut self, id: Id, shadow: Id) {
        self.clients[id].mirrored.takes = false;
        let copy = &mut self.clients[shadow];
        let queued = copy.input.len();
        let Some(state) = &mut copy.shadow else {
            return;
        };
        let Some(left) = state.take_back_last(queued) else {
            return self.leave(shadow);
        };
        state.is_stale = true;
        copy.input.truncate(left);
        let database = state.database.clone();
        self.mirrors.entry(database).or_default().lost += 1;
        self.account(shadow);
    }

    /// Counts what a shadow has done, and what its queue has.
    pub(super) fn account(&mut self, id: Id) {
        let Some(copy) = self.clients.get_mut(id) else {
            return;
        };
        let server = copy.server.map(|server| &self.servers[server]);
        let is_quiet = server.is_none_or(|server| server.is_quiet());
        let unanswered = server.map_or(0, |server| server.expected.len());
        let is_done = copy.input.is_empty() && copy.waits.is_none() && copy.is_between();
        let queued = copy.input.len();
        let Some(state) = &mut copy.shadow else {
            return;
        };
        let done = state.done(queued, unanswered, is_done && is_quiet);
        let grown = state.grown(queued);
        if done == 0 && grown == 0 {
            return;
        }
        let mirror = self.mirrors.entry(state.database.clone()).or_default();
        mirror.transactions += done;
        mirror.queued = mirror.queued.saturating_add_signed(grown);
    }

    /// Does a shadow wait for the answer to what it has sent before? As its client has, it sends nothing else until
    /// then. But what is plain it sends at once, as far as it is there: so its server is given on between two turns, and
    /// wakes up once for many requests.
    pub(super) fn awaits_answer(&self, id: Id, kind: u8, size: usize, is_data: bool) -> bool {
        let client = &self.clients[id];
        if client.shadow.is_none() || client.is_open {
            return false;
        }
        let Some(server) = client.server.map(|server| &self.servers[server]) else {
            return false;
        };
        if server.expected.is_empty() || is_data && server.copying != Copying::No {
            return false;
        }
        let is_turn = !server.output.is_empty() && server.expected.len() < AT_ONCE_MAX;
        !is_turn
            || !client.hint.is_some_and(|hint| hint.is_plain)
            || !client.asks_plainly(kind, size)
    }

    /// The kernel had no room for copies of a client's transactions. `lost`: how many there were, ever.
    pub(super) fn kernel_has_lost(&mut self, id: Id, lost: u32) {
        let client = &mut self.clients[id];
        let more = lost.wrapping_sub(client.lost);
        client.lost = lost;
        if more == 0 || !self.is_mirrored(&self.clients[id]) {
            return;
        }
        let client = &mut self.clients[id];
        // The last one of them may go on.
        client.mirrored.takes = false;
        let shadow = client.mirrored.shadow;
        let shadow = shadow.and_then(|shadow| self.clients.get_mut(shadow));
        if let Some(state) = shadow.and_then(|shadow| shadow.shadow.as_mut()) {
            state.is_stale = true;
        }
        self.count_lost(id, u64::from(more));
    }

    /// Transactions of a client that its mirror does not get.
    fn count_lost(&mut self, id: Id, transactions: u64) {
        if let Some(pool) = self.clients[id].pool {
            let database = self.pools[pool as usize].key.database.clone();
            self.mirrors.entry(database).or_default().lost += transactions;
        }
    }

    /// A client has nothing more to mirror. Its shadow leaves when it has sent what it has.
    pub(super) fn end_shadow(&mut self, id: Id) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let is_whole = client.framing.is_between();
        let mirrored = std::mem::take(&mut client.mirrored);
        self.shadow_leaves(mirrored, is_whole);
    }

    /// `is_whole`: the last message that was copied is.
    pub(super) fn shadow_leaves(&mut self, mirrored: Mirrored, is_whole: bool) {
        let Some(shadow) = mirrored.shadow else {
            return;
        };
        match self.clients.get_mut(shadow) {
            Some(copy) if is_whole || !mirrored.takes => {
                let before = copy.input.len();
                frontend::terminate(&mut copy.input);
                let bytes = copy.input.len() - before;
                if let Some(state) = &mut copy.shadow {
                    state.put(bytes);
                }
                self.shadow_is_left(shadow);
            }
            Some(_) => self.leave(shadow),
            None => {}
        }
    }

    /// A shadow is gone, with `queued` bytes in its queue. `unanswered`: requests that it has sent; `is_over`: its last
    /// transaction is over.
    pub(super) fn shadow_is_gone(
        &mut self,
        mut shadow: Shadow,
        queued: usize,
        unanswered: usize,
        is_over: bool,
    ) {
        self.shadows -= 1;
        // That it leaves was put in, too, and is no transaction.
        let done = shadow.done(queued, unanswered, is_over);
        let lost = shadow.undone();
        let mirror = self.mirrors.entry(shadow.database.clone()).or_default();
        mirror.transactions += done;
        mirror.lost += lost;
        let counted = shadow.counted();
        mirror.queued = mirror.queued.saturating_sub(counted);
        if lost > 0 && !shadow.gives_way {
            let rests = mirror
                .rests_until
                .is_some_and(|until| Instant::now() < until);
            if !rests {
                tracing::warn!(shadow.database, lost, "a mirror has lost transactions");
            }
            self.rest_mirror(shadow.database);
        }
    }

    /// The mirror of a pool's database has changed, or there is one now.
    pub(super) fn mirror_changed(&mut self, number: u32) {
        self.tell_mirrored(number);
        if self.pools[number as usize].mirror().is_some() {
            return;
        }
        for id in self.clients.ids() {
            let client = self.clients.get(id);
            if client.is_some_and(|client| client.pool == Some(number)) {
                self.end_shadow(id);
            }
        }
    }

    /// Has a shadow something to do?
    pub(super) fn is_behind(&self, id: Id) -> bool {
        let copy = &self.clients[id];
        let server = copy.server.map(|server| &self.servers[server]);
        let is_answered = server.is_none_or(|server| server.expected.is_empty());
        !copy.input.is_empty() || copy.waits.is_some() || !is_answered
    }

    /// Databases that have a mirror, or had one: what it is, its shadows and their lag.
    pub(super) fn mirrors_now(&self) -> Vec<MirrorNow> {
        let mut all: Vec<_> = (self.settings.databases.iter())
            .filter(|(_, database)| database.mirror.is_some())
            .map(|(name, _)| name.clone())
            .chain(self.mirrors.keys().cloned())
            .collect();
        all.sort();
        all.dedup();
        let now = |database: String| {
            let figures = self.mirrors.get(&database).copied().unwrap_or_default();
            let settings = &self.settings.databases;
            let found = settings.get(&database).or(settings.get(ANY_DATABASE));
            let mirror = found.and_then(|found| found.mirror.clone());
            let shadows = self.clients.ids().into_iter().filter_map(|id| {
                let shadow = self.clients[id].shadow.as_ref()?;
                let lag = || {
                    if self.is_behind(id) {
                        shadow.lag()
                    } else {
                        Duration::ZERO
                    }
                };
                (shadow.database == database).then(lag)
            });
            let lags: Vec<Duration> = shadows.collect();
            MirrorNow {
                mirror: mirror.unwrap_or_default(),
                shadows: lags.len(),
                lag: lags.into_iter().max().unwrap_or_default(),
                database,
                figures,
            }
        };
        all.into_iter().map(now).collect()
    }
}
