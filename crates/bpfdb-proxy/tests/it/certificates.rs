//! Authorities and certificates of the tests' own.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Files of an authority, and of certificates that it has signed.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// Its files are in this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.to_owned();
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "an authority of tests");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.join("ca.pem"), certificate.pem()).expect("written");
        let issuer = Issuer::new(params, key);
        Self { folder, issuer }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// For these names of hosts, or addresses.
    pub(crate) fn sign(&self, name: &str, hosts: &[&str]) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        let file = |kind: &str| self.folder.join(format!("{name}.{kind}"));
        let certificate = Certificate {
            cert: file("pem"),
            key: file("key"),
        };
        fs::write(&certificate.cert, signed.pem()).expect("written");
        write_secret(&certificate.key, &key.serialize_pem());
        certificate
    }
}

/// A key that others can read libpq and PostgreSQL refuse.
fn write_secret(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;

    fs::write(file, text).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a secret");
}
