//! What the database has said of passwords, for a while.

use std::time::Instant;

use rustc_hash::FxHashMap;

/// Users that are known at a time.
const USERS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// What is kept of the password, if there is one; and how long that is good for.
    found: FxHashMap<String, (Option<String>, Instant)>,
}

impl Secrets {
    /// `None`: it is not known now.
    pub(crate) fn get(&self, user: &str, now: Instant) -> Option<Option<String>> {
        let (secret, until) = self.found.get(user)?;
        (now < *until).then(|| secret.clone())
    }

    pub(crate) fn put(&mut self, user: String, secret: Option<String>, until: Instant) {
        if self.found.len() >= USERS_MAX {
            let now = Instant::now();
            self.found.retain(|_, (_, until)| now < *until);
        }
        // Others ask again.
        if self.found.len() >= USERS_MAX {
            self.found.clear();
        }
        self.found.insert(user, (secret, until));
    }

    /// Its password may have been changed.
    pub(crate) fn forget(&mut self, user: &str) {
        self.found.remove(user);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn answers_are_kept_for_a_while_and_not_without_bound() {
        let (mut secrets, now) = (Secrets::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        secrets.put("a".into(), Some("b".into()), later);
        assert_eq!(secrets.get("a", now), Some(Some("b".into())));
        assert_eq!(secrets.get("a", later), None);
        for number in 0..2 * USERS_MAX {
            secrets.put(number.to_string(), None, later);
        }
        assert!(secrets.found.len() <= USERS_MAX);
        let last = (2 * USERS_MAX - 1).to_string();
        assert_eq!(secrets.get(&last, now), Some(None));
        secrets.forget(&last);
        assert_eq!(secrets.get(&last, now), None);
    }
}
