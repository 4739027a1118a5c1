//! `hearthcast user …`: manages accounts while the server is stopped.

use clap::{Args, Subcommand};

use super::accounts::{password_from_stdin, with_accounts};
use super::{ConfigArgs, Outcome, error_text};
use crate::domain::access::Role;
use crate::domain::account;
use crate::domain::time::format_timestamp;
use crate::service::accounts::{EndedAccess, KeptAccess, passwords};

#[derive(Subcommand)]
pub enum UserCommand {
    /// Add a user.
    Add {
        /// Name of the new user.
        name: String,
        /// Make the user an admin, who may manage users and channels.
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        password_args: PasswordStdinArgs,
        #[command(flatten)]
        config_args: ConfigArgs,
    },
    /// Set a user's password. Signs out all their devices and revokes their stream tokens.
    Passwd {
        /// Name of the user.
        name: String,
        #[command(flatten)]
        stream_token_args: StreamTokenArgs,
        #[command(flatten)]
        password_args: PasswordStdinArgs,
        #[command(flatten)]
        config_args: ConfigArgs,
    },
    /// Sign out all devices of a user and revoke their stream tokens.
    Revoke {
        /// Name of the user.
        name: String,
        #[command(flatten)]
        stream_token_args: StreamTokenArgs,
        #[command(flatten)]
        config_args: ConfigArgs,
    },
    /// List users and the number of devices they are signed in on.
    List(ConfigArgs),
    /// Print the hash of a password, for `[admin] password_hash_file`.
    Hash(PasswordStdinArgs),
}

/// Whether stream tokens are kept.
#[derive(Args)]
pub struct StreamTokenArgs {
    /// Keep the user's stream tokens.
    #[arg(long)]
    keep_stream_tokens: bool,
}

/// The only way to pass a password, because arguments are visible to every process of the machine.
#[derive(Args)]
pub struct PasswordStdinArgs {
    /// Read the password from the first line of standard input.
    #[arg(long, required = true)]
    password_stdin: bool,
}

impl UserCommand {
    pub fn run(self) -> Outcome {
        match self {
            Self::Add { name, admin, config_args, .. } => {
                let password = password_from_stdin()?;
                let role = if admin { Role::Admin } else { Role::User };
                with_accounts(&config_args, "POST /api/users", async |accounts| {
                    let user = accounts.add_user(None, &name, role, &password).await?;
                    println!("added {}", user.username);
                    Ok(())
                })
            }
            Self::Passwd { name, config_args, stream_token_args, .. } => {
                let password = password_from_stdin()?;
                with_accounts(&config_args, "POST /api/users/{id}/password", async |accounts| {
                    let user = accounts.user_by_name(&name)?;
                    let ended =
                        accounts.set_password(None, &user.id, &password, stream_token_args.kept_access()).await?;
                    println!("changed the password of {}; {}", user.username, summary(ended));
                    Ok(())
                })
            }
            Self::Revoke { name, config_args, stream_token_args } => {
                with_accounts(&config_args, "POST /api/users/{id}/password", async |accounts| {
                    let user = accounts.user_by_name(&name)?;
                    let ended = accounts.revoke_all(&user.id, stream_token_args.kept_access()).await?;
                    println!("{}: {}", user.username, summary(ended));
                    Ok(())
                })
            }
            Self::List(config_args) => with_accounts(&config_args, "GET /api/users", async |accounts| {
                for user in accounts.users() {
                    let role = if user.role == Role::Admin { "admin" } else { "user" };
                    let devices = accounts.devices(&user.id).len();
                    println!(
                        "{}\t{role}\t{devices} devices\tsince {}",
                        user.username,
                        format_timestamp(user.created_at)
                    );
                }
                Ok(())
            }),
            Self::Hash(_) => {
                let password = password_from_stdin()?;
                account::validate_password(&password).map_err(|fault| format!("the password {fault}"))?;
                println!("{}", passwords::hash(&password).map_err(error_text)?);
                Ok(())
            }
        }
    }
}

impl StreamTokenArgs {
    fn kept_access(&self) -> KeptAccess<'static> {
        KeptAccess { login: None, stream_tokens: self.keep_stream_tokens }
    }
}

fn summary(EndedAccess { logins, stream_tokens }: EndedAccess) -> String {
    format!("signed out {logins} devices, revoked {stream_tokens} stream tokens")
}
