//! The calls of the applications, as Tarantool takes them: the same ones, with the same
//! arguments, as numbers. And what their replies add to the data.

use bpfdb_apps::application::Application;
use bpfdb_apps::random::Random;
use bpfdb_apps::smallbank::{SmallBank, Transaction as Bank};
use bpfdb_apps::tatp::{Tatp, Transaction as Home};
use bpfdb_apps::voter::{Vote, Voter};

use super::iproto::{Gain, Value, call};
use crate::plan::Plan;
use crate::procedures::calls::{VOTES_OF_PHONE, Work};
use crate::tcp::Writer;

/// Kinds of requests, which are their syncs.
const OTHER: u64 = 0;
const VOTE: u64 = 1;
const DEPOSIT: u64 = 2;
const SAVE: u64 = 3;
const SPEND: u64 = 4;
const CHECK: u64 = 5;
const INSERT: u64 = 6;
const DELETE: u64 = 7;

/// Those that are as large as the deposits, and so on, which replies do not say.
const DEPOSITED: i64 = bpfdb_apps::smallbank::DEPOSIT;
const SAVED: i64 = bpfdb_apps::smallbank::SAVINGS;

/// Votes, cents or call forwardings.
pub(super) const GAIN: Gain = |kind, value| match (kind, value) {
    (VOTE, Value::Number(0)) => 1,
    (DEPOSIT, Value::Number(_)) => DEPOSITED,
    (SAVE, Value::Number(_)) => SAVED,
    (SPEND, Value::Number(_)) => -SAVED,
    (CHECK, Value::Number(taken)) => -taken,
    (INSERT, Value::Number(_)) => 1,
    (DELETE, Value::Number(_)) => -1,
    _ => 0,
};

pub(super) fn writer(work: Work, plan: &Plan, seed: u64) -> Writer {
    let random = Random::new(seed);
    match work {
        Work::SmallBank => requests(Work::bank(plan), random, write_bank),
        Work::Tatp => requests(Work::tatp(plan), random, write_home),
        _ => requests(work.voter(plan), random, write_vote),
    }
}

fn requests<A: Application + Send + 'static>(
    app: A,
    mut random: Random,
    write: fn(&A::Call, &mut Vec<u8>),
) -> Writer {
    Box::new(move |to| write(&app.next(&mut random), to))
}

fn write_vote(vote: &<Voter as Application>::Call, to: &mut Vec<u8>) {
    let &Vote {
        area,
        phone,
        contestant,
    } = vote;
    let arguments = [area.into(), contestant.into(), phone, VOTES_OF_PHONE.into()];
    call(to, VOTE, "vote", &arguments);
}

fn write_bank(transaction: &<SmallBank as Application>::Call, to: &mut Vec<u8>) {
    match *transaction {
        Bank::Balance(who) => call(to, OTHER, "bank_balance", &[who]),
        Bank::DepositChecking(who, amount) => {
            call(to, DEPOSIT, "bank_deposit_checking", &[who, amount]);
        }
        Bank::TransactSavings(who, amount) => {
            let kind = if amount < 0 { SPEND } else { SAVE };
            call(to, kind, "bank_transact_savings", &[who, amount]);
        }
        Bank::Amalgamate(from, into) => call(to, OTHER, "bank_amalgamate", &[from, into]),
        Bank::WriteCheck(who, amount) => call(to, CHECK, "bank_write_check", &[who, amount]),
        Bank::SendPayment(from, into, amount) => {
            call(to, OTHER, "bank_send_payment", &[from, into, amount]);
        }
    }
}

fn write_home(transaction: &<Tatp as Application>::Call, to: &mut Vec<u8>) {
    match *transaction {
        Home::GetSubscriberData(id) => call(to, OTHER, "tatp_get_subscriber_data", &[id]),
        Home::GetNewDestination(id, kind, start, end) => {
            call(
                to,
                OTHER,
                "tatp_get_new_destination",
                &[id, kind, start, end],
            );
        }
        Home::GetAccessData(id, kind) => call(to, OTHER, "tatp_get_access_data", &[id, kind]),
        Home::UpdateSubscriberData(id, kind, bit, data) => {
            let arguments = [id, kind, bit, data];
            call(to, OTHER, "tatp_update_subscriber_data", &arguments);
        }
        Home::UpdateLocation(id, location) => {
            call(to, OTHER, "tatp_update_location", &[id, location]);
        }
        Home::InsertCallForwarding((id, kind, start), end, number) => {
            let arguments = [id, kind, start, end, number];
            call(to, INSERT, "tatp_insert_call_forwarding", &arguments);
        }
        Home::DeleteCallForwarding((id, kind, start)) => {
            call(
                to,
                DELETE,
                "tatp_delete_call_forwarding",
                &[id, kind, start],
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_add_what_their_request_is_about() {
        assert_eq!(GAIN(VOTE, Value::Number(0)), 1);
        assert_eq!(GAIN(VOTE, Value::Number(1)), 0);
        assert_eq!(GAIN(SPEND, Value::Nil), 0);
        assert_eq!(GAIN(CHECK, Value::Number(600)), -600);
        assert_eq!(GAIN(OTHER, Value::Number(5)), 0);
    }
}
