//! TLS to PostgreSQL: the certificates that are trusted, and why a server is refused.

use std::error::Error as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::ConnectError;

/// Longest file of trusted certificates, bytes. That of a system has some 250,000.
const MAX_CA_FILE_BYTES: u64 = 4 << 20;

/// The protocol of PostgreSQL in a handshake (RFC 7301), which `sslnegotiation=direct` requires.
const PROTOCOL: &[u8] = b"postgresql";

/// Error texts of `tokio_postgres` and webpki, which have no types.
const NO_TLS: &str = "server does not support TLS";
const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";

/// A connector that verifies chain and name of the certificate of PostgreSQL against those in a PEM file, or against those of the system.
///
/// # Errors
/// Why there are no trusted certificates.
pub fn connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let roots = match ca_file {
        Some(path) => read_certificates(path).map_err(|cause| format!("state_ca_file {}: {cause}", path.display()))?,
        None => system_certificates()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|cause| format!("TLS cannot be used: {cause}"))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

fn read_certificates(path: &Path) -> Result<RootCertStore, String> {
    let file = File::open(path).map_err(|cause| format!("it cannot be read: {cause}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_CA_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|cause| format!("it cannot be read: {cause}"))?;
    if bytes.len() as u64 > MAX_CA_FILE_BYTES {
        return Err(format!("it has more than {} MiB", MAX_CA_FILE_BYTES >> 20));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let added = certificate.map_err(|cause| cause.to_string());
        let added = added.and_then(|certificate| roots.add(certificate).map_err(|cause| cause.to_string()));
        added.map_err(|cause| format!("it has a damaged certificate: {cause}"))?;
    }
    if roots.is_empty() {
        return Err("it has no certificate in PEM format".to_owned());
    }
    Ok(roots)
}

fn system_certificates() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "the system has no trusted certificates (package ca-certificates): install them, or set state_ca_file \
             to the certificate of the authority"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// Why the handshake failed; `None` for errors that are not about TLS. A certificate out of its period may be replaced or become
/// valid while a server waits. Other faults stay until an operator changes the set-up.
pub fn connect_error(cause: &tokio_postgres::Error) -> Option<ConnectError> {
    let source = cause.source()?;
    if source.to_string() == NO_TLS {
        let text = "PostgreSQL has no TLS, which sslmode=require in state demands: set ssl = on in its postgresql.conf";
        return Some(ConnectError::Unusable(text.to_owned()));
    }
    let fault = source.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(fault) = fault else {
        return Some(ConnectError::Unreachable(format!("TLS failed: {fault}")));
    };
    let text = certificate_fault(fault);
    Some(match fault {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => ConnectError::Unreachable(text),
        _ => ConnectError::Unusable(text),
    })
}

/// A name as webpki presents it, e.g. `DnsName("db.example")`, without that around it.
fn plain_name(presented: &str) -> &str {
    presented.strip_prefix("DnsName(\"").and_then(|name| name.strip_suffix("\")")).unwrap_or(presented)
}

fn certificate_fault(fault: &CertificateError) -> String {
    let date = |time: &rustls::pki_types::UnixTime| {
        let time = jiff::Timestamp::from_second(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        time.map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
    };
    match fault {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            let remedy = "set state_ca_file to the certificate of the authority that issued it";
            format!("the certificate of PostgreSQL is not trusted: {remedy}")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
            let names = match names.is_empty() {
                true => "it has no subjectAltName".to_owned(),
                false => format!("its names are {}", names.join(", ")),
            };
            format!("the certificate of PostgreSQL is not for {}: {names}", expected.to_str())
        }
        CertificateError::NotValidForName => "the certificate of PostgreSQL is for another name".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the certificate of PostgreSQL expired on {}", date(not_after))
        }
        CertificateError::Expired => "the certificate of PostgreSQL has expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the certificate of PostgreSQL is not valid before {}: check the clocks", date(not_before))
        }
        CertificateError::NotValidYet => "the certificate of PostgreSQL is not valid yet: check the clocks".to_owned(),
        other if format!("{other:?}").contains(AUTHORITY_AS_SERVER) => {
            "the certificate of PostgreSQL is that of an authority: make one with basicConstraints CA:FALSE".to_owned()
        }
        other => format!("the certificate of PostgreSQL is not accepted: {other}"),
    }
}
