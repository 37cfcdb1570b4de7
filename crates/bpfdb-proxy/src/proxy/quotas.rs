//! How many servers there may be: of a pool with its reserve, of a database, of a user.

use std::time::{Duration, Instant};

use super::Proxy;
use super::ending::Ending;
use super::timeouts::is_over;
use crate::io::slab::Id;
use crate::pool::{Key, Pool};

/// What several pools share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quota {
    Database,
    User,
}

impl Quota {
    fn is_shared(self, one: &Pool, other: &Pool) -> bool {
        // A mirror holds up no client.
        let is_alike = one.key.is_mirror == other.key.is_mirror;
        is_alike
            && match self {
                Self::Database => one.key.database == other.key.database,
                Self::User => one.user() == other.user(),
            }
    }
}

/// A mirror has another server when one is awaited for so long.
const MIRROR_WAIT: Duration = Duration::from_millis(50);

impl Proxy {
    /// Is another server of the pool to be opened now? One that no client uses may be closed for it.
    pub(super) fn may_open(&mut self, number: u32) -> bool {
        let pool = &self.pools[number as usize];
        let waits = pool.waiting.front().and_then(|id| self.clients.get(*id));
        let since = waits.and_then(|client| client.waits);
        // A few servers of a mirror do what many would, and wake up less often: each does more at once.
        let is_soon = since.is_none_or(|since| !is_over(since, MIRROR_WAIT, Instant::now()));
        if pool.key.is_mirror && pool.servers > 0 && is_soon {
            return false;
        }
        let timeout = self.settings.reserve_pool_timeout;
        let is_late = since.is_some_and(|since| is_over(since, timeout, Instant::now()));
        let reserve = if is_late {
            self.settings.reserve_for(&pool.database, &pool.key.user)
        } else {
            0
        };
        pool.wants_server(reserve) && self.has_all_room(number)
    }

    /// May there be no more clients of a database, or of a user? Why not.
    pub(super) fn is_full_for(&self, key: &Key) -> Option<String> {
        let settings = &self.settings;
        let database = self.entry(&key.database);
        let of_database = database.and_then(|database| database.max_db_client_connections);
        let user = settings.administration.users.get(&key.user);
        let of_user = user.and_then(|user| user.max_user_client_connections);
        let count = |is_alike: &dyn Fn(&Key) -> bool| -> usize {
            let pools = self
                .pools
                .iter()
                .filter(|pool| !pool.key.is_mirror && is_alike(&pool.key));
            pools.map(|pool| pool.clients).sum()
        };
        let is_full =
            |limit: usize, is_alike: &dyn Fn(&Key) -> bool| limit > 0 && count(is_alike) >= limit;
        let of_database = of_database.unwrap_or(settings.max_db_client_connections);
        let of_user = of_user.unwrap_or(settings.max_user_client_connections);
        let which = if is_full(of_database, &|one| one.database == key.database) {
            "max_db_client_connections"
        } else if is_full(of_user, &|one| one.user == key.user) {
            "max_user_client_connections"
        } else {
            return None;
        };
        Some(format!("no more connections allowed ({which})"))
    }

    fn has_all_room(&mut self, number: u32) -> bool {
        let quotas = [Quota::Database, Quota::User];
        quotas.into_iter().all(|quota| self.has_room(number, quota))
    }

    /// Of the quota that this pool has a part in; 0: there is none.
    fn limit(&self, pool: &Pool, quota: Quota) -> usize {
        let settings = &self.settings;
        match quota {
            Quota::Database => {
                let own = pool.database.max_db_connections;
                own.unwrap_or(settings.max_db_connections)
            }
            Quota::User => {
                let user = settings.administration.users.get(pool.user());
                let own = user.and_then(|user| user.max_user_connections);
                own.unwrap_or(settings.max_user_connections)
            }
        }
    }

    /// So many servers a pool has at least. One without clients needs none: it may be of a database that is gone, or one of
    /// many of the same database, with other parameters.
    pub(super) fn least(&self, pool: &Pool) -> usize {
        match pool.clients {
            0 => 0,
            _ => self.settings.least(&pool.database, pool.size),
        }
    }

    /// Opens a server for each pool that has less of them than `min_pool_size`, and takes nobody else's for that.
    pub(super) fn fill_pools(&mut self) {
        for number in 0..self.pools.len() as u32 {
            let pool = &self.pools[number as usize];
            let retry = self.settings.server_login_retry;
            let rests = pool.last_failure.is_some_and(|at| at.elapsed() < retry);
            let is_filled = pool.servers >= self.least(pool) || pool.logging_in > 0;
            if is_filled || rests || pool.is_paused || self.ending != Ending::No {
                continue;
            }
            let quotas = [Quota::Database, Quota::User];
            if !quotas.iter().any(|quota| self.is_used_up(number, *quota)) {
                self.open_another(number);
            }
        }
    }

    /// Is the quota used up that this pool has a part in?
    fn is_used_up(&self, number: u32, quota: Quota) -> bool {
        let own = &self.pools[number as usize];
        let limit = self.limit(own, quota);
        let pools = self.pools.iter();
        let used = pools.filter(|pool| quota.is_shared(own, pool));
        limit > 0 && used.map(|pool| pool.servers).sum::<usize>() >= limit
    }

    fn has_room(&mut self, number: u32, quota: Quota) -> bool {
        if !self.is_used_up(number, quota) {
            return true;
        }
        for other in 0..self.pools.len() as u32 {
            let (own, pool) = (&self.pools[number as usize], &self.pools[other as usize]);
            if other == number || pool.wanted() > 0 || !quota.is_shared(own, pool) {
                continue;
            }
            if let Some(server) = self.take_free(other) {
                self.close_server(server);
                return !self.is_used_up(number, quota);
            }
        }
        false
    }

    /// A server is free, and a pool that may open none has waited longer than its own: then it is closed, so
    /// that the other can open one. `false`: there is none.
    pub(super) fn gives_way(&mut self, id: Id) -> bool {
        let number = self.servers[id].pool;
        let quotas = [Quota::Database, Quota::User];
        let used_up = quotas
            .into_iter()
            .find(|&quota| self.is_used_up(number, quota));
        let Some(quota) = used_up else {
            return false;
        };
        let own = &self.pools[number as usize];
        let waits = |pool: &Pool| {
            let first = pool.waiting.front().and_then(|id| self.clients.get(*id));
            first.and_then(|client| client.waits)
        };
        let own_wait = waits(own);
        let longer = |pool: &Pool| {
            waits(pool).is_some_and(|since| own_wait.is_none_or(|own| since < own))
                && pool.servers < pool.size
        };
        let others = (0..self.pools.len()).filter(|&other| other != number as usize);
        let first = others
            .filter(|&other| {
                let pool = &self.pools[other];
                quota.is_shared(own, pool) && longer(pool)
            })
            .min_by_key(|&other| waits(&self.pools[other]));
        let Some(other) = first else {
            return false;
        };
        // Its own pool does not open one at once.
        self.close_server_for(id, other as u32);
        true
    }
}
