//! `hearthcast manual`: man pages and shell completions, which packages contain.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::Outcome;

#[derive(Args)]
pub struct Manual {
    /// Folder for the shell completions; its folder `man1` gets a page for each command.
    folder: PathBuf,
}

impl Manual {
    #[allow(clippy::disallowed_methods, reason = "a folder that the operator named")]
    pub fn run(self, mut command: Command) -> Outcome {
        let with_folder = |cause: std::io::Error| format!("{}: {cause}", self.folder.display());
        let pages = self.folder.join("man1");
        std::fs::create_dir_all(&pages).map_err(with_folder)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            clap_complete::generate_to(shell, &mut command, "hearthcast", &self.folder).map_err(with_folder)?;
        }
        clap_mangen::generate_to(command, pages).map_err(with_folder)
    }
}
