//! Names of external hosts, resolved and checked: every address returned may be connected to (SSRF).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::OutboundError;
use crate::domain::ssrf::AllowedSources;

/// Maximum number of addresses of one name.
const MAX_ADDRESSES: usize = 32;

/// Resolves a name.
pub type Lookup = Arc<dyn Fn(String) -> LookupFuture + Send + Sync>;
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves a name with the system's resolver.
pub fn system_lookup(name: String) -> LookupFuture {
    Box::pin(async move {
        let addresses = tokio::net::lookup_host((name, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    })
}

/// A DNS resolver that returns checked addresses only.
#[derive(Clone)]
pub struct CheckedResolver {
    pub allowed: Arc<RwLock<AllowedSources>>,
    pub lookup: Lookup,
}

impl CheckedResolver {
    /// The exceptions in force now.
    pub fn allowed(&self) -> RwLockReadGuard<'_, AllowedSources> {
        self.allowed.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a name. One blocked address is enough to refuse all: no legitimate name mixes them.
    pub async fn resolve_checked(&self, name: &str) -> Result<Vec<IpAddr>, OutboundError> {
        let mut addresses = (self.lookup)(name.to_owned()).await.map_err(|_| OutboundError::UnknownHost)?;
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() {
            return Err(OutboundError::UnknownHost);
        }
        let allowed = self.allowed();
        match addresses.iter().find_map(|ip| allowed.refusal_reason(*ip)) {
            Some(reason) if !allowed.allows_host(name) => Err(OutboundError::BlockedAddress(reason)),
            _ => Ok(addresses),
        }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.resolve_checked(name.as_str()).await?;
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect::<Vec<_>>();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
