//! TLS: how it is asked for, and what certificates have to show.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};

use crate::error::{Error, Result};

/// What TLS is used for, and what a certificate has to show; as PgBouncer has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never.
    #[default]
    Disable,
    /// Clients: if they ask for it. Servers: if they refuse to do without.
    Allow,
    /// Clients: if they ask for it. Servers: if they have it.
    Prefer,
    /// Always; certificates of the other end are not looked at.
    Require,
    /// Always, with a certificate that the authorities of `ca_file` have signed.
    VerifyCa,
    /// As `VerifyCa`; a server's certificate has the name of its host.
    VerifyFull,
}

/// Files of TLS, in the form PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    pub mode: SslMode,
    /// Authorities.
    pub ca_file: Option<PathBuf>,
    /// The proxy's own certificate, with those between it and its authority.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

impl FromStr for SslMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "disable" => Ok(Self::Disable),
            "allow" => Ok(Self::Allow),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err(Error::Settings(format!(
                "{text} is none of disable, allow, prefer, require, verify-ca, verify-full"
            ))),
        }
    }
}

/// The name of the protocol, for clients that begin with TLS.
const PROTOCOL: &[u8] = b"postgresql";

fn wrong(what: &str, error: impl fmt::Display) -> Error {
    Error::Settings(format!("TLS: {what}: {error}"))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn authorities(settings: &TlsSettings, whose: &str) -> Result<Arc<RootCertStore>> {
    let Some(file) = &settings.ca_file else {
        let told = "verify-ca, verify-full and the method cert need it";
        return Err(wrong(&format!("{whose}_tls_ca_file"), told));
    };
    let shown = file.display().to_string();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&shown, error))? {
        let certificate = certificate.map_err(|error| wrong(&shown, error))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(&shown, error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&shown, "there is no certificate in it"));
    }
    Ok(Arc::new(roots))
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The proxy's own certificate and key; `None`: neither is named.
fn own(settings: &TlsSettings, whose: &str) -> Result<Option<Own>> {
    let (cert_file, key_file) = match (&settings.cert_file, &settings.key_file) {
        (Some(cert_file), Some(key_file)) => (cert_file, key_file),
        (None, None) => return Ok(None),
        _ => {
            let told = "one is not enough";
            let names = format!("{whose}_tls_cert_file and {whose}_tls_key_file");
            return Err(wrong(&names, told));
        }
    };
    let shown = cert_file.display().to_string();
    let certificates = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&shown, error))?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| wrong(&key_file.display().to_string(), error))?;
    Ok(Some((certificates, key)))
}

/// TLS with clients; `None`: there is none. `asks`: some of them may come in by their certificate only.
///
/// # Errors
/// A file that is not there, or is not what it should be.
pub(crate) fn for_clients(settings: &TlsSettings, asks: bool) -> Result<Option<Arc<ServerConfig>>> {
    if settings.mode == SslMode::Disable {
        return Ok(None);
    }
    let Some((certificates, key)) = own(settings, "client")? else {
        let told = "TLS with clients needs them";
        return Err(wrong("client_tls_cert_file and client_tls_key_file", told));
    };
    let begun = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("versions", error))?;
    let all_show_one = settings.mode >= SslMode::VerifyCa;
    let begun = if all_show_one || asks {
        let roots = authorities(settings, "client")?;
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
        if !all_show_one {
            verifier = verifier.allow_unauthenticated();
        }
        let verifier = verifier
            .build()
            .map_err(|error| wrong("client_tls_ca_file", error))?;
        begun.with_client_cert_verifier(verifier)
    } else {
        begun.with_no_client_auth()
    };
    let mut config = begun
        .with_single_cert(certificates, key)
        .map_err(|error| wrong("client_tls_cert_file and client_tls_key_file", error))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    if all_show_one || asks {
        // A session that goes on takes the certificate over as it was, and looks at its dates no more.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Some(Arc::new(config)))
}

/// TLS with servers; `None`: there is none.
///
/// # Errors
/// As [`for_clients`].
pub(crate) fn for_servers(settings: &TlsSettings) -> Result<Option<Arc<ClientConfig>>> {
    if settings.mode == SslMode::Disable {
        return Ok(None);
    }
    let begun = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("versions", error))?;
    let begun = if settings.mode == SslMode::VerifyFull {
        let roots = authorities(settings, "server")?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| wrong("server_tls_ca_file", error))?;
        begun.with_webpki_verifier(verifier)
    } else {
        let roots = (settings.mode == SslMode::VerifyCa)
            .then(|| authorities(settings, "server"))
            .transpose()?;
        let provider = provider();
        let verifier = Arc::new(AnyName { roots, provider });
        begun.dangerous().with_custom_certificate_verifier(verifier)
    };
    let config = match own(settings, "server")? {
        Some((certificates, key)) => begun
            .with_client_auth_cert(certificates, key)
            .map_err(|error| wrong("server_tls_cert_file and server_tls_key_file", error))?,
        None => begun.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

pub(crate) fn with_client(
    config: &Arc<ServerConfig>,
) -> std::result::Result<rustls::Connection, rustls::Error> {
    Ok(ServerConnection::new(Arc::clone(config))?.into())
}

/// `host`: a name or an address, as the settings have it.
pub(crate) fn with_server(
    config: &Arc<ClientConfig>,
    host: &str,
) -> std::result::Result<rustls::Connection, rustls::Error> {
    let name = match host.parse::<IpAddr>() {
        Ok(address) => ServerName::from(address),
        Err(_) => ServerName::try_from(host.to_owned())
            .map_err(|error| rustls::Error::General(error.to_string()))?,
    };
    Ok(ClientConnection::new(Arc::clone(config), name)?.into())
}

/// Takes a certificate of any name: of one of these authorities, or of any.
#[derive(Debug)]
struct AnyName {
    roots: Option<Arc<RootCertStore>>,
    provider: Arc<CryptoProvider>,
}

type Valid = std::result::Result<HandshakeSignatureValid, rustls::Error>;

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Valid {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Valid {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
