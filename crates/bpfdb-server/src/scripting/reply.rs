//! A script's result as a reply to its client.

use bpfdb_lua::{Reply, text_of_double};

use crate::protocol::reply::Replies;

/// Writes it in the client's protocol.
pub(crate) fn write(replies: &mut Replies, reply: &Reply) {
    match reply {
        Reply::Nil => replies.null(),
        Reply::Integer(value) => replies.integer(*value),
        Reply::Bulk(bytes) => replies.bulk(bytes),
        Reply::Status(text) => replies.status(text),
        Reply::Error(text) => replies.error(text),
        Reply::Array(all) => {
            replies.array(all.len());
            write_all(replies, all);
        }
        Reply::Map(pairs) => {
            replies.map(pairs.len());
            for (key, value) in pairs {
                write(replies, key);
                write(replies, value);
            }
        }
        Reply::Set(all) => {
            replies.set(all.len());
            write_all(replies, all);
        }
        Reply::Double(value) => replies.double(&text_of_double(*value)),
        Reply::Boolean(value) => replies.boolean(*value),
        Reply::BigNumber(digits) => replies.big_number(digits),
        Reply::Verbatim(format, text) => replies.verbatim(format, text),
    }
}

fn write_all(replies: &mut Replies, all: &[Reply]) {
    for one in all {
        write(replies, one);
    }
}
