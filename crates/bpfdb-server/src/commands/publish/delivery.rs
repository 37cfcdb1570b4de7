//! From the client that publishes to those that have subscribed.

use bpfdb::Engine;

use super::super::atomic;
use super::super::context::push_to;
use super::super::prelude::*;
use crate::connection::subscribed::{Kind, Message, Staged};
use crate::connection::table::ConnectionTable;
use crate::instance::Instance;
use crate::protocol::reply::{self, Protocol, Replies};
use crate::settings::limits::MESSAGE_MAX;
use crate::values::glob;

/// Sends a message now, or when the open transaction commits; with the number of its
/// receivers.
pub(super) fn publish(context: &mut Context<'_>, message: Message) -> Result<usize, Failure> {
    context
        .instance
        .statistics
        .numbers
        .messages_published
        .increment();
    if !atomic::is_open(context.session) {
        return Ok(deliver(context, &message));
    }
    if atomic::has_failed(context.session) {
        return Err(Failure::Text(reply::failed().to_vec()));
    }
    let kept = context.connection.mail.memory() + message.channel.len() + message.text.len();
    if kept > MESSAGE_MAX {
        return Err("ERR the messages of this transaction take too much memory".into());
    }
    let received = receivers(context.instance, &message);
    context.connection.mail.stage(Staged::Message(message));
    Ok(received.iter().map(|received| received.by.len()).sum())
}

/// Adds a message to what is to be sent to each receiver.
pub(crate) fn send(context: &mut Context<'_>, message: &Message) {
    deliver(context, message);
}

/// The same while no client is being served.
pub(crate) fn send_for_nobody(
    engine: &Engine,
    instance: &Instance,
    connections: &mut ConnectionTable,
    message: &Message,
) {
    let delivered = deliver_by(receivers(instance, message), message, |index, forms| {
        let protocol = connections.get(index).map(|other| other.replies.protocol());
        if let Some(protocol) = protocol {
            push_to(engine, instance, connections, index, forms.of(protocol));
        }
    });
    instance
        .statistics
        .numbers
        .messages_delivered
        .add(delivered as u64);
}

/// At the end of a request whose reply begins there: what the client has received by it itself comes
/// before. What was published in a transaction that has ended otherwise is dropped.
pub(crate) fn conclude(context: &mut Context<'_>, start: usize) {
    let [own, behind] = context.connection.mail.take_own();
    if !own.is_empty() {
        context.replies.insert(start, own);
    }
    context.replies.append(&behind);
    if context.connection.mail.has_staged() && !atomic::is_open(context.session) {
        context.connection.mail.take_staged();
    }
}

/// The receivers of a message by one name: the channel's own, or a pattern.
struct Received {
    pattern: Option<Vec<u8>>,
    by: Vec<u32>,
}

fn receivers(instance: &Instance, message: &Message) -> Vec<Received> {
    let all = &instance.subscriptions;
    let (kind, patterns) = match message.is_of_shard {
        true => (Kind::Shard, None),
        false => (Kind::Channel, Some(all.all(Kind::Pattern))),
    };
    let exact = Received {
        pattern: None,
        by: all.receivers(kind, &message.channel).collect(),
    };
    let patterns = patterns.into_iter().flatten();
    let matching = patterns.filter(|(pattern, _)| glob::matches(pattern, &message.channel));
    let matching = matching.map(|(pattern, by)| Received {
        pattern: Some(pattern.to_vec()),
        by: by.collect(),
    });
    std::iter::once(exact).chain(matching).collect()
}

/// Adds a message to what is to be sent to each receiver; with how many there are.
fn deliver(context: &mut Context<'_>, message: &Message) -> usize {
    let received = receivers(context.instance, message);
    let delivered = deliver_by(received, message, |index, forms| {
        send_to(context, index, forms);
    });
    let statistics = &context.instance.statistics;
    statistics.numbers.messages_delivered.add(delivered as u64);
    delivered
}

/// Has `send` send a message to each receiver; with how many there are.
fn deliver_by(
    received: Vec<Received>,
    message: &Message,
    mut send: impl FnMut(u32, &Forms),
) -> usize {
    let mut delivered = 0;
    for Received { pattern, by } in received {
        if by.is_empty() {
            continue;
        }
        let forms = Forms::new(message, pattern.as_deref());
        delivered += by.len();
        for index in by {
            send(index, &forms);
        }
    }
    delivered
}

/// The client that is being served is in no table.
fn send_to(context: &mut Context<'_>, index: u32, forms: &Forms) {
    if index == context.session.index() {
        let (protocol, most) = (context.replies.protocol(), context.own_most());
        let is_kept = (context.connection.mail).receive(forms.of(protocol), most);
        context.connection.close |= !is_kept;
        return;
    }
    let protocol = context
        .others
        .get(index)
        .map(|other| other.replies.protocol());
    if let Some(protocol) = protocol {
        context.push(index, forms.of(protocol));
    }
}

/// A message as it is sent in each protocol: the frame differs by its marker only.
struct Forms {
    resp2: Vec<u8>,
    resp3: Vec<u8>,
}

impl Forms {
    fn new(message: &Message, pattern: Option<&[u8]>) -> Self {
        let [resp2, resp3] = [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut replies = Replies::new(protocol);
            write(&mut replies, message, pattern);
            replies.take()
        });
        Self { resp2, resp3 }
    }

    fn of(&self, protocol: Protocol) -> &[u8] {
        match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => &self.resp3,
        }
    }
}

fn write(replies: &mut Replies, message: &Message, pattern: Option<&[u8]>) {
    match pattern {
        Some(pattern) => {
            replies.push(4);
            replies.bulk("pmessage");
            replies.bulk(pattern);
        }
        None => {
            replies.push(3);
            replies.bulk(if message.is_of_shard {
                "smessage"
            } else {
                "message"
            });
        }
    }
    replies.bulk(&message.channel);
    replies.bulk(&message.text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(is_of_shard: bool, pattern: Option<&[u8]>) -> [String; 2] {
        let message = Message {
            channel: b"news".to_vec(),
            text: b"a\r\n".to_vec(),
            is_of_shard,
        };
        let forms = Forms::new(&message, pattern);
        [forms.resp2, forms.resp3].map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn the_protocols_differ_by_the_marker() {
        for (is_of_shard, pattern, rest) in [
            (false, None, "3\r\n$7\r\nmessage\r\n"),
            (true, None, "3\r\n$8\r\nsmessage\r\n"),
            (
                false,
                Some(&b"n*"[..]),
                "4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n",
            ),
        ] {
            let rest = format!("{rest}$4\r\nnews\r\n$3\r\na\r\n\r\n");
            let expected = [format!("*{rest}"), format!(">{rest}")];
            assert_eq!(forms(is_of_shard, pattern), expected);
        }
    }
}
