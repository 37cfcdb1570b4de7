//! How long a client may be at something, and how many servers its pool has: as a setting for all says, that of its
//! database, or that of its user.

use std::time::Duration;

use super::{Database, Settings, UserSettings};

/// Of one client; zero: as long as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) query: Duration,
    pub(crate) idle_transaction: Duration,
    pub(crate) transaction: Duration,
    pub(crate) idle: Duration,
}

impl Settings {
    /// What the settings say of a user.
    fn of_user<T>(&self, user: &str, field: impl FnOnce(&UserSettings) -> Option<T>) -> Option<T> {
        self.administration.users.get(user).and_then(field)
    }

    pub(crate) fn limits(&self, user: &str) -> Limits {
        let own = self.administration.users.get(user);
        let of = |own: Option<Duration>, all: Duration| own.unwrap_or(all);
        Limits {
            query: of(own.and_then(|own| own.query_timeout), self.query_timeout),
            idle_transaction: of(
                own.and_then(|own| own.idle_transaction_timeout),
                self.idle_transaction_timeout,
            ),
            transaction: of(
                own.and_then(|own| own.transaction_timeout),
                self.transaction_timeout,
            ),
            idle: of(
                own.and_then(|own| own.client_idle_timeout),
                self.client_idle_timeout,
            ),
        }
    }

    /// How long a client of a user waits for a server.
    pub(crate) fn query_wait(&self, database: &Database, user: &str) -> Duration {
        let of_user = self.of_user(user, |user| user.query_wait_timeout);
        let own = of_user.or(database.query_wait_timeout);
        own.unwrap_or(self.query_wait_timeout)
    }

    /// How old a server becomes.
    pub(crate) fn lifetime(&self, database: &Database) -> Duration {
        database.server_lifetime.unwrap_or(self.server_lifetime)
    }

    /// Servers of one user on a database, if nothing is said of the user.
    pub(crate) fn size(&self, database: &Database) -> usize {
        database.pool_size.unwrap_or(self.default_pool_size).max(1)
    }

    /// The same of this user.
    pub(crate) fn size_for(&self, database: &Database, user: &str) -> usize {
        let of_user = self.of_user(user, |user| user.pool_size);
        of_user.map_or_else(|| self.size(database), |size| size.max(1))
    }

    /// So many more servers for clients that have waited long, if nothing is said of the user.
    pub(crate) fn reserve(&self, database: &Database) -> usize {
        database.reserve_pool.unwrap_or(self.reserve_pool_size)
    }

    /// The same of this user.
    pub(crate) fn reserve_for(&self, database: &Database, user: &str) -> usize {
        let of_user = self.of_user(user, |user| user.reserve_pool_size);
        of_user.unwrap_or_else(|| self.reserve(database))
    }

    /// So many servers of a pool of this size are open at least.
    pub(crate) fn least(&self, database: &Database, size: usize) -> usize {
        let least = database.min_pool_size.unwrap_or(self.min_pool_size);
        least.min(size)
    }
}

/// Seconds, also parts of them.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text} is no number of seconds");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number).map_err(|_| wrong())
}

/// A limit of one user or one database; -1: it has none of its own.
pub(crate) fn own_limit(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "-1" => Ok(None),
        text => seconds(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_user_counts_first() {
        let second = Duration::from_secs;
        let mut settings = Settings {
            query_wait_timeout: second(9),
            transaction_timeout: second(8),
            default_pool_size: 7,
            reserve_pool_size: 6,
            ..Settings::default()
        };
        let own = UserSettings {
            pool_size: Some(1),
            reserve_pool_size: Some(2),
            query_wait_timeout: Some(second(3)),
            transaction_timeout: Some(Duration::ZERO),
            ..UserSettings::default()
        };
        settings.administration.users.insert("own".into(), own);
        let database = "pool_size=4 reserve_pool_size=5 query_wait_timeout=6";
        let (bare, database) = (
            "".parse::<Database>().expect("one"),
            database.parse::<Database>().expect("another"),
        );
        for (user, database, size, reserve, wait) in [
            ("own", &database, 1, 2, 3),
            ("other", &database, 4, 5, 6),
            ("own", &bare, 1, 2, 3),
            ("other", &bare, 7, 6, 9),
        ] {
            assert_eq!(settings.size_for(database, user), size);
            assert_eq!(settings.reserve_for(database, user), reserve);
            assert_eq!(settings.query_wait(database, user), second(wait));
        }
        assert_eq!(settings.limits("own").transaction, Duration::ZERO);
        assert_eq!(settings.limits("other").transaction, second(8));
        assert_eq!(own_limit("-1"), Ok(None));
        assert!(own_limit("-2").is_err());
    }
}
