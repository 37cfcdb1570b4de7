//! Leaves at the ends of a list, which come and go with its elements.

use bpfdb_tests::server::procedures::back_to_kernel;
use bpfdb_tests::server::{Client, kernel_answers, kernel_calls, words};

use super::{Both, MANY, fill};

/// Elements of many leaves.
const PUSHED: usize = 3000;
/// Requests of a message.
const PIPELINE: usize = 15;

fn element(n: usize) -> String {
    format!("an_element_that_takes_some_room:{n}")
}

/// Says all of them, some in each message; how many the kernel has answered.
#[track_caller]
fn say_all(client: &mut Client, command: &str, requests: &[String], replies: &[String]) -> u64 {
    let before = kernel_calls(client, command);
    back_to_kernel(client);
    for (requests, replies) in requests.chunks(PIPELINE).zip(replies.chunks(PIPELINE)) {
        let message: Vec<Vec<u8>> = requests.iter().map(|request| words(request)).collect();
        client.send(&message.concat());
        for reply in replies {
            assert_eq!(String::from_utf8_lossy(&client.reply()), *reply);
        }
    }
    kernel_calls(client, command) - before
}

fn bulk(element: &str) -> String {
    format!("${}\r\n{element}\r\n", element.len())
}

/// The kernel answers nearly all of them, and what it leaves is a list to the daemon.
#[test]
fn leaves_come_and_go() {
    let both = Both::start();
    let (mut client, mut daemon) = (both.kernel(), both.daemon());
    fill(&mut client);
    // What comes to the daemon nevertheless has lost its processor, and takes the rest of its message along. By leaf it
    // would be ten times as much.
    let most = if kernel_answers() {
        (PUSHED - 4 * PIPELINE) as u64
    } else {
        0
    };
    for (push, pop, back) in [("LPUSH", "LPOP", "RPOP"), ("RPUSH", "RPOP", "LPOP")] {
        let (pushes, lengths): (Vec<String>, Vec<String>) = (0..PUSHED)
            .map(|n| {
                (
                    format!("{push} l {}", element(n)),
                    format!(":{}\r\n", MANY + n + 1),
                )
            })
            .unzip();
        let name = push.to_ascii_lowercase();
        assert!(say_all(&mut client, &name, &pushes, &lengths) >= most);
        // In the middle of what was pushed, where leaves are full, the daemon puts one, and takes it again.
        let place = if push == "LPUSH" {
            PUSHED / 2
        } else {
            MANY + PUSHED / 2
        };
        let middle = daemon.say(&format!("LINDEX l {place}"));
        let pivot = middle.lines().nth(1).expect("an element").to_owned();
        let longer = format!(":{}\r\n", MANY + PUSHED + 1);
        assert_eq!(daemon.say(&format!("LINSERT l BEFORE {pivot} new")), longer);
        assert_eq!(daemon.say(&format!("LINDEX l {place}")), bulk("new"));
        assert_eq!(daemon.say(&format!("LINDEX l {}", place + 1)), middle);
        assert_eq!(daemon.say("LREM l 1 new"), ":1\r\n");
        // And back, from the same end.
        let pops = vec![format!("{pop} l"); PUSHED];
        let popped: Vec<String> = (0..PUSHED).rev().map(|n| bulk(&element(n))).collect();
        let name = pop.to_ascii_lowercase();
        assert!(say_all(&mut client, &name, &pops, &popped) >= most);
        assert_eq!(daemon.say("LLEN l"), format!(":{MANY}\r\n"));
        // The other end is as it was.
        let other = if back == "RPOP" {
            "LINDEX l -1"
        } else {
            "LINDEX l 0"
        };
        let expected = if back == "RPOP" { "e3999" } else { "e0" };
        assert_eq!(client.say(other), bulk(expected));
    }
}

/// A queue of the kernel's moves through its leaves: in at one end, out at the other, to the last but a few elements.
#[test]
fn a_queue_moves_on() {
    let both = Both::start();
    let (mut client, mut daemon) = (both.kernel(), both.daemon());
    fill(&mut client);
    let before = kernel_calls(&mut client, "rpop");
    back_to_kernel(&mut client);
    let mut expected: Vec<String> = (0..MANY).rev().map(|n| format!("e{n}")).collect();
    expected.extend((0..PUSHED).map(|n| format!("in:{n}")));
    for n in 0..PUSHED {
        let message = [
            words(&format!("LPUSH l in:{n}")),
            words("RPOP l"),
            words("RPOP l"),
        ];
        client.send(&message.concat());
        let length = MANY - n + 1;
        assert_eq!(
            String::from_utf8_lossy(&client.reply()),
            format!(":{length}\r\n")
        );
        for place in [2 * n, 2 * n + 1] {
            let reply = client.reply();
            assert_eq!(String::from_utf8_lossy(&reply), bulk(&expected[place]));
        }
    }
    let left: Vec<&String> = expected[2 * PUSHED..].iter().rev().collect();
    let count = daemon.say("LLEN l");
    assert_eq!(count, format!(":{}\r\n", left.len()));
    let popped = kernel_calls(&mut client, "rpop") - before;
    if kernel_answers() {
        // The daemon has those for which a page would have no child left.
        assert!(popped > 2 * PUSHED as u64 - 50, "{popped}");
    }
    // What is left is as a list should be.
    for (n, element) in left.iter().enumerate().step_by(97) {
        assert_eq!(daemon.say(&format!("LINDEX l {n}")), bulk(element));
    }
    assert_eq!(daemon.say("DEL l"), ":1\r\n");
}
