//! Builds the rooms and runs them.

use std::future::Future;

use tokio::net::TcpListener;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::http;
use crate::service::Service;

/// Serves until `stop` resolves. Prints one line to standard output when it answers requests.
///
/// # Errors
/// What keeps it from starting: a busy port, a root or a state folder that cannot be opened.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<()> {
    let address = config.listen;
    let service = Service::open(config)?;
    let transcoder = service.clone();
    tokio::spawn(async move { transcoder.transcoder.warm().await });
    let listener = TcpListener::bind(address).await.map_err(|cause| Error::internal(format!("{address}: {cause}")))?;
    let address = listener.local_addr().map_err(Error::internal)?;
    println!("listening on http://{address}");
    http::serve::serve(service, listener, stop).await;
    Ok(())
}
