//! A disk that fills up: a small one of its own where the system lets one be made, else a limit on the size of files.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Size of a disk of its own, bytes: the server's reserve of 32 MiB, and room to work.
const SIZE: u64 = 80 << 20;

/// A tmpfs in a mount namespace of its own, which needs no rights. Dropping it takes it away.
pub struct Disk {
    holder: Child,
    /// The mounted folder as this process sees it.
    outside: PathBuf,
}

impl Disk {
    /// Mounts one over an empty folder; None where user namespaces are not allowed.
    pub fn over(folder: &Path) -> Option<Self> {
        let mount = format!("mount -t tmpfs -o size={SIZE} none \"$0\" && echo ready && exec cat");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = command.spawn().ok()?;
        let mut said = [0; 6];
        let ready = holder.stdout.as_mut().expect("it is piped").read_exact(&mut said).is_ok();
        let outside = PathBuf::from(format!("/proc/{}/root{}", holder.id(), folder.display()));
        let disk = Self { holder, outside };
        (ready && std::fs::write(disk.filler(), "").is_ok()).then_some(disk)
    }

    /// A command that runs a program where the disk can be seen.
    pub fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--user", "--preserve-credentials", "--mount", "--"]);
        command
    }

    pub fn outside(&self) -> &Path {
        &self.outside
    }

    /// Takes all space but `left` bytes, at one stroke as far as there is as much.
    pub fn fill(&self, left: u64) {
        let file = File::options().write(true).open(self.filler()).expect("there is a file that fills the disk");
        let flags = rustix::fs::FallocateFlags::empty();
        let free = || rustix::fs::statvfs(&self.outside).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        let most = free().saturating_sub(left);
        let taken = file.metadata().expect("it is there").len();
        let _ = rustix::fs::fallocate(&file, flags, taken, most.max(1));
        // Whoever else wrote meanwhile took some: the rest page by page, until nothing is left.
        let mut end = taken + most;
        while free() > left && file.write_all_at(&[1; 4096], end).is_ok() {
            end += 4096;
        }
    }

    /// Gives back what was taken.
    pub fn free(&self) {
        File::create(self.filler()).expect("it can be emptied");
    }

    fn filler(&self) -> PathBuf {
        self.outside.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Limits how long any file of a running process may grow; None takes the limit away. Needs no rights.
pub fn limit_files(pid: u32, bytes: Option<u64>) {
    let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    let status =
        Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={limit}:unlimited")]).status();
    assert!(status.expect("prlimit runs").success());
}
