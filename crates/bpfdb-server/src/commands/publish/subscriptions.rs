//! Changes of what a client has subscribed to, each with a reply of its own.

use super::super::prelude::*;
use crate::connection::subscribed::Kind;

/// SUBSCRIBE and its kin.
pub(super) fn subscribe(
    context: &mut Context<'_>,
    kind: Kind,
    word: &str,
    names: &[Vec<u8>],
) -> Outcome {
    let index = context.session.index();
    let expected = context.instance.expect_messages();
    expected.map_err(|error| format!("ERR messages would be lost: {error}"))?;
    for name in names {
        if context.instance.subscriptions.add(index, kind, name) {
            context.connection.subscribed.add(kind, name);
        }
        confirm(context, kind, word, Some(name));
    }
    end(context);
    Ok(())
}

/// UNSUBSCRIBE and its kin: without names, from all of this kind.
pub(super) fn unsubscribe(
    context: &mut Context<'_>,
    kind: Kind,
    word: &str,
    names: &[Vec<u8>],
) -> Outcome {
    if !names.is_empty() {
        for name in names {
            remove(context, kind, name);
            confirm(context, kind, word, Some(name));
        }
    } else if context.connection.subscribed.count(kind) == 0 {
        confirm(context, kind, word, None);
    } else {
        for name in context
            .instance
            .subscriptions
            .of(context.session.index(), kind)
        {
            remove(context, kind, &name);
            confirm(context, kind, word, Some(&name));
        }
    }
    end(context);
    Ok(())
}

/// RESET: nothing is replied.
pub(crate) fn unsubscribe_all(context: &mut Context<'_>) {
    context.connection.subscribed = Default::default();
    context.instance.forget(context.session.index());
}

fn remove(context: &mut Context<'_>, kind: Kind, name: &[u8]) {
    let index = context.session.index();
    if context.instance.subscriptions.remove(index, kind, name) {
        context.connection.subscribed.remove(kind, name);
    }
}

fn confirm(context: &mut Context<'_>, kind: Kind, word: &str, name: Option<&[u8]>) {
    let number = context.connection.subscribed.count_with(kind);
    context.replies.push(3);
    context.replies.bulk(word);
    context.replies.bulk_or_null(name);
    context.replies.integer(number.into());
}

fn end(context: &mut Context<'_>) {
    context.connection.is_pushed = true;
    context.instance.note_subscriptions();
}
