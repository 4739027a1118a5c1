//! `hearthcast token new`: a bearer token for scripts.

use clap::Subcommand;

use super::accounts::with_accounts;
use super::{ConfigArgs, Outcome};

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Create and print a bearer token for a user.
    New {
        /// Owner of the token.
        #[arg(long, value_name = "NAME")]
        user: String,
        #[command(flatten)]
        config_args: ConfigArgs,
    },
}

impl TokenCommand {
    pub fn run(self) -> Outcome {
        let Self::New { user, config_args } = self;
        with_accounts(&config_args, "POST /api/auth/login", async |accounts| {
            let user = accounts.user_by_name(&user)?;
            println!("{}", accounts.issue_token(&user.username, user.role).await?);
            Ok(())
        })
    }
}
