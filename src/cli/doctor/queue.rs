//! The nats-server through which workers on other machines get work.

use super::Finding::{self, Passed, Warning};
use crate::config::Config;
use crate::engine::remote::nats_server::NatsServer;

/// Reads how the nats-server introduces itself; nothing without `queue`. The server works without it.
pub async fn check_queue(config: &Config) -> Option<Finding> {
    let address = config.queue.as_deref()?;
    Some(match NatsServer::at(address).await {
        Err(fault) => Warning(format!("the queue {address}: {fault}; segments are made by this machine alone")),
        Ok(NatsServer { version, jetstream: false, .. }) => {
            Warning(format!("the queue {address} (nats-server {version}) has no JetStream: start it with -js"))
        }
        Ok(NatsServer { version, auth_required: false, .. }) => Warning(format!(
            "the queue {address} (nats-server {version}) lets in everybody who reaches it: give it the configuration of GET \
             /api/workers/queue-configuration"
        )),
        Ok(NatsServer { version, .. }) => {
            Passed(format!("the queue {address} (nats-server {version}) checks credentials"))
        }
    })
}
