//! Scripts for pgbench: the calls of the applications, in their mixes. A mix is the weights of
//! its scripts.

use anyhow::{Result, ensure};

use crate::postgres::Script;
use crate::procedures::calls::Work;

pub(super) type Variables = [(&'static str, i64); 6];

pub(super) fn schema(work: Work) -> &'static str {
    match work {
        Work::SmallBank => include_str!("smallbank.sql"),
        Work::Tatp => include_str!("tatp.sql"),
        _ => include_str!("voter.sql"),
    }
}

pub(super) fn of(work: Work) -> &'static [Script] {
    match work {
        Work::SmallBank => &SMALLBANK,
        Work::Tatp => &TATP,
        Work::HotVoter => &HOT_VOTER,
        _ => &VOTER,
    }
}

/// What calls add to: votes in three places, cents, call forwardings.
pub(super) fn sums(work: Work) -> &'static str {
    match work {
        Work::SmallBank => {
            "SELECT (SELECT sum(balance) FROM savings) + (SELECT sum(balance) FROM checking)"
        }
        Work::Tatp => "SELECT count(*) FROM forwardings",
        _ => {
            "SELECT (SELECT coalesce(sum(votes), 0) FROM phones), (SELECT count(*) FROM votes), \
             (SELECT sum(votes) FROM totals)"
        }
    }
}

/// Rows that were changed since the server was started: savings, subscribers, facilities, call
/// forwardings that were inserted and deleted. Tables that are not there have none.
pub(super) const CHANGED: &str = "\
    SELECT coalesce(sum(n_tup_upd) FILTER (WHERE relname = 'savings'), 0), \
        coalesce(sum(n_tup_upd) FILTER (WHERE relname = 'subscribers'), 0), \
        coalesce(sum(n_tup_upd) FILTER (WHERE relname = 'facilities'), 0), \
        coalesce(sum(n_tup_ins) FILTER (WHERE relname = 'forwardings'), 0), \
        coalesce(sum(n_tup_del) FILTER (WHERE relname = 'forwardings'), 0) \
    FROM pg_stat_user_tables";

const fn script(weight: u32, text: &'static str) -> Script {
    Script { weight, text }
}

/// Draws a phone, uniformly, and by Zipf. The smallest exponent that pgbench knows is a little
/// more than 0.99.
macro_rules! votes {
    ($draw:literal) => {
        [
            script(99, votes!($draw, "random(1, :contestants)")),
            script(1, votes!($draw, "99")),
        ]
    };
    ($draw:literal, $contestant:literal) => {
        concat!(
            "\\set n ",
            $draw,
            "\n",
            "\\set area 201 + :n % 300\n",
            "\\set phone :area * 10000000 + :n\n",
            "\\set contestant ",
            $contestant,
            "\n",
            "SELECT vote(:area, :contestant, :phone, :vote_limit);\n"
        )
    };
}

/// The script whose votes all count: no phone reaches its limit.
pub(super) const VALID_VOTE: usize = 0;
const VOTER: [Script; 2] = votes!("random(0, :phones - 1)");
const HOT_VOTER: [Script; 2] = votes!("permute(random_zipfian(0, :phones - 1, 1.001), :phones)");

/// A quarter of the calls are for 100 customers; two are never the same.
macro_rules! of_customers {
    ($call:literal) => {
        concat!(
            "\\set hot least(100, :customers) - 1\n",
            "\\set who case when random(1, 100) <= 25 then random(0, :hot) ",
            "else random(0, :customers - 1) end\n",
            "\\set other case when random(1, 100) <= 25 then random(0, :hot) ",
            "else random(0, :customers - 1) end\n",
            "\\set other case when :other = :who then (:who + 1) % :customers else :other end\n",
            "SELECT ",
            $call,
            ";\n"
        )
    };
}

/// Numbers of scripts.
const DEPOSIT: usize = 1;
const SAVE: usize = 2;
const AMALGAMATE: usize = 4;
const CHECK: usize = 5;
/// Twice the mix, for two halves of `bank_transact_savings`.
const SMALLBANK: [Script; 7] = [
    script(30, of_customers!("bank_balance(:who)")),
    script(30, of_customers!("bank_deposit_checking(:who, 130)")),
    script(15, of_customers!("bank_transact_savings(:who, 2020)")),
    script(15, of_customers!("bank_transact_savings(:who, -2020)")),
    script(30, of_customers!("bank_amalgamate(:who, :other)")),
    script(30, of_customers!("bank_write_check(:who, 500)")),
    script(50, of_customers!("bank_send_payment(:who, :other, 500)")),
];

/// A subscriber by NURand, a type and a start.
macro_rules! of_subscribers {
    ($call:literal) => {
        concat!(
            "\\set id 1 + (random(0, 65535) | random(1, :subscribers)) % :subscribers\n",
            "\\set type random(1, 4)\n",
            "\\set start 8 * random(0, 2)\n",
            $call
        )
    };
}

pub(super) const UPDATE_LOCATION: usize = 4;
const TATP: [Script; 7] = [
    script(
        35,
        of_subscribers!("SELECT * FROM tatp_get_subscriber_data(:id);\n"),
    ),
    script(
        10,
        of_subscribers!(
            "\\set end random(1, 24)\n\
             SELECT * FROM tatp_get_new_destination(:id, :type, :start, :end);\n"
        ),
    ),
    script(
        35,
        of_subscribers!("SELECT * FROM tatp_get_access_data(:id, :type);\n"),
    ),
    script(
        2,
        of_subscribers!(
            "\\set bit random(0, 1)\n\\set data random(0, 255)\n\
             SELECT tatp_update_subscriber_data(:id, :type, :bit, :data);\n"
        ),
    ),
    script(
        14,
        of_subscribers!(
            "\\set location random(0, 4294967295)\n\
             SELECT tatp_update_location(:id, :location);\n"
        ),
    ),
    script(
        2,
        of_subscribers!(
            "\\set end :start + random(1, 8)\n\\set number random(0, 999999999)\n\
             SELECT tatp_insert_call_forwarding(:id, :type, :start, :end, :number);\n"
        ),
    ),
    script(
        2,
        of_subscribers!("SELECT tatp_delete_call_forwarding(:id, :type, :start);\n"),
    ),
];

/// Fails if the bank has not grown as it must.
///
/// Every deposit and every check has changed the sum, and every saving that was accepted. How
/// many of those that take away were is what is left of the changed rows of savings, but for
/// rows that were changed by attempts which were repeated. What is missing then are penalties for
/// overdrafts, of which there is at most one a check.
pub(super) fn check_bank(done: &[i64], savings: i64, repeated: i64, grown: i64) -> Result<()> {
    let (deposits, saved, checks) = (done[DEPOSIT], done[SAVE], done[CHECK]);
    let accepted = savings - saved - done[AMALGAMATE];
    let is_right = |spent: i64| {
        let penalties = 130 * deposits + 2020 * (saved - spent) - 500 * checks - grown;
        penalties % 100 == 0 && (0..=checks).contains(&(penalties / 100))
    };
    let mut possible = (accepted - repeated).max(0)..=accepted;
    ensure!(
        possible.any(is_right),
        "the bank has grown by {grown}, {savings} rows of savings were changed, by {done:?} calls"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten of each, all accepted, two overdrafts.
    const DONE: [i64; 7] = [10; 7];
    const GROWN: i64 = 130 * 10 - 500 * 10 - 2 * 100;

    #[test]
    fn the_bank_grows_by_what_was_called() {
        check_bank(&DONE, 30, 0, GROWN).expect("right");
        // One that takes away was refused.
        check_bank(&DONE, 29, 0, GROWN + 2020).expect("right");
        // It was an attempt that was repeated.
        check_bank(&DONE, 30, 1, GROWN + 2020).expect("right");
    }

    #[test]
    fn a_bank_where_money_is_lost_is_noticed() {
        check_bank(&DONE, 30, 0, GROWN + 1).expect_err("a cent");
        check_bank(&DONE, 30, 0, GROWN + 2020).expect_err("a saving");
        check_bank(&DONE, 30, 0, GROWN + 300).expect_err("less than no penalty");
        check_bank(&DONE, 0, 0, 0).expect_err("nothing was done");
    }
}
