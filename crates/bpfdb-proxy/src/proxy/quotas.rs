//! How many servers there may be: of a pool with its reserve, of a database, of a user.

use std::time::Instant;

use super::Proxy;
use super::timeouts::is_over;
use crate::io::slab::Id;
use crate::pool::Pool;

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

impl Proxy {
    /// Is another server of the pool to be opened now? One that no client uses may be closed for it.
    pub(super) fn may_open(&mut self, number: u32) -> bool {
        let pool = &self.pools[number as usize];
        let waits = pool.waiting.front().and_then(|id| self.clients.get(*id));
        let since = waits.and_then(|client| client.waits);
        let timeout = self.settings.reserve_pool_timeout;
        let is_late = since.is_some_and(|since| is_over(since, timeout, Instant::now()));
        let reserve = if is_late {
            self.settings.reserve_pool_size
        } else {
            0
        };
        if !pool.wants_server(reserve) {
            return false;
        }
        let quotas = [Quota::Database, Quota::User];
        quotas.into_iter().all(|quota| self.has_room(number, quota))
    }

    fn limit(&self, quota: Quota) -> usize {
        match quota {
            Quota::Database => self.settings.max_db_connections,
            Quota::User => self.settings.max_user_connections,
        }
    }

    /// Is the quota used up that this pool has a part in?
    fn is_used_up(&self, number: u32, quota: Quota) -> bool {
        let (own, limit) = (&self.pools[number as usize], self.limit(quota));
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
