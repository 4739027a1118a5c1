//! `hearthcast config check`.

use clap::Subcommand;

use super::{Outcome, Place};

#[derive(Subcommand)]
pub enum Config {
    /// Check the configuration that `serve` would use, and list its errors.
    Check(Place),
}

impl Config {
    pub fn run(self) -> Outcome {
        let Self::Check(place) = self;
        let config = place.load()?;
        let roots = config.library_roots();
        let missing: Vec<String> = roots
            .iter()
            .filter(|root| !root.path.is_dir())
            .map(|root| format!("root {} is not a folder", root.path.display()))
            .collect();
        if !missing.is_empty() {
            return Err(missing.join("\n"));
        }
        println!("listen  {}", config.listen);
        println!("state   {}", config.state.display());
        println!("cache   {}", config.cache.display());
        for root in &roots {
            println!("root    {} ({})", root.path.display(), root.id);
        }
        println!("ok");
        Ok(())
    }
}
