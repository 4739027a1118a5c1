//! The graphics and video devices of the machine, by which a change of its hardware is noticed.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folder and beginning of the names of devices that encode or decode.
const DEVICES: [(&str, &str); 3] = [("dri", "renderD"), ("", "nvidia"), ("", "video")];

/// Names kept, so that a machine with many cameras is no burden.
const MAX_DEVICES: usize = 256;

/// Bytes read of a file that describes the machine.
const MAX_TEXT_BYTES: u64 = 4096;

/// The number of a vendor, as the kernel writes it.
const NVIDIA: &str = "0x10de";

/// How often it is looked whether a device has come or gone.
const INTERVAL: Duration = Duration::from_secs(10);

/// The devices below a folder as they come and go.
#[derive(Debug)]
pub struct DeviceWatch {
    folder: PathBuf,
    devices: BTreeSet<String>,
}

impl DeviceWatch {
    /// `folder` is e.g. `/dev`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), devices: list_devices(folder) }
    }

    /// Waits until a device has come or gone since the last call.
    pub async fn changed(&mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let found = list_devices(&self.folder);
            if found != self.devices {
                tracing::info!(?found, "graphics and video devices have changed: encoders are tested again");
                self.devices = found;
                return;
            }
        }
    }
}

/// The names of the devices below this folder, e.g. `/dev`.
pub fn list_devices(folder: &Path) -> BTreeSet<String> {
    let in_folder = |(sub_folder, prefix): &(&str, &'static str)| {
        let prefix = *prefix;
        let entries = std::fs::read_dir(folder.join(sub_folder)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(move |name| name.starts_with(prefix))
    };
    DEVICES.iter().flat_map(in_folder).take(MAX_DEVICES).collect()
}

/// The device that VAAPI uses, e.g. `/dev/dri/renderD128`: the first that is not of NVIDIA, whose drivers encode by other interfaces.
/// A machine may have several graphics cards, and a container some of their devices.
pub fn vaapi_device() -> String {
    choose_vaapi_device(Path::new("/dev"), Path::new("/sys/class/drm"))
}

fn choose_vaapi_device(devices: &Path, class: &Path) -> String {
    let is_usable = |name: &String| read_start(&class.join(name).join("device/vendor")).trim() != NVIDIA;
    let mut names = list_devices(devices).into_iter().filter(|name| name.starts_with("renderD"));
    let name = names.find(is_usable).unwrap_or_else(|| "renderD128".to_owned());
    format!("/dev/dri/{name}")
}

/// The graphics cards below `/sys/class/drm`: device, driver, and the numbers of vendor and model, e.g. `renderD128: i915, 0x8086 0x46d1`.
pub fn describe_graphics_cards(class: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(class).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("renderD")).take(MAX_DEVICES).collect();
    names.sort_unstable();
    let describe = |name: &String| {
        let device = class.join(name).join("device");
        let driver = std::fs::read_link(device.join("driver")).ok();
        let driver = driver.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or("no driver");
        let number = |file: &str| read_start(&device.join(file)).trim().to_owned();
        format!("{name}: {driver}, {} {}", number("vendor"), number("device"))
    };
    names.iter().map(describe).collect()
}

/// The name of the first processor; its architecture where the system states none.
pub fn processor_name() -> String {
    let text = read_start(Path::new("/proc/cpuinfo"));
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// The first bytes of a file of the system; empty if it cannot be read.
fn read_start(path: &Path) -> String {
    let mut text = Vec::new();
    #[allow(clippy::disallowed_methods, reason = "a file of the system")]
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_TEXT_BYTES).read_to_end(&mut text));
    if read.is_ok() { String::from_utf8_lossy(&text).into_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_encode_or_decode_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("dri")).unwrap();
        for name in ["dri/card0", "dri/renderD128", "nvidia0", "nvidiactl", "video11", "sda"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let expected = ["nvidia0", "nvidiactl", "renderD128", "video11"].map(str::to_owned);
        assert_eq!(list_devices(folder.path()), BTreeSet::from(expected));
        assert!(list_devices(Path::new("/nonexistent")).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_device_that_comes_or_goes_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut devices = DeviceWatch::new(folder.path());
        for change in [|path: &Path| std::fs::write(path, ""), |path: &Path| std::fs::remove_file(path)] {
            change(&folder.path().join("video0")).unwrap();
            devices.changed().await;
            let unchanged = tokio::time::timeout(10 * INTERVAL, devices.changed()).await;
            assert!(unchanged.is_err(), "it is noticed once");
        }
    }

    #[test]
    fn vaapi_uses_the_first_card_that_is_there_and_not_of_nvidia() {
        let folder = tempfile::tempdir().unwrap();
        let (devices, class) = (folder.path().join("dev"), folder.path().join("class"));
        std::fs::create_dir_all(devices.join("dri")).unwrap();
        assert_eq!(choose_vaapi_device(&devices, &class), "/dev/dri/renderD128", "there is no card");
        for (name, vendor) in [("renderD128", NVIDIA), ("renderD129", "0x8086"), ("renderD130", "0x1002")] {
            std::fs::create_dir_all(class.join(name).join("device")).unwrap();
            std::fs::write(class.join(name).join("device/vendor"), format!("{vendor}\n")).unwrap();
            std::fs::write(devices.join("dri").join(name), "").unwrap();
        }
        assert_eq!(choose_vaapi_device(&devices, &class), "/dev/dri/renderD129");
        std::fs::remove_file(devices.join("dri/renderD129")).unwrap();
        assert_eq!(choose_vaapi_device(&devices, &class), "/dev/dri/renderD130");
    }

    #[test]
    fn graphics_cards_are_described_by_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("renderD128/device");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("vendor"), "0x8086\n").unwrap();
        std::fs::write(device.join("device"), "0x46d1\n").unwrap();
        std::os::unix::fs::symlink("/drivers/i915", device.join("driver")).unwrap();
        std::fs::create_dir(folder.path().join("card0")).unwrap();
        assert_eq!(describe_graphics_cards(folder.path()), ["renderD128: i915, 0x8086 0x46d1"]);
        assert!(!processor_name().is_empty());
    }
}
