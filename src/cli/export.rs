//! `hearthcast export`, `backup` and `import`: the complete state as JSON Lines.

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, stdin, stdout};
use std::path::PathBuf;

use clap::Args;

use super::{ConfigArgs, Outcome, error_text};
use crate::store;

#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    config_args: ConfigArgs,
}

#[derive(Args)]
pub struct Backup {
    /// File to write (mode 0600). An existing file is replaced only when the new one is complete.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    config_args: ConfigArgs,
}

#[derive(Args)]
pub struct Import {
    /// File with the exported state [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace an existing state (which is moved to `damaged/`).
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    config_args: ConfigArgs,
}

impl Export {
    pub fn run(self) -> Outcome {
        let config = self.config_args.load_config()?;
        if stdout().is_terminal() {
            return Err("the output contains password hashes and signing keys: redirect it to a file".to_owned());
        }
        let exported = store::export(&config.state, BufWriter::new(stdout().lock())).map_err(error_text)?;
        eprintln!("{exported} records");
        Ok(())
    }
}

impl Backup {
    pub fn run(self) -> Outcome {
        let config = self.config_args.load_config()?;
        let records = store::backup(&config.state, &self.file).map_err(error_text)?;
        eprintln!("{records} records in {}", self.file.display());
        Ok(())
    }
}

impl Import {
    pub fn run(self) -> Outcome {
        let config = self.config_args.load_config()?;
        let imported = match &self.file {
            #[allow(clippy::disallowed_methods, reason = "the operator named the file")]
            Some(path) => match File::open(path) {
                Ok(file) => store::import(&config.state, BufReader::new(file), self.replace),
                Err(cause) => return Err(format!("{}: {cause}", path.display())),
            },
            None => store::import(&config.state, stdin().lock(), self.replace),
        };
        let imported = imported.map_err(error_text)?;
        eprintln!("{imported} records");
        Ok(())
    }
}
