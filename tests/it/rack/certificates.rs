//! Certificates of a PostgreSQL server, and of the authority that issues them.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate and private key, as PEM.
    pub own: ServerCertificate,
}

/// A certificate with its private key, as PEM.
#[derive(Clone)]
pub struct ServerCertificate {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = parameters("127.0.0.1", name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let own = ServerCertificate { certificate, key: key.serialize_pem() };
        Self { issuer: Issuer::new(params, key), own }
    }

    /// A certificate for a host.
    pub fn issue(&self, host: &str) -> ServerCertificate {
        self.issue_until(host, 4000)
    }

    /// A certificate for a host that is valid until the first day of a year.
    pub fn issue_until(&self, host: &str, year: i32) -> ServerCertificate {
        let key = KeyPair::generate().expect("a key");
        let mut params = parameters(host, "database");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        ServerCertificate { certificate, key: key.serialize_pem() }
    }
}

fn parameters(host: &str, name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name or an address");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
