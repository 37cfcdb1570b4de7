//! A stream beside a list of its entries, and bytes that were changed.

use proptest::collection::vec;
use proptest::prelude::*;

use super::blocks::Inline;
use super::groups::Group;
use super::*;

type Model = Vec<(Id, Vec<Vec<u8>>)>;

/// What is done to a stream. A number of a new entry is how many milliseconds it is behind the last one.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Add(u64, Vec<Vec<u8>>),
    Delete(prop::sample::Index),
    Trim(u64, bool),
    TrimFrom(prop::sample::Index, bool),
    /// The last entry that is there becomes the one that was given last.
    SetBack,
    Write,
}

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = prop_oneof![
        3 => Just(b"field".to_vec()),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        1 => vec(any::<u8>(), 0..600),
    ];
    vec((word.clone(), word), 1..4).prop_map(|pairs| {
        let words = pairs.into_iter().flat_map(|(field, value)| [field, value]);
        words.collect()
    })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u64, words()).prop_map(|(gap, words)| Step::Add(gap, words)),
        2 => any::<prop::sample::Index>().prop_map(Step::Delete),
        1 => (0..60_u64, any::<bool>()).prop_map(|(keep, exact)| Step::Trim(keep, exact)),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, exact)| Step::TrimFrom(at, exact)),
        1 => Just(Step::SetBack),
        1 => Just(Step::Write),
    ]
}

fn entries(
    stream: &mut Stream<'_, Inline<'_>>,
    ids: RangeInclusive<Id>,
    is_reversed: bool,
) -> Model {
    let mut all = Vec::new();
    stream
        .range(ids, is_reversed, |entry| {
            let texts = entry
                .pairs()
                .flat_map(|(field, value)| [field.text(), value.text()]);
            all.push((entry.id, texts.map(|text| text.into_owned()).collect()));
            Ok(true)
        })
        .expect("a sound stream");
    all
}

fn trim(stream: &mut Stream<'_, Inline<'_>>, model: &mut Model, keep: Keep, is_exact: bool) {
    let trim = Trim {
        keep,
        is_approximate: !is_exact,
        limit: 0,
    };
    let removed = stream.trim(&trim).expect("sound") as usize;
    let most = match keep {
        Keep::Entries(keep) => model.len().saturating_sub(keep as usize),
        Keep::From(from) => model.iter().filter(|(id, _)| *id < from).count(),
    };
    assert!(removed == most || (!is_exact && removed < most));
    model.drain(..removed);
}

proptest! {
    #[test]
    fn a_stream_has_the_entries_that_were_added(steps in vec(step(), 1..150)) {
        let mut kept = value::write(&Stream::default());
        let mut model = Model::new();
        let mut added = 0;
        let mut steps = steps.into_iter();
        loop {
            let mut stream = value::read(&kept).expect("a stream");
            let mut goes_on = false;
            for step in steps.by_ref() {
                match step {
                    Step::Add(gap, words) => {
                        let last = stream.state.last;
                        let id = Id::new(last.ms + gap, if gap == 0 { last.seq + 1 } else { 0 });
                        stream.append(id, &words).expect("sound");
                        model.push((id, words));
                        added += 1;
                    }
                    Step::Delete(at) if !model.is_empty() => {
                        let (id, _) = model.remove(at.index(model.len()));
                        prop_assert!(stream.delete(id).expect("sound"));
                        prop_assert!(!stream.delete(id).expect("sound"));
                    }
                    Step::Trim(keep, is_exact) => trim(&mut stream, &mut model, Keep::Entries(keep), is_exact),
                    Step::TrimFrom(at, is_exact) if !model.is_empty() => {
                        let (id, _) = model[at.index(model.len())];
                        trim(&mut stream, &mut model, Keep::From(id), is_exact);
                    }
                    Step::SetBack => {
                        let last = model.last().map_or(Id::MIN, |(id, _)| *id);
                        stream.set_last(last).expect("sound");
                    }
                    Step::Write => { goes_on = true; break; }
                    _ => {}
                }
            }
            prop_assert_eq!(stream.state.length as usize, model.len());
            prop_assert_eq!(stream.state.added, added);
            prop_assert_eq!(stream.state.first, model.first().map_or(Id::MIN, |(id, _)| *id));
            prop_assert_eq!(stream.last_entry().expect("sound"), model.last().map(|(id, _)| *id));
            prop_assert_eq!(&entries(&mut stream, Id::MIN..=Id::MAX, false), &model);
            let middle = model.get(model.len() / 2).map_or(Id::MIN, |(id, _)| *id);
            let wanted: Model = model.iter().filter(|(id, _)| *id >= middle).rev().cloned().collect();
            prop_assert_eq!(entries(&mut stream, middle..=Id::MAX, true), wanted);
            let wanted: Model = model.iter().filter(|(id, _)| *id <= middle).cloned().collect();
            prop_assert_eq!(entries(&mut stream, Id::MIN..=middle, false), wanted);
            let bytes = value::write(&stream);
            prop_assert_eq!(bytes.len(), value::written_len(&stream));
            prop_assert_eq!(value::check(&bytes), Ok(()));
            prop_assert_eq!(from_words(&bytes), (stream.state, model.clone()));
            kept = bytes;
            if !goes_on { break; }
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_read(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = value::check(&bytes);
        if let Ok(mut stream) = value::read(&bytes) {
            let _ = stream.range(Id::MIN..=Id::MAX, true, |_| Ok(true));
            let _ = stream.delete(Id::new(3, 0));
            let _ = stream.trim(&Trim { keep: Keep::Entries(1), is_approximate: false, limit: 0 });
            let _ = stream.append(Id::MAX, &[b"f".to_vec(), b"v".to_vec()]);
        }
    }
}

/// A stream with entries, a deleted one, and a group with two consumers.
fn sample() -> Vec<u8> {
    let mut stream: Stream<'_, Inline<'_>> = Stream::default();
    for ms in 1..=5 {
        let words = [b"field".to_vec(), ms.to_string().into_bytes()];
        stream.append(Id::new(ms, 0), &words).expect("sound");
    }
    stream.delete(Id::new(3, 0)).expect("sound");
    let mut group = Group::new(Id::new(2, 0), Some(2));
    group.see(b"a", 10);
    group.see(b"b", 20);
    group.deliver(Id::new(1, 0), b"a", 30, 1);
    group.deliver(Id::new(2, 0), b"b", 40, 2);
    stream.groups().expect("none").insert(b"g".to_vec(), group);
    value::write(&stream)
}

fn words_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let given = words::each(bytes, |word| {
        all.push(word.to_vec());
        Ok::<_, Malformed>(())
    });
    given.expect("a stream");
    all
}

/// What a stream has that was made of the words of one.
fn from_words(bytes: &[u8]) -> (State, Model) {
    let words = words_of(bytes);
    let bytes = words::read(words.iter().map(|word| Ok(&word[..]))).expect("words of a stream");
    assert_eq!(value::check(&bytes), Ok(()));
    let mut stream = value::read(&bytes).expect("a stream");
    let all = entries(&mut stream, Id::MIN..=Id::MAX, false);
    (stream.state, all)
}

#[test]
fn words_are_as_documented() {
    let words = words_of(&sample());
    let text = String::from_utf8(words.join(&b' ')).expect("text");
    let entries = [1, 2, 4, 5].map(|ms| format!("entry {ms}-0 fields 1 field {ms}"));
    let expected = format!(
        "last 5-0 deleted 3-0 added 5 {} group g last 2-0 read 2 consumer a seen 10 consumer b seen 20 \
         pending 1-0 consumer a delivered 30 times 1 pending 2-0 consumer b delivered 40 times 2",
        entries.join(" ")
    );
    assert_eq!(text, expected);
    let again = words::read(words.iter().map(|word| Ok(&word[..]))).expect("words of a stream");
    assert_eq!(words_of(&again), words);
    for at in 0..words.len() {
        // Without a word, and with another one; what is no name may be another.
        let cut = words[..at].iter().map(|word| Ok(&word[..]));
        let whole = at <= 30 && at.is_multiple_of(6);
        let is_end = whole
            || ["consumer", "pending"]
                .iter()
                .any(|name| words[at] == name.as_bytes());
        assert!(words::read(cut).is_err() || is_end, "{at}");
    }
}

/// XSETID may go back behind entries that were deleted and are still in their block.
#[test]
fn entries_come_behind_an_identifier_that_was_set_back() {
    let words = [b"field".to_vec(), b"value".to_vec()];
    let filled = || {
        let mut stream: Stream<'_, Inline<'_>> = Stream::default();
        for ms in 1..=5 {
            stream.append(Id::new(ms, 0), &words).expect("sound");
        }
        stream.delete(Id::new(4, 0)).expect("sound");
        stream.delete(Id::new(5, 0)).expect("sound");
        stream
    };
    let ids = |stream: &mut Stream<'_, Inline<'_>>| -> Vec<Id> {
        assert_eq!(value::check(&value::write(stream)), Ok(()));
        let all = entries(stream, Id::MIN..=Id::MAX, false);
        all.into_iter().map(|(id, _)| id).collect()
    };
    let of = |ms: u64| Id::new(ms, 0);
    for last in [Id::new(3, 0), Id::new(4, 0), Id::new(4, 7)] {
        let mut stream = filled();
        stream.set_last(last).expect("sound");
        assert_eq!(ids(&mut stream), [1, 2, 3].map(of));
        let next = last.next().expect("one behind it");
        stream.append(next, &words).expect("sound");
        assert_eq!(ids(&mut stream), [of(1), of(2), of(3), next]);
        assert!(stream.delete(next).expect("sound"));
    }
    // A block that has lost all its entries, the last ones by XDEL.
    let mut stream = filled();
    let trim = Trim {
        keep: Keep::From(Id::new(4, 0)),
        is_approximate: false,
        limit: 0,
    };
    assert_eq!(stream.trim(&trim).expect("sound"), 3);
    assert_eq!(stream.blocks.iter().len(), 1);
    stream.set_last(Id::new(0, 1)).expect("sound");
    stream.append(Id::new(0, 2), &words).expect("sound");
    assert_eq!(ids(&mut stream), [Id::new(0, 2)]);
}

#[test]
fn groups_come_back() {
    let bytes = sample();
    assert_eq!(value::check(&bytes), Ok(()));
    let mut stream = value::read(&bytes).expect("a stream");
    let group = &stream.groups().expect("groups")[&b"g"[..]];
    assert_eq!((group.last, group.read), (Id::new(2, 0), Some(2)));
    let pending: Vec<_> = group.pending_of(b"b", Id::MIN).collect();
    let [(id, delivery)] = pending[..] else {
        panic!("{pending:?}");
    };
    assert_eq!(
        (id, delivery.time, delivery.deliveries),
        (Id::new(2, 0), 40, 2)
    );
    assert_eq!(group.consumer(b"a").map(|consumer| consumer.seen), Some(10));
    assert_eq!(value::write(&stream), bytes);
}

#[test]
fn a_stream_that_was_cut_is_refused() {
    let bytes = sample();
    for len in 0..bytes.len() {
        assert!(value::check(&bytes[..len]).is_err(), "{len}");
    }
    assert!(value::check(&[&bytes[..], b"x"].concat()).is_err());
}

#[test]
fn the_head_is_as_documented() {
    let bytes = sample();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    assert_eq!([0, 8, 24, 40, 56].map(number), [4, 5, 1, 3, 5]);
    assert_eq!(value::read_state(&bytes).expect("a head").length, 4);
    assert_eq!(bytes[68..72], [1, 0, 0, 0]);
    let place = value::HEAD + bytes[64] as usize;
    assert_eq!(number(place), 1);
    let len = u32::from_le_bytes(
        bytes[place + 16..place + 20]
            .try_into()
            .expect("four bytes"),
    );
    assert_eq!(place + 20 + len as usize, bytes.len());
}

/// Made by Redis 7.0: `XADD s 1-0 a 1 b x`, `XADD s 1-1 a 2 b y`, `XADD s 2-0 c 3`, `XDEL s 1-1`.
#[test]
fn blocks_are_those_of_redis() {
    let mut stream: Stream<'_, Inline<'_>> = Stream::default();
    let words = |text: &str| -> Vec<Vec<u8>> { text.split(' ').map(Into::into).collect() };
    stream
        .append(Id::new(1, 0), &words("a 1 b x"))
        .expect("sound");
    stream
        .append(Id::new(1, 1), &words("a 2 b y"))
        .expect("sound");
    stream.append(Id::new(2, 0), &words("c 3")).expect("sound");
    stream.delete(Id::new(1, 1)).expect("sound");
    let (_, bytes) = stream.blocks.iter().next().expect("a block");
    assert_eq!(
        bytes.escape_ascii().to_string(),
        OF_REDIS.escape_ascii().to_string()
    );
}

const OF_REDIS: &[u8] = b">\x00\x00\x00\x19\x00\x02\x01\x01\x01\x02\x01\x81a\x02\x81b\x02\x00\x01\x02\x01\x00\x01\x00\x01\x01\x01\x81x\x02\
                          \x05\x01\x03\x01\x00\x01\x01\x01\x02\x01\x81y\x02\x05\x01\x00\x01\x01\x01\x00\x01\x01\x01\x81c\x02\x03\x01\x06\x01\xff";

/// Integers of a longer form than they need, which no writer writes: what is stored after a change is sound.
#[test]
fn counts_of_a_longer_form_are_replaced() {
    let (start, rest) = OF_REDIS.split_at(crate::listpack::HEADER + 4);
    assert_eq!(start[6..], [2, 1, 1, 1]);
    let long = |number: u8| [0xf1, number, 0, 3];
    let mut bytes = [&start[..6], &long(2), &long(1), rest].concat();
    bytes[0] = bytes.len() as u8;
    let id = Id::new(1, 0);
    let block = Block::read(id, &bytes).expect("a block");
    assert_eq!(
        block.counts(),
        Counts {
            entries: 2,
            deleted: 1
        }
    );
    let first = |entry: &Entry<'_>| entry.id == id;
    let (bytes, deleted) = block.delete_where(bytes.clone(), first).expect("sound");
    assert_eq!(deleted, 1);
    let block = Block::read(id, &bytes).expect("still a block");
    assert_eq!(
        block.counts(),
        Counts {
            entries: 1,
            deleted: 2
        }
    );
    let added = block::append(id, bytes, Id::new(3, 0), &[b"f".to_vec(), b"v".to_vec()]);
    let added = added.expect("room");
    let ids = Block::read(id, &added).expect("still a block").live();
    assert!(ids.map(|entry| entry.id).eq([Id::new(2, 0), Id::new(3, 0)]));
}

/// Flags are replaced where they are: they have their shortest form.
#[test]
fn flags_of_a_longer_form_are_refused() {
    let flags = [2, 1, 0, 1, 0, 1, 1, 1];
    let at = OF_REDIS.windows(8).position(|bytes| *bytes == flags);
    let at = at.expect("the flags of an entry");
    let mut bytes = [&OF_REDIS[..at], &[0xf1, 2, 0, 3], &OF_REDIS[at + 2..]].concat();
    bytes[0] = bytes.len() as u8;
    assert!(Block::read(Id::new(1, 0), &bytes).is_err());
}

/// The entries of a block are not kept: of two bytes for each value they would take many times as much.
#[test]
fn a_block_of_very_many_pairs_is_read_in_place() {
    let words: Vec<Vec<u8>> = std::iter::repeat_n(b"1".to_vec(), 200_000).collect();
    let bytes = block::begin(&words);
    let block = Block::read(Id::new(1, 0), &bytes).expect("a block");
    let entry = block.live().next().expect("an entry");
    assert_eq!((entry.len(), entry.pairs().count()), (100_000, 100_000));
    assert!(size_of_val(&block) + size_of_val(&entry) < 512);
    assert_eq!(block.live_reversed().count(), 1);
}
