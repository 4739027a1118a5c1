//! `hearthcast user …`: manages accounts while the server is stopped.

use clap::{Args, Subcommand};

use super::accounts::{password_from_stdin, with_accounts};
use super::{Outcome, Place, told};
use crate::domain::access::Role;
use crate::domain::account;
use crate::domain::time::format_timestamp;
use crate::service::accounts::{EndedAccess, KeptAccess, passwords};

#[derive(Subcommand)]
pub enum User {
    /// Add a user.
    Add(Add),
    /// Set a user's password. Signs out all their devices and revokes their stream tokens.
    Passwd(Passwd),
    /// Sign out all devices of a user and revoke their stream tokens.
    Revoke {
        /// Name of the user.
        name: String,
        #[command(flatten)]
        streams: Streams,
        #[command(flatten)]
        place: Place,
    },
    /// List users and the number of devices they are signed in on.
    List(Place),
    /// Print the hash of a password, for `[admin] password_hash_file`.
    Hash(Stdin),
}

#[derive(Args)]
pub struct Add {
    /// Name of the new user.
    name: String,
    /// Make the user an admin, who may manage users and channels.
    #[arg(long)]
    admin: bool,
    #[command(flatten)]
    stdin: Stdin,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub struct Passwd {
    /// Name of the user.
    name: String,
    #[command(flatten)]
    streams: Streams,
    #[command(flatten)]
    stdin: Stdin,
    #[command(flatten)]
    place: Place,
}

/// Whether stream tokens are kept.
#[derive(Args)]
pub struct Streams {
    /// Keep the user's stream tokens.
    #[arg(long)]
    keep_stream_tokens: bool,
}

/// The only way to pass a password, because arguments are visible to every process of the machine.
#[derive(Args)]
pub struct Stdin {
    /// Read the password from the first line of standard input.
    #[arg(long, required = true)]
    password_stdin: bool,
}

impl User {
    pub fn run(self) -> Outcome {
        match self {
            Self::Add(Add { name, admin, place, .. }) => {
                let password = password_from_stdin()?;
                let role = if admin { Role::Admin } else { Role::User };
                with_accounts(&place, "POST /api/users", async |accounts| {
                    let user = accounts.add_user(&name, role, &password).await?;
                    println!("added {}", user.username);
                    Ok(())
                })
            }
            Self::Passwd(Passwd { name, place, streams, .. }) => {
                let password = password_from_stdin()?;
                with_accounts(&place, "POST /api/users/{id}/password", async |accounts| {
                    let user = accounts.user_by_name(&name)?;
                    let ended = accounts.set_password(&user.id, &password, streams.keep()).await?;
                    println!("changed the password of {}; {}", user.username, summary(ended));
                    Ok(())
                })
            }
            Self::Revoke { name, place, streams } => {
                with_accounts(&place, "POST /api/users/{id}/password", async |accounts| {
                    let user = accounts.user_by_name(&name)?;
                    let ended = accounts.revoke_all(&user.id, streams.keep()).await?;
                    println!("{}: {}", user.username, summary(ended));
                    Ok(())
                })
            }
            Self::List(place) => with_accounts(&place, "GET /api/users", async |accounts| {
                for user in accounts.users() {
                    let role = if user.role == Role::Admin { "admin" } else { "user" };
                    let devices = accounts.devices(&user.id).len();
                    println!("{}\t{role}\t{devices} devices\tsince {}", user.username, format_timestamp(user.created_at));
                }
                Ok(())
            }),
            Self::Hash(_) => {
                let password = password_from_stdin()?;
                account::validate_password(&password).map_err(|fault| format!("the password {fault}"))?;
                println!("{}", passwords::hash(&password).map_err(told)?);
                Ok(())
            }
        }
    }
}

impl Streams {
    fn keep(&self) -> KeptAccess<'static> {
        KeptAccess { login: None, stream_tokens: self.keep_stream_tokens }
    }
}

fn summary(EndedAccess { logins, stream_tokens }: EndedAccess) -> String {
    format!("signed out {logins} devices, revoked {stream_tokens} stream tokens")
}
