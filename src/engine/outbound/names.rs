//! Names of external hosts, resolved and checked: every address returned may be connected to (SSRF).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Fault;
use crate::domain::ssrf::AllowedSources;

/// Maximum number of addresses of one name.
const MOST: usize = 32;

/// Resolves a name.
pub type Lookup = Arc<dyn Fn(String) -> Looking + Send + Sync>;
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves a name with the system's resolver.
pub fn system(name: String) -> Looking {
    Box::pin(async move {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    })
}

/// A DNS resolver that returns checked addresses only.
#[derive(Clone)]
pub struct Names {
    pub allowed: Arc<AllowedSources>,
    pub lookup: Lookup,
}

impl Names {
    /// The addresses of a name. One blocked address is enough to refuse all: no legitimate name mixes them.
    ///
    /// # Errors
    /// `Fault::Unknown`, `Fault::Inside`.
    pub async fn checked(&self, name: &str) -> Result<Vec<IpAddr>, Fault> {
        let mut found = (self.lookup)(name.to_owned()).await.map_err(|_| Fault::Unknown)?;
        found.truncate(MOST);
        if found.is_empty() {
            return Err(Fault::Unknown);
        }
        match self.allowed.allows_host(name) {
            true => Ok(found),
            false => match found.iter().find_map(|ip| self.allowed.refusal_reason(*ip)) {
                Some(why) => Err(Fault::Inside(why)),
                None => Ok(found),
            },
        }
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let found = names.checked(name.as_str()).await?;
            let found = found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect::<Vec<_>>();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
