//! Where the database is, and how it is reached: from its settings.

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{CONNECT_TIMEOUT, STATEMENT_TIMEOUT};
use super::tls;
use crate::config::DatabaseSettings;

/// A database, and the certificates that are trusted there.
#[derive(Clone)]
pub struct Target {
    config: Config,
    ca_file: Option<PathBuf>,
    /// With `sslmode=require`.
    tls: Option<MakeRustlsConnect>,
}

impl Target {
    /// Reads the settings, and the trusted certificates if they are needed.
    ///
    /// # Errors
    /// Why they cannot be used. The address is not repeated, because it may contain a password.
    pub fn new(database: DatabaseSettings) -> Result<Self, String> {
        let config = parse(database)?;
        let ca_file = database.ca_file.map(ToOwned::to_owned);
        let tls =
            (config.get_ssl_mode() == SslMode::Require).then(|| tls::connector(ca_file.as_deref())).transpose()?;
        Ok(Self { config, ca_file, tls })
    }

    /// Reads the trusted certificates again. If they cannot be read, the former ones stay.
    pub fn read_certificates_again(&mut self) {
        if self.tls.is_some()
            && let Ok(tls) = tls::connector(self.ca_file.as_deref())
        {
            self.tls = Some(tls);
        }
    }

    /// Connects within the present runtime, which also runs the connection. The second part of the result is notified when
    /// the database notifies the connection.
    pub async fn connect(&self) -> Result<(Client, Arc<Notify>), Error> {
        match &self.tls {
            Some(tls) => connect_with(&self.config, tls.clone()).await,
            None => connect_with(&self.config, NoTls).await,
        }
    }
}

async fn connect_with<T>(config: &Config, tls: T) -> Result<(Client, Arc<Notify>), Error>
where
    T: MakeTlsConnect<Socket, Stream: Send + 'static>,
{
    let (client, mut connection) = config.connect(tls).await?;
    let notifications = Arc::new(Notify::new());
    let notified = notifications.clone();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                notified.notify_one();
            }
        }
    });
    Ok((client, notifications))
}

/// Reads the settings, but no files.
///
/// # Errors
/// As for [`Target::new`].
pub fn parse(database: DatabaseSettings) -> Result<Config, String> {
    let config = parse_address(database.address)?;
    if database.ca_file.is_some() && config.get_ssl_mode() != SslMode::Require {
        return Err(
            "state_ca_file is set, but state has no sslmode=require: no certificate would be verified".to_owned()
        );
    }
    Ok(config)
}

fn parse_address(address: &str) -> Result<Config, String> {
    let parsed: Result<Config, _> = address.parse();
    let mut config = parsed.map_err(|cause| {
        let is_ssl_mode =
            std::error::Error::source(&cause).is_some_and(|cause| cause.to_string().contains("`sslmode`"));
        match is_ssl_mode {
            true => {
                "sslmode in state must be disable or require; require also verifies chain and name of the certificate"
            }
            false => "state is not a valid address of PostgreSQL",
        }
    })?;
    if config.get_ssl_mode() != SslMode::Require {
        // `prefer` would use TLS without a verified certificate, which protects nothing.
        config.ssl_mode(SslMode::Disable);
    } else if config.get_hosts().is_empty() || config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_))) {
        return Err("sslmode=require in state needs the name or address of a host: a local socket has no TLS".into());
    }
    if config.get_password().is_none()
        && let Some(password) = std::env::var_os("PGPASSWORD")
    {
        config.password(password.as_encoded_bytes());
    }
    config.application_name("hearthcast").connect_timeout(CONNECT_TIMEOUT);
    config.keepalives_idle(Duration::from_secs(5)).tcp_user_timeout(STATEMENT_TIMEOUT);
    Ok(config)
}
