//! `hearthcast stream-token new`: live TV for a device that cannot sign in.

use clap::Subcommand;

use super::accounts::with_accounts;
use super::{ConfigArgs, Outcome};
use crate::domain::access::Role;
use crate::error::{Code, Error};

#[derive(Subcommand)]
pub enum StreamTokenCommand {
    /// Create and print a stream token, which only allows watching channels.
    New {
        /// Name of the device.
        #[arg(long, value_name = "DEVICE")]
        name: String,
        /// IDs of the channels it may watch, e.g. 1,2 [default: all].
        #[arg(long, value_name = "IDS", value_delimiter = ',')]
        channels: Option<Vec<u32>>,
        /// Owner of the token [default: the first admin].
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        #[command(flatten)]
        config_args: ConfigArgs,
    },
}

impl StreamTokenCommand {
    pub fn run(self) -> Outcome {
        let Self::New { name, channels, user, config_args } = self;
        with_accounts(&config_args, "POST /api/livetv/tokens", async |accounts| {
            let owner = match user {
                Some(user) => accounts.user_by_name(&user)?,
                None => {
                    let admins = accounts.users().into_iter().filter(|user| user.role == Role::Admin);
                    let first_admin = admins.min_by_key(|user| user.created_at);
                    first_admin.ok_or_else(|| Error::new(Code::NotFound, "there is no admin yet: set --user NAME"))?
                }
            };
            println!("{}", accounts.add_stream_token(None, &owner.id, &name, channels, None).await?.1);
            Ok(())
        })
    }
}
