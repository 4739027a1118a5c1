//! A program that a child will run: what has to be executable for it.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes read from the beginning of a program: ELF header, program headers, the first line of a script.
const HEAD_BYTES: usize = 4096;

/// Loaders of programs whose headers are not read: the interpreters of scripts.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Folders of the programs that a script may start, beside its own and those of the search path.
const PROGRAM_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/nix/store"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// Whether it is a script, as wrappers are: it starts other programs.
    pub is_script: bool,
    /// Files, and for a script folders, that must be executable.
    pub executable: Vec<PathBuf>,
    /// Folders beside that of the program where its own libraries may be.
    pub libraries: Vec<PathBuf>,
}

impl Program {
    /// Examines a program, given by its path or by a name on the search path as in execvp(3). A missing program has no
    /// executable files.
    pub fn examine(program: &Path) -> Self {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&search_path).filter(|folder| folder.is_absolute()).collect();
        let path = if program.components().nth(1).is_some() {
            Some(program.to_owned())
        } else {
            folders.iter().map(|folder| folder.join(program)).find(|path| path.is_file())
        };
        path.map_or_else(Self::default, |path| Self::examine_file(&path, folders))
    }

    fn examine_file(path: &Path, search_path: Vec<PathBuf>) -> Self {
        // Links are followed: the file is executed, and its libraries lie beside it, at its real path.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let head = read_head(&path);
        let own_folder = path.parent().map(Path::to_owned);
        let mut executable = vec![path.clone()];
        let is_script = head.starts_with(b"#!");
        if is_script {
            executable.extend(script_interpreter(&head));
            executable.extend(LOADERS.iter().chain(&PROGRAM_FOLDERS).map(PathBuf::from));
            executable.extend(own_folder.clone());
            executable.extend(search_path);
        } else {
            executable.extend(elf_interpreter(&head));
        }
        let base = own_folder.as_deref().and_then(Path::parent);
        let libraries = base.map(|base| ["lib", "lib64"].map(|name| base.join(name)).into()).unwrap_or_default();
        Self { is_script, executable, libraries }
    }
}

fn read_head(path: &Path) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES];
    #[allow(clippy::disallowed_methods, reason = "the configured program")]
    let length = File::open(path).and_then(|file| file.read_at(&mut head, 0)).unwrap_or(0);
    head.truncate(length);
    head
}

/// The interpreter in the first line of a script.
fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(words.next()?)))
}

/// The loader that a 64-bit little-endian ELF file names in its `PT_INTERP` header; None in a static one (elf(5)).
fn elf_interpreter(head: &[u8]) -> Option<PathBuf> {
    const PT_INTERP: u64 = 3;
    const CLASS_64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
    if !head.starts_with(CLASS_64_LITTLE_ENDIAN) {
        return None;
    }
    let number = |offset: usize, length: usize| {
        let bytes = head.get(offset..offset.checked_add(length)?)?;
        let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(number)
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    (0..count).find_map(|n| {
        let header = usize::try_from(table.checked_add(n * size)?).ok()?;
        if number(header, 4)? != PT_INTERP {
            return None;
        }
        let (start, length) = (number(header.checked_add(8)?, 8)?, number(header.checked_add(32)?, 8)?);
        let end = usize::try_from(start.checked_add(length)?).ok()?;
        let text = head.get(usize::try_from(start).ok()?..end)?.split(|byte| *byte == 0).next()?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_needs_itself_and_its_loader() {
        let shell = Program::examine(Path::new("/bin/sh"));
        assert!(!shell.is_script);
        let [program, loader] = &shell.executable[..] else { panic!("{shell:?}") };
        assert_eq!(*program, std::fs::canonicalize("/bin/sh").unwrap());
        assert!(loader.is_file() && loader.to_str().unwrap().contains("/ld-"), "{loader:?}");
        assert_eq!(Program::examine(Path::new("sh")).executable, shell.executable, "found on the search path");
    }

    #[test]
    fn a_script_needs_its_interpreter_and_the_folders_of_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrapper");
        std::fs::write(&path, "#! /opt/shell -e\nexec ffmpeg\n").unwrap();
        let script = Program::examine(&path);
        assert!(script.is_script);
        for needed in [&path, folder.path(), Path::new("/opt/shell"), Path::new("/usr/bin")] as [&Path; 4] {
            assert!(script.executable.iter().any(|path| path == needed), "{}", needed.display());
        }
    }

    #[test]
    fn damaged_and_missing_programs_are_no_scripts() {
        let shell = read_head(Path::new("/bin/sh"));
        for length in 0..shell.len() {
            let _ = elf_interpreter(&shell[..length]);
        }
        let mut endless = shell;
        endless[56..58].fill(0xff);
        endless[54..56].fill(0xff);
        let _ = elf_interpreter(&endless);
        assert!(!Program::examine(Path::new("/no/such/program")).is_script);
    }
}
