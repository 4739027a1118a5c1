//! `hearthcast token new`: a bearer token for scripts.

use clap::Subcommand;

use super::accounts::with_accounts;
use super::{Outcome, Place};

#[derive(Subcommand)]
pub enum Token {
    /// Create and print a bearer token for a user.
    New {
        /// Owner of the token.
        #[arg(long, value_name = "NAME")]
        user: String,
        #[command(flatten)]
        place: Place,
    },
}

impl Token {
    pub fn run(self) -> Outcome {
        let Self::New { user, place } = self;
        with_accounts(&place, "POST /api/auth/login", async |accounts| {
            let user = accounts.user_by_name(&user)?;
            println!("{}", accounts.issue_token(&user.username, user.role).await?);
            Ok(())
        })
    }
}
