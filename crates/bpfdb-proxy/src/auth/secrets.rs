//! What the database has said of passwords, for a while.

use std::time::Instant;

use rustc_hash::FxHashMap;

/// Users that are known at a time.
const USERS_MAX: usize = 10_000;

/// Whose password something is about. Two databases may have users of the same name, and answer another question
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Whose {
    /// The database that says it; `None`: the file of passwords does.
    pub(crate) database: Option<String>,
    /// What it is asked.
    pub(crate) query: Option<String>,
    pub(crate) user: String,
}

#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// What is kept of the password, if there is one; and how long that is good for.
    found: FxHashMap<Whose, (Option<String>, Instant)>,
}

impl Secrets {
    /// `None`: it is not known now.
    pub(crate) fn get(&self, whose: &Whose, now: Instant) -> Option<Option<String>> {
        let (secret, until) = self.found.get(whose)?;
        (now < *until).then(|| secret.clone())
    }

    /// What was known last, if there is a password: a server that lets the proxy in by it proves that it is right.
    pub(crate) fn last(&self, whose: &Whose) -> Option<&str> {
        let (secret, _) = self.found.get(whose)?;
        secret.as_deref()
    }

    pub(crate) fn put(&mut self, whose: Whose, secret: Option<String>, until: Instant) {
        if self.found.len() >= USERS_MAX {
            let now = Instant::now();
            self.found.retain(|_, (_, until)| now < *until);
        }
        // Others ask again.
        if self.found.len() >= USERS_MAX {
            self.found.clear();
        }
        self.found.insert(whose, (secret, until));
    }

    /// Its password may have been changed.
    pub(crate) fn forget(&mut self, whose: &Whose) {
        self.found.remove(whose);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(database: &str, user: &str) -> Whose {
        Whose {
            database: Some(database.to_owned()),
            query: None,
            user: user.to_owned(),
        }
    }

    #[test]
    fn answers_of_one_database_are_not_those_of_another() {
        let (mut secrets, now) = (Secrets::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        secrets.put(of("one", "user"), Some("its own".into()), later);
        assert_eq!(secrets.get(&of("other", "user"), now), None);
        let another_question = Whose {
            query: Some("select".into()),
            ..of("one", "user")
        };
        assert_eq!(secrets.get(&another_question, now), None);
    }

    #[test]
    fn answers_are_kept_for_a_while_and_not_without_bound() {
        let (mut secrets, now) = (Secrets::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        secrets.put(of("d", "a"), Some("b".into()), later);
        assert_eq!(secrets.get(&of("d", "a"), now), Some(Some("b".into())));
        assert_eq!(secrets.get(&of("d", "a"), later), None);
        assert_eq!(secrets.last(&of("d", "a")), Some("b"));
        for number in 0..2 * USERS_MAX {
            secrets.put(of("d", &number.to_string()), None, later);
        }
        assert!(secrets.found.len() <= USERS_MAX);
        let last = of("d", &(2 * USERS_MAX - 1).to_string());
        assert_eq!(secrets.get(&last, now), Some(None));
        secrets.forget(&last);
        assert_eq!(secrets.get(&last, now), None);
    }
}
