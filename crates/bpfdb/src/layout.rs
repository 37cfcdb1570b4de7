//! The structures that an object shares with the engine, compared before the object is loaded.
//!
//! The kernel compares a fingerprint when a program opens a session (`include/bpfdb/layout.h`),
//! whatever has loaded it. This names the structure and the field, from BTF.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, TypeId};
use libbpf_rs::{AsRawLibbpf, OpenObject};

use crate::error::{Error, Result, bpf};
use crate::objects;

/// Structures with such names are the engine's.
const PREFIX: &str = "bpfdb_";

/// Name, offset in bits, and type of each member, in order.
type Members = Vec<(String, u32, String)>;

/// Structures by name.
pub(crate) type Layout = BTreeMap<String, Members>;

/// # Errors
/// [`Error::Invalid`] names the first structure that the object and this library have laid out
/// differently. An object without BTF is refused as well.
pub(crate) fn check(object: &OpenObject) -> Result<()> {
    // SAFETY: the object lives as long as the reference to it.
    let object = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(object)
        .map_err(bpf("read the types of the BPF object"))?
        .ok_or_else(|| Error::Invalid("the BPF object has no BTF: compile it with -g".into()))?;
    compare(own()?, &structures(&btf))
}

fn compare(own: &Layout, other: &Layout) -> Result<()> {
    for (name, members) in other {
        let Some(expected) = own.get(name) else {
            continue;
        };
        if members != expected {
            return Err(Error::Invalid(format!(
                "the BPF object was built with another version of bpfdb: struct {name} differs at {}",
                difference(expected, members)
            )));
        }
    }
    Ok(())
}

/// The first member that differs.
fn difference(expected: &Members, found: &Members) -> String {
    let pairs = expected.iter().zip(found);
    let member = pairs
        .filter(|(one, other)| one != other)
        .map(|(one, _)| one);
    let member = member.chain(expected.iter().skip(found.len())).next();
    member.map_or_else(|| "its end".into(), |(name, _, _)| name.clone())
}

/// Those of this library's engine.
pub(crate) fn own() -> Result<&'static Layout> {
    static OWN: OnceLock<Layout> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let btf = Btf::from_raw("engine", objects::ENGINE)
        .map_err(bpf("read the types of the engine"))?
        .ok_or_else(|| Error::Invalid("the engine has no BTF".into()))?;
    Ok(OWN.get_or_init(|| structures(&btf)))
}

fn structures(btf: &Btf<'_>) -> Layout {
    btf.type_by_kind::<Struct<'_>>()
        .filter_map(|structure| {
            let name = structure.name()?.to_str()?.to_owned();
            name.starts_with(PREFIX)
                .then(|| (name, members(btf, &structure)))
        })
        .collect()
}

fn members(btf: &Btf<'_>, structure: &Struct<'_>) -> Members {
    structure
        .iter()
        .map(|member| {
            let name = member.name.map(|name| name.to_string_lossy().into_owned());
            let offset = match member.attr {
                MemberAttr::Normal { offset } | MemberAttr::BitField { offset, .. } => offset,
            };
            (name.unwrap_or_default(), offset, type_name(btf, member.ty))
        })
        .collect()
}

/// The name of a type; of one without a name (arrays), its kind.
fn type_name(btf: &Btf<'_>, id: TypeId) -> String {
    let found = btf.type_by_id::<BtfType<'_>>(id);
    found.map_or_else(String::new, |found| match found.name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("{:?}", found.kind()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `include/bpfdb/layout.h`, from which the fingerprint in the kernel is computed.
    const LIST: &str = include_str!("../../../include/bpfdb/layout.h");

    #[test]
    fn the_list_has_each_field_of_its_structures() {
        let own = own().expect("types");
        let listed: Vec<(&str, &str)> = LIST
            .lines()
            .filter_map(|line| line.trim().strip_prefix("X(")?.split(')').next())
            .filter_map(|row| row.split_once(", "))
            .collect();
        assert!(listed.len() > 100, "the list was found");
        let structures: std::collections::BTreeSet<&str> =
            listed.iter().map(|(structure, _)| *structure).collect();
        for structure in structures {
            let name = format!("{PREFIX}{structure}");
            // A structure that the engine's programs do not use has no type in its object.
            for (field, _, _) in own.get(&name).into_iter().flatten() {
                assert!(
                    field == "pad" || listed.contains(&(structure, field)),
                    "X({structure}, {field}) is missing in layout.h"
                );
            }
        }
    }

    #[test]
    fn a_member_at_another_place_is_named() {
        let own = own().expect("types");
        let mut other = own.clone();
        let session = other.get_mut("bpfdb_session").expect("it has one");
        let (first, second) = (session[0].1, session[1].1);
        session[0].1 = second;
        session[1].1 = first;
        let refused = compare(own, &other).expect_err("it differs").to_string();
        assert!(
            refused.contains("struct bpfdb_session differs at commit"),
            "{refused}"
        );
        compare(own, own).expect("the same");
    }
}
