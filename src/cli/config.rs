//! `hearthcast config check`.

use clap::Subcommand;

use super::{ConfigArgs, Outcome};
use crate::config::Config;
#[cfg(feature = "cluster")]
use crate::engine::shared_segments::s3::S3Bucket;
use crate::store;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration that `serve` would use, and list its errors.
    Check {
        #[command(flatten)]
        config_args: ConfigArgs,
        /// Do not check that library folders and credentials exist: the configuration may be for another machine.
        #[arg(long)]
        settings_only: bool,
    },
}

impl ConfigCommand {
    pub fn run(self) -> Outcome {
        let Self::Check { config_args, settings_only } = self;
        let config = config_args.load_config()?;
        let roots = config.library_roots();
        let mut errors: Vec<String> = roots
            .iter()
            .filter(|root| !settings_only && !root.path.is_dir())
            .map(|root| format!("root {} is not a folder", root.path.display()))
            .collect();
        let database_error = if settings_only { store::database_settings_error } else { store::database_machine_error };
        errors.extend(config.database_settings().and_then(database_error));
        if !settings_only {
            errors.extend(store_error(&config));
        }
        if !errors.is_empty() {
            return Err(errors.join("\n"));
        }
        println!("listen  {}", config.listen);
        match &config.database {
            Some(_) => println!("state   in PostgreSQL, copy in {}", config.state.display()),
            None => println!("state   {}", config.state.display()),
        }
        println!("cache   {}", config.cache.display());
        for root in &roots {
            println!("root    {} ({})", root.path.display(), root.id);
        }
        println!("ok");
        Ok(())
    }
}

/// Why the store of `segments` cannot be used, e.g. missing credentials. Nothing is sent.
#[cfg(feature = "cluster")]
fn store_error(config: &Config) -> Option<String> {
    S3Bucket::open(config).err()
}

/// None: this build refuses `segments`.
#[cfg(not(feature = "cluster"))]
fn store_error(_: &Config) -> Option<String> {
    None
}
