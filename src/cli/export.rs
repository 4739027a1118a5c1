//! `hearthcast export`, `backup` and `import`: the complete state as JSON Lines.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IsTerminal, stdin, stdout};
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
        let exported = match config.database_settings() {
            Some(database) => store::export_database(database, BufWriter::new(stdout())),
            None => store::export(&config.state, BufWriter::new(stdout().lock())),
        };
        let exported = exported.map_err(error_text)?;
        eprintln!("{exported} records");
        Ok(())
    }
}

impl Backup {
    pub fn run(self) -> Outcome {
        let config = self.config_args.load_config()?;
        let records = match config.database_settings() {
            Some(database) => store::backup_database(database, &self.file),
            None => store::backup(&config.state, &self.file),
        };
        let records = records.map_err(error_text)?;
        eprintln!("{records} records in {}", self.file.display());
        Ok(())
    }
}

impl Import {
    pub fn run(self) -> Outcome {
        let config = self.config_args.load_config()?;
        let import = |from: Box<dyn BufRead + Send>| match config.database_settings() {
            Some(database) => store::import_into_database(&config.state, database, from, self.replace),
            None => store::import(&config.state, from, self.replace),
        };
        let imported = match &self.file {
            #[allow(clippy::disallowed_methods, reason = "the operator named the file")]
            Some(path) => match File::open(path) {
                Ok(file) => import(Box::new(BufReader::new(file))),
                Err(cause) => return Err(format!("{}: {cause}", path.display())),
            },
            None => import(Box::new(BufReader::new(stdin()))),
        };
        let imported = imported.map_err(error_text)?;
        eprintln!("{imported} records");
        Ok(())
    }
}
