//! Places, distances and units in arguments and in replies.

use bpfdb::{Session, ValueType};
use bpfdb_values::double;
use bpfdb_values::geo::Place;
use bpfdb_values::sorted_set::Changes;

use super::super::Failure;
use super::super::arguments::is;
use super::super::collection::load;
use crate::protocol::reply::Replies;

pub(super) fn place(longitude: &[u8], latitude: &[u8]) -> Result<Place, Failure> {
    let not_a_float = "ERR value is not a valid float";
    let longitude = float(longitude, not_a_float)?;
    let latitude = float(latitude, not_a_float)?;
    let place = Place {
        longitude,
        latitude,
    };
    if !place.is_valid() {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(text.into());
    }
    Ok(place)
}

/// Else this is the error.
pub(super) fn float(text: &[u8], error: &'static str) -> Result<f64, Failure> {
    double::parse(text).ok_or_else(|| error.into())
}

/// Metres.
pub(super) fn unit(word: &[u8]) -> Result<f64, Failure> {
    let units = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let found = units.iter().find(|(name, _)| is(word, name));
    found
        .map(|&(_, metres)| metres)
        .ok_or_else(|| "ERR unsupported unit provided. please use M, KM, FT, MI".into())
}

/// The places of these members; `None`: not in the set.
pub(super) fn of_members(
    session: &mut Session,
    key: &[u8],
    members: &[Vec<u8>],
) -> Result<Vec<Option<Place>>, Failure> {
    let read = load(session, key, ValueType::SORTED_SET)?;
    let set = Changes::new(read.as_ref().map(|read| &read.value[..]), members.len())?;
    let places = members.iter().map(|member| {
        let score = set.score(member)?;
        Ok(score.map(Place::of_score))
    });
    places.collect()
}

pub(super) fn reply_place(replies: &mut Replies, place: Place) {
    replies.array(2);
    for coordinate in [place.longitude, place.latitude] {
        let text = format!("{coordinate:.17}");
        replies.double(text.trim_end_matches('0').trim_end_matches('.'));
    }
}

pub(super) fn reply_distance(replies: &mut Replies, distance: f64) {
    replies.bulk(format!("{distance:.4}"));
}
