//! A disk that fills up: a tmpfs where the system allows one, otherwise a limit on file sizes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Size of the tmpfs, bytes: the server's reserve of 32 MiB, and room to work.
const SIZE_BYTES: u64 = 80 << 20;

/// A tmpfs in its own mount namespace, which needs no privileges. Dropping it unmounts it.
pub struct SmallDisk {
    holder: Child,
    /// Path of the mounted folder as this process sees it.
    outside_path: PathBuf,
}

impl SmallDisk {
    /// Mounts a tmpfs over an empty folder; None where user namespaces are not allowed.
    pub fn mount_over(folder: &Path) -> Option<Self> {
        let mount = format!("mount -t tmpfs -o size={SIZE_BYTES} none \"$0\" && echo ready && exec cat");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = command.spawn().ok()?;
        let mut ready_line = [0; 6];
        let is_ready = holder.stdout.as_mut().expect("it is piped").read_exact(&mut ready_line).is_ok();
        let outside = PathBuf::from(format!("/proc/{}/root{}", holder.id(), folder.display()));
        let disk = Self { holder, outside_path: outside };
        (is_ready && std::fs::write(disk.filler_path(), "").is_ok()).then_some(disk)
    }

    /// A command that runs a program inside the mount namespace.
    pub fn command_inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--user", "--preserve-credentials", "--mount", "--"]);
        command
    }

    pub fn outside_path(&self) -> &Path {
        &self.outside_path
    }

    /// Fills the disk up to the last `left_bytes` bytes, in one call as far as possible.
    pub fn fill_up_to(&self, left_bytes: u64) {
        let file = File::options().write(true).open(self.filler_path()).expect("the filler file exists");
        let flags = rustix::fs::FallocateFlags::empty();
        let free_bytes = || rustix::fs::statvfs(&self.outside_path).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        let missing_bytes = free_bytes().saturating_sub(left_bytes);
        let filler_bytes = file.metadata().expect("the filler file has metadata").len();
        let _ = rustix::fs::fallocate(&file, flags, filler_bytes, missing_bytes.max(1));
        // Other writers took some space meanwhile: fill the rest page by page.
        let mut end = filler_bytes + missing_bytes;
        while free_bytes() > left_bytes && file.write_all_at(&[1; 4096], end).is_ok() {
            end += 4096;
        }
    }

    /// Frees the space taken by [`Self::fill_up_to`].
    pub fn free(&self) {
        File::create(self.filler_path()).expect("the filler file can be emptied");
    }

    fn filler_path(&self) -> PathBuf {
        self.outside_path.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Limits the size of any file written by a running process; None removes the limit. Needs no privileges.
pub fn limit_file_size(pid: u32, bytes: Option<u64>) {
    let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    let status =
        Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={limit}:unlimited")]).status();
    assert!(status.expect("prlimit runs").success());
}
