//! The use of this process: memory and open files, as the kernel states them.

/// The use of one moment; None where the kernel does not state it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Memory that is resident, bytes, without child processes.
    pub memory_bytes: Option<u64>,
    pub open_descriptors: Option<u64>,
}

impl ProcessUsage {
    /// The use now.
    #[allow(clippy::disallowed_methods, reason = "paths of the kernel about this process")]
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").ok();
        // The folder itself is open while it is read.
        let descriptors = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1));
        Self {
            memory_bytes: status.as_deref().and_then(resident_bytes),
            open_descriptors: descriptors.map(|count| count as u64),
        }
    }
}

/// `VmRSS` of `/proc/<pid>/status`, which is in KiB.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_an_open_file_counts() {
        assert_eq!(resident_bytes("Name:\ta\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident_bytes("Name:\ta\n"), None);
        let usage = ProcessUsage::read();
        assert!(usage.memory_bytes.is_some_and(|bytes| bytes > 1 << 20), "{usage:?}");
        // Other tests open files in the meantime, so at least the three standard ones.
        assert!(usage.open_descriptors.is_some_and(|count| count >= 3), "{usage:?}");
    }
}
