//! Tokens move between sets, and points between fields of hashes and between elements of sorted sets.
//! At every moment each token is in one set, and the points of a type come to nothing together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bpfdb_tests::random::Random;
use bpfdb_tests::server::procedures::{ask, parsed};
use bpfdb_tests::server::{Client, Reply, words};

use super::is_refused;
use crate::isolation::paths::{Path, Served};
use crate::isolation::{SHORT, alone, seed, volume};

/// Beyond what Redis keeps compact.
const TOKENS: usize = 200;
const SETS: usize = 3;
const PLAYERS: usize = 4;
const MOVES: usize = 75;

const LOOKS: [&str; SETS + 4] = [
    "SMEMBERS tokens:0",
    "SMEMBERS tokens:1",
    "SMEMBERS tokens:2",
    "HVALS points:0",
    "HVALS points:1",
    "ZRANGE ranks:0 0 -1 WITHSCORES",
    "ZRANGE ranks:1 0 -1 WITHSCORES",
];

struct Player {
    client: Client,
    random: Random,
    done: usize,
    refused: usize,
}

impl Player {
    fn ask(&mut self, command: &str) -> Reply {
        parsed(self.client.say(command).as_bytes())
    }

    fn one_of(&mut self, name: &str, count: usize) -> String {
        format!("{name}:{}", self.random.below(count))
    }

    fn token(&mut self) -> usize {
        self.random.below(TOKENS)
    }

    fn play(&mut self) -> Result<(), String> {
        let done = match self.random.below(5) {
            0 => self.move_token(),
            1 => self.move_token_in_steps(),
            2 => self.pop_token(),
            3 => self.move_points_in_steps(),
            _ => self.move_points_in_a_block(),
        }?;
        match done {
            true => self.done += 1,
            false => self.refused += 1,
        }
        Ok(())
    }

    fn move_token(&mut self) -> Result<bool, String> {
        let [from, to] = [(); 2].map(|()| self.one_of("tokens", SETS));
        let token = self.token();
        let reply = self.ask(&format!("SMOVE {from} {to} {token}"));
        accepted(&reply)
    }

    /// Looks whether the token is there, takes it, and puts it down.
    fn move_token_in_steps(&mut self) -> Result<bool, String> {
        let [from, to] = [(); 2].map(|()| self.one_of("tokens", SETS));
        let token = self.token();
        self.in_steps(|player| {
            let is_there = player.ask(&format!("SISMEMBER {from} {token}"));
            if !accepted(&is_there)? || is_there.number() == Some(0) {
                return Ok(!is_there.is_error());
            }
            let taken = player.ask(&format!("SREM {from} {token}"));
            if accepted(&taken)? && taken.number() != Some(1) {
                return Err(format!("{token} was in {from}, then {taken}"));
            }
            Ok(accepted(&taken)? && accepted(&player.ask(&format!("SADD {to} {token}")))?)
        })
    }

    /// Takes what the server chooses, and puts it into another set.
    fn pop_token(&mut self) -> Result<bool, String> {
        let [from, to] = [(); 2].map(|()| self.one_of("tokens", SETS));
        self.in_steps(|player| {
            let token = player.ask(&format!("SPOP {from}"));
            if !accepted(&token)? || token.is_nil {
                return Ok(!token.is_error());
            }
            let token = String::from_utf8_lossy(&token.text).into_owned();
            accepted(&player.ask(&format!("SADD {to} {token}")))
        })
    }

    fn changes(&mut self) -> [String; 4] {
        let amount = self.random.below(100) as i64;
        let [from, to] = [(); 2].map(|()| self.one_of("points", 2));
        let [lower, higher] = [(); 2].map(|()| self.one_of("ranks", 2));
        let [a, b, c, d] = [(); 4].map(|()| self.random.below(150));
        [
            format!("HINCRBY {from} field:{a} {}", -amount),
            format!("ZINCRBY {lower} {} element:{c}", -amount),
            format!("HINCRBY {to} field:{b} {amount}"),
            format!("ZINCRBY {higher} {amount} element:{d}"),
        ]
    }

    fn move_points_in_steps(&mut self) -> Result<bool, String> {
        let changes = self.changes();
        self.in_steps(|player| {
            for change in &changes {
                if !accepted(&player.ask(change))? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn move_points_in_a_block(&mut self) -> Result<bool, String> {
        let end = if self.random.one_in(5) {
            "DISCARD"
        } else {
            "EXEC"
        };
        let mut block = vec!["MULTI".to_owned()];
        block.extend(self.changes());
        block.push(end.to_owned());
        let message: Vec<u8> = block.iter().flat_map(|command| words(command)).collect();
        self.client.send(&message);
        let replies: Vec<Reply> = (block.iter())
            .map(|_| parsed(&self.client.reply()))
            .collect();
        let last = replies.last().expect("that of EXEC");
        match last.items.iter().find(|result| result.is_error()) {
            Some(wrong) => Err(format!("the server says {wrong}")),
            None => accepted(last),
        }
    }

    /// Between BEGIN and COMMIT, or ROLLBACK. False if it was refused.
    fn in_steps(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<bool, String>,
    ) -> Result<bool, String> {
        self.ask("BEGIN");
        let done = work(self)?;
        let end = match done && !self.random.one_in(5) {
            true => "COMMIT",
            false => "ROLLBACK",
        };
        let ended = self.ask(end);
        match ended.is("OK") {
            true => Ok(done),
            false => Err(format!("{end}: {ended}")),
        }
    }
}

/// False if others were in the way. Any other error is a finding.
fn accepted(reply: &Reply) -> Result<bool, String> {
    match reply.is_error() {
        true if is_refused(reply) => Ok(false),
        true => Err(format!("the server says {reply}")),
        false => Ok(true),
    }
}

/// All that is there, in a block or in a read-only transaction.
fn look(client: &mut Client, in_a_block: bool) -> Vec<Reply> {
    let (begin, end) = match in_a_block {
        true => ("MULTI", "EXEC"),
        false => ("BEGIN READ ONLY", "COMMIT"),
    };
    let commands = [&[begin][..], &LOOKS, &[end]].concat();
    let mut replies: Vec<Reply> = commands
        .iter()
        .map(|command| {
            parsed(&client.ask(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
        })
        .collect();
    match in_a_block {
        // It may have met others. It is asked again.
        true if is_refused(replies.last().expect("that of EXEC")) => look(client, in_a_block),
        true => replies.pop().expect("that of EXEC").items,
        false => replies[1..=LOOKS.len()].to_vec(),
    }
}

fn check(replies: &[Reply]) -> Result<(), String> {
    let (tokens, points) = replies.split_at_checked(SETS).ok_or("too few replies")?;
    let all: Vec<&[u8]> = (tokens.iter())
        .flat_map(|set| &set.items)
        .map(|token| token.text.as_slice())
        .collect();
    let distinct: BTreeSet<&[u8]> = all.iter().copied().collect();
    if (all.len(), distinct.len()) != (TOKENS, TOKENS) {
        return Err(format!(
            "{} tokens, {} of them different",
            all.len(),
            distinct.len()
        ));
    }
    let sum = |numbers: &mut dyn Iterator<Item = &Reply>| -> Result<i64, String> {
        let number = |reply: &Reply| reply.number().ok_or(format!("{reply} is no number"));
        numbers.map(number).sum()
    };
    let (hashes, sorted) = points.split_at(2);
    let of_hashes = sum(&mut hashes.iter().flat_map(|hash| &hash.items))?;
    let of_sorted = sum(&mut (sorted.iter()).flat_map(|set| set.items.iter().skip(1).step_by(2)))?;
    match (of_hashes, of_sorted) {
        (0, 0) => Ok(()),
        sums => Err(format!("the points of hashes and of sorted sets: {sums:?}")),
    }
}

fn conserve(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    let keys = "tokens:0 tokens:1 tokens:2 points:0 points:1 ranks:0 ranks:1";
    let mut client = served.client();
    client.say(&format!("DEL {keys}"));
    for token in 0..TOKENS {
        ask(&mut client, &["SADD", "tokens:0", &token.to_string()]);
    }
    let playing = AtomicUsize::new(PLAYERS);
    let failed = AtomicBool::new(false);
    let (players, audits) = thread::scope(|scope| {
        let players: Vec<_> = (0..PLAYERS)
            .map(|number| {
                let mut player = Player {
                    client: served.client(),
                    random: Random::new(seed(scale) + number as u64),
                    done: 0,
                    refused: 0,
                };
                let (playing, failed) = (&playing, &failed);
                scope.spawn(move || {
                    let moves = 0..volume(MOVES * scale);
                    let played = moves
                        .take_while(|_| !failed.load(Ordering::Relaxed))
                        .try_for_each(|_| player.play());
                    playing.fetch_sub(1, Ordering::Relaxed);
                    played.map(|()| player)
                })
            })
            .collect();
        let mut audits = 0;
        let mut found = Ok(());
        while found.is_ok() && playing.load(Ordering::Relaxed) > 0 {
            found = check(&look(&mut client, audits % 2 == 0));
            audits += 1;
        }
        failed.store(found.is_err(), Ordering::Relaxed);
        let players = players
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        let players: Result<Vec<Player>, String> = players.collect();
        (found.and(players), audits)
    });
    let seed = seed(scale);
    let players = players.unwrap_or_else(|error| panic!("BPFDB_SEED={seed}: {error}"));
    check(&look(&mut client, true)).unwrap_or_else(|error| panic!("at the end: {error}"));
    client.say(&format!("DEL {keys}"));
    let [done, refused]: [usize; 2] = [
        |player: &Player| player.done,
        |player: &Player| player.refused,
    ]
    .map(|of| players.iter().map(of).sum());
    println!("{path:?}: {done} done, {refused} refused, {audits} audits");
    assert!(done > 0 && audits > 0);
    drop(players);
    served.check_nothing_held();
}

#[test]
fn tokens_and_points_are_conserved_over_tcp() {
    conserve(Path::Tcp, SHORT);
}

#[test]
fn tokens_and_points_are_conserved_in_send() {
    conserve(Path::Send, SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn soak_tokens_and_points_are_conserved() {
    for path in [Path::Tcp, Path::Send, Path::Daemon] {
        conserve(path, 120);
    }
}
