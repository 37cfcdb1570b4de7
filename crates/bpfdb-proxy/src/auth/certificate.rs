//! Whom a certificate of a client is of: the common name of its subject, as PostgreSQL takes it.
//!
//! ```text
//!   subject: SET of an attribute ── SET of another ── …       an attribute: SEQUENCE of its kind, and a text
//! ```
//!
//! Everything of it is a byte that says what it is, a length, and so many bytes (DER). Whoever has signed the certificate is
//! one of the authorities: that was seen before.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;
/// The number 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// `None`: it has none, or several, or one in another form than UTF-8.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    name_in(certificate.subject())
}

fn name_in(mut subject: &[u8]) -> Option<String> {
    let mut found = None;
    while !subject.is_empty() {
        let (mut set, rest) = part(subject, SET)?;
        subject = rest;
        while !set.is_empty() {
            let (attribute, rest) = part(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = part(attribute, OBJECT)?;
            if kind != COMMON_NAME {
                continue;
            }
            // Which of two counts others may see otherwise.
            if found.is_some() {
                return None;
            }
            let mut forms = [UTF8, PRINTABLE, IA5].into_iter();
            let (text, _) = forms.find_map(|form| part(value, form))?;
            found = Some(str::from_utf8(text).ok()?.to_owned());
        }
    }
    found
}

/// The bytes of something that is this, and what follows it.
fn part(bytes: &[u8], is: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    if head[0] != is {
        return None;
    }
    // From 128 on the low bits say how many bytes the length itself has.
    match head[1] {
        length @ ..=0x7f => rest.split_at_checked(usize::from(length)),
        0x81 => {
            let (length, rest) = rest.split_first()?;
            rest.split_at_checked(usize::from(*length))
        }
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(is: u8, bytes: &[u8]) -> Vec<u8> {
        [&[is, bytes.len() as u8][..], bytes].concat()
    }

    fn attribute(kind: &[u8], form: u8, text: &[u8]) -> Vec<u8> {
        let pair = [with(OBJECT, kind), with(form, text)].concat();
        with(SET, &with(SEQUENCE, &pair))
    }

    #[test]
    fn the_common_name_is_found_among_others() {
        let country = attribute(&[0x55, 0x04, 0x06], PRINTABLE, b"DE");
        let name = attribute(COMMON_NAME, UTF8, "\u{e4}".as_bytes());
        let subject = [country.clone(), name.clone()].concat();
        assert_eq!(name_in(&subject).as_deref(), Some("\u{e4}"));
        for none in [
            country,
            [&name[..], &name].concat(),
            name[..name.len() - 1].to_vec(),
            attribute(COMMON_NAME, UTF8, b"\xff"),
            // Two bytes for each letter.
            attribute(COMMON_NAME, 0x1e, b"\0a"),
        ] {
            assert_eq!(name_in(&none), None, "{none:x?}");
        }
        let long = vec![b'x'; 300];
        let long = [&[UTF8, 0x82, 1, 44][..], &long].concat();
        assert_eq!(part(&long, UTF8).map(|(text, _)| text.len()), Some(300));
    }
}
